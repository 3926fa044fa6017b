"""Drivers of benchmark tools: one module each; the file name is its kind."""
