# SPDX-License-Identifier: Apache-2.0
"""BenchLab: what the team sees and what is remembered."""

__version__ = "0.2.0"
