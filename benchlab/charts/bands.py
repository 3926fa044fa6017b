# SPDX-License-Identifier: Apache-2.0
"""Bands of a tool's windows behind the lines of a chart over time: a band and its name in every panel. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agents.contracts import Window
from benchlab.charts.panels import axis
from benchlab.runs.strips import Rows

# Grey of half light, so that it is seen on a white page and on a dark one: what was not measured is shaded, and what
# was has a bar on top of its panel; every second one fainter, as they touch.
BEFORE = "rgba(128,140,160,0.18)"
MEASURED = ("rgba(128,140,160,0.9)", "rgba(128,140,160,0.5)")
CLEAR = "rgba(0,0,0,0)"
# of a panel's height
BAR = 0.025
# Of a panel's width: so much of it a lying letter needs; a name that has not room stands
LETTER = 1 / 50
# letters that a panel is high; the table under the chart has the whole name
STANDING = 20


def bands(
    windows: Sequence[Window], panels: int, found: Iterable[Rows] = ()
) -> list[dict[str, Any]]:
    """Shapes for panels 1, 2, …: each window with its name as high as the panel, then the bars of what was measured.

    `found`: what is drawn over them; it goes on where sampling did.
    """
    ends = [float(rows.buckets.times[-1]) for rows in found if len(rows.buckets.times)]
    whole = max([*ends, *(one.end for one in windows)], default=0.0)
    lying = all(one.end - one.start > whole * LETTER * len(one.name) for one in windows)
    numbers = range(1, panels + 1)
    named = [_named(one, number, standing=not lying) for one in windows for number in numbers]
    measured = [one for one in windows if one.measured]
    return named + [
        _shape(one, number, 1 - BAR, MEASURED[index % 2]) | {"layer": "above"}
        for index, one in enumerate(measured)
        for number in numbers
    ]


def _named(one: Window, number: int, *, standing: bool) -> dict[str, Any]:
    label = _standing(one.name) if standing else {"text": one.name, "textposition": "top left"}
    shape = _shape(one, number, 0, CLEAR if one.measured else BEFORE)
    return shape | {"label": {"font": {"size": 9}, **label}}


def _shape(one: Window, number: int, bottom: float, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": axis("x", number),
        "yref": f"{axis('y', number)} domain",
        "x0": one.start,
        "x1": one.end,
        "y0": bottom,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": colour,
    }


def _standing(name: str) -> dict[str, Any]:
    short = name if len(name) <= STANDING else f"{name[: STANDING - 1]}…"
    return {"text": short, "textposition": "bottom left", "textangle": -90}
