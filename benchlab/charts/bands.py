"""What a tool did when, behind the lines of a chart over time: a band and its name in every panel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.contracts import Window
from benchlab.charts.panels import axis

# Grey of half light, so that it is seen on a white page and on a dark one: what was not measured is shaded, and what
# was has a bar on top of its panel; every second one fainter, as they touch.
BEFORE = "rgba(128,140,160,0.18)"
MEASURED = ("rgba(128,140,160,0.9)", "rgba(128,140,160,0.5)")
BAR = 0.025  # of a panel's height
LETTER = (
    1 / 60
)  # of a panel's width: so much of it a lying letter needs; a name that has not room stands
STANDING = 20  # letters that a panel is high; the table under the chart has the whole name


def bands(windows: Sequence[Window], panels: int) -> list[dict[str, Any]]:
    """Shapes for panels 1, 2, …"""
    whole = max((one.end for one in windows), default=0.0)
    lying = all(one.end - one.start > whole * LETTER * len(one.name) for one in windows)
    return [
        _band(one, MEASURED[index % 2] if one.measured else BEFORE, number, standing=not lying)
        for index, one in enumerate(windows)
        for number in range(1, panels + 1)
    ]


def _band(one: Window, colour: str, number: int, *, standing: bool) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "above" if one.measured else "below",
        "xref": axis("x", number),
        "yref": f"{axis('y', number)} domain",
        "x0": one.start,
        "x1": one.end,
        "y0": 1 - BAR if one.measured else 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": colour,
        "label": {
            "font": {"size": 9},
            **(_standing(one.name) if standing else _lying(one.name, bar=one.measured)),
        },
    }


def _lying(name: str, *, bar: bool) -> dict[str, Any]:
    """Below a bar, which is lower than a letter is high."""
    return {"text": name, "textposition": "top left", **({"yanchor": "top"} if bar else {})}


def _standing(name: str) -> dict[str, Any]:
    short = name if len(name) <= STANDING else f"{name[: STANDING - 1]}…"
    return {"text": short, "textposition": "bottom left", "textangle": -90}
