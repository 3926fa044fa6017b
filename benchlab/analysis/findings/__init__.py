"""What a number may not be, or what it means: a module each, see benchlab.analysis.finding. `_formats.py` is shared."""
