"""Phases of a layout and its attempts, and the actions of each."""
