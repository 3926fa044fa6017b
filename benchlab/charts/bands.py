# SPDX-License-Identifier: Apache-2.0
"""Bands of a tool's windows behind the lines of a chart over time: a band and its name in every panel. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agents.contracts import Window
from benchlab.charts.panels import axis_name
from benchlab.runs.strips import MetricRows

# Grey of half light, so that it is seen on a white page and on a dark one: what was not measured is shaded, and what
# was has a bar on top of its panel; every second one fainter, as they touch.
UNMEASURED_FILL = "rgba(128,140,160,0.18)"
MEASURED_FILLS = ("rgba(128,140,160,0.9)", "rgba(128,140,160,0.5)")
TRANSPARENT = "rgba(0,0,0,0)"
# of a panel's height
BAR_HEIGHT = 0.025
# Of a panel's width: so much of it a lying letter needs; a name that has not room stands
LETTER_WIDTH = 1 / 50
# letters that a panel is high; the table under the chart has the whole name
MAX_VERTICAL_LETTERS = 20


def window_bands(
    windows: Sequence[Window], panels: int, rows_drawn: Iterable[MetricRows] = ()
) -> list[dict[str, Any]]:
    """Shapes for panels 1, 2, …: each window with its name as high as the panel, then the bars of what was measured.

    `found`: what is drawn over them; it goes on where sampling did.
    """
    ends = [float(rows.buckets.times[-1]) for rows in rows_drawn if len(rows.buckets.times)]
    whole = max([*ends, *(window.end for window in windows)], default=0.0)
    lying = all(
        window.end - window.start > whole * LETTER_WIDTH * len(window.name) for window in windows
    )
    numbers = range(1, panels + 1)
    named_shapes = [
        _window_shape(window, number, standing=not lying)
        for window in windows
        for number in numbers
    ]
    measured = [window for window in windows if window.measured]
    return named_shapes + [
        _rectangle(window, number, 1 - BAR_HEIGHT, MEASURED_FILLS[index % 2]) | {"layer": "above"}
        for index, window in enumerate(measured)
        for number in numbers
    ]


def _window_shape(window: Window, number: int, *, standing: bool) -> dict[str, Any]:
    label = (
        _vertical_label(window.name)
        if standing
        else {"text": window.name, "textposition": "top left"}
    )
    shape = _rectangle(window, number, 0, TRANSPARENT if window.measured else UNMEASURED_FILL)
    return shape | {"label": {"font": {"size": 9}, **label}}


def _rectangle(window: Window, number: int, bottom: float, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": axis_name("x", number),
        "yref": f"{axis_name('y', number)} domain",
        "x0": window.start,
        "x1": window.end,
        "y0": bottom,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": colour,
    }


def _vertical_label(name: str) -> dict[str, Any]:
    short = name if len(name) <= MAX_VERTICAL_LETTERS else f"{name[: MAX_VERTICAL_LETTERS - 1]}…"
    return {"text": short, "textposition": "bottom left", "textangle": -90}
