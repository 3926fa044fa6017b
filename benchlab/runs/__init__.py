"""What happened: layouts, attempts, steps, artifacts, measurements, series; and the engine that makes it happen."""
