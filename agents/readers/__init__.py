"""Readers of results that were measured elsewhere: one module per kind (agents.drivers.protocols.Reader)."""
