"""What a tool did when, behind the lines of a chart over time: a band and its name in every panel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.contracts import Window
from benchlab.charts.panels import axis

# Grey of half light, so that it is seen on a white page and on a dark one; every second one fainter, as they touch.
MEASURED = ("rgba(128,140,160,0.20)", "rgba(128,140,160,0.10)")
BEFORE = "rgba(128,140,160,0.05)"
LYING = 3  # names that have room beside one another; of more, each stands
ACROSS = 10  # characters that a lying name may have in a narrow band, at least


def bands(windows: Sequence[Window], panels: int) -> list[dict[str, Any]]:
    """Shapes for panels 1, 2, …, as high as each is."""
    whole = max((one.end for one in windows), default=0.0)
    lying = len(windows) <= LYING
    found = []
    for index, one in enumerate(windows):
        colour = MEASURED[index % 2] if one.measured else BEFORE
        wide = lying and (one.end - one.start) * 40 > whole * min(len(one.name), ACROSS)
        for number in range(1, panels + 1):
            found.append(_band(one, colour, number, standing=not wide))
    return found


def _band(one: Window, colour: str, number: int, *, standing: bool) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": axis("x", number),
        "yref": f"{axis('y', number)} domain",
        "x0": one.start,
        "x1": one.end,
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": colour,
        "label": {
            "text": one.name,
            "textposition": "top left",
            "font": {"size": 9},
            **({"textangle": -90} if standing else {}),
        },
    }
