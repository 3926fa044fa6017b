"""Results that were measured elsewhere: a person's uploads, and the reference library."""
