"""Drivers of samplers: one module each; the file name is its kind."""
