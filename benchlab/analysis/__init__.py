# SPDX-License-Identifier: Apache-2.0
"""Pure numpy: curves and statistics. Imports numpy and scipy only."""
