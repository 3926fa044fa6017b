"""Actions on findings on pages: dismissed with a note, taken back."""
