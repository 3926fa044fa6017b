"""Drivers of storage layers: one module each; the file name is its kind."""
