"""Pure numpy: curves and statistics. Imports numpy and scipy only."""
