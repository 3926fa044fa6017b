"""Changes to answers on pages: dismissed with a note, taken back."""
