# SPDX-License-Identifier: Apache-2.0
"""Limits of reasonable numbers. Without numpy, for those who only check a number."""

from __future__ import annotations

MAX_REPEATS = 30
NOT_DECIDABLE = "not decidable in reason: lower the noise"
