# SPDX-License-Identifier: Apache-2.0
"""Spans of a run, for tools that warm up before they measure. Pure."""

from __future__ import annotations

from agents.contracts import Window

# s of a preparation that is worth a name
SHORTEST = 0.5


def after_ramp(start: float, end: float, ramp: float) -> list[Window]:
    """One measured window, and what came before it."""
    warm = max(0.0, start - ramp)
    before = [Window("file layout", 0.0, warm, False), Window("ramp", warm, start, False)]
    return [*(w for w in before if w.end - w.start >= SHORTEST), Window("measured", start, end)]
