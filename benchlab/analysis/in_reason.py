# SPDX-License-Identifier: Apache-2.0
"""Limits of reasonable numbers. Without numpy, for those who only check a number."""

from __future__ import annotations

MOST_REPEATS = 30
NOT_IN_REASON = "not decidable in reason: lower the noise"
