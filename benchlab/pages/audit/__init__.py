"""The audit log, as a page and as CSV."""
