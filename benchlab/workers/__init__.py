"""What web and workers tell each other: messages to workers, their sign of life, and leases in PostgreSQL."""
