"""POST with an Idempotency-Key is done once, however often it is sent."""
