"""What is done to findings on pages: dismissed with a note, taken back."""
