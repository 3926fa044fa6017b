"""Hosts, their devices, credentials and facts."""
