"""Who did what to which host and device: a log that only grows, each entry sealed by the hash of the one before."""
