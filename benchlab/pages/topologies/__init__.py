"""Pages of topologies."""
