"""Results: layouts, attempts, steps, artifacts, measurements, series."""
