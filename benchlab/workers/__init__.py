"""Messages to workers, their sign of life, and leases in PostgreSQL."""
