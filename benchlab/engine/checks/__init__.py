"""Checks before and after anything is done to a layout."""
