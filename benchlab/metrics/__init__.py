"""Metrics of the whole installation for Prometheus."""
