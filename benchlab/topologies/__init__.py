"""Topologies: named stacks of layers."""
