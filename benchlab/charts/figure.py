"""What all figures share: Plotly JSON as plain dicts. Colours of text and grid are the page's (charts.js)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchlab.charts.palette import dark_swaps
from benchlab.charts.templatetags.si import si

Figure = dict[str, Any]
Axis = dict[str, Any]

# d3-format: SI prefixes, three significant digits.
SI_TICKS = "~s"


def layout(title: str, subtitle: str = "", height: int = 520, **more: Any) -> dict[str, Any]:
    """A layout with what every figure has. `meta.dark`: what to swap on a dark page."""
    return {
        "title": {
            "text": title,
            "subtitle": {"text": subtitle, "font": {"size": 12}},
            "x": 0,
            "xref": "paper",
            "yref": "container",
            "y": 1 - 24 / height,
            "yanchor": "bottom",
            "font": {"size": 15},
        },
        "height": height,
        "margin": {"l": 64, "r": 24, "t": 64, "b": 48},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top"},
        "meta": {"dark": dark_swaps()},
        **more,
    }


def rows(count: int, gap: float = 0.06) -> list[list[float]]:
    """Domains of `count` equally high panels, top first."""
    high = (1 - gap * (count - 1)) / count
    return [
        [max(0.0, 1 - (i + 1) * high - i * gap), min(1.0, 1 - i * (high + gap))]
        for i in range(count)
    ]


def depth_axis(depths: Sequence[int]) -> Axis:
    """Outstanding I/Os: logarithmic, a tick at each measured value."""
    return {
        "type": "log",
        "tickmode": "array",
        "tickvals": list(depths),
        "ticktext": [str(depth) for depth in depths],
        "title": {"text": "Outstanding I/Os (queue depth × jobs)"},
        "showgrid": True,
        "zeroline": False,
    }


def value_axis(title: str, unit: str, *, log: bool = False) -> Axis:
    """An axis of base units with SI prefixes: 12k, 1.2m; the unit stands in its title."""
    axis: Axis = {
        "title": {"text": f"{title} ({unit})"},
        "tickformat": SI_TICKS,
        "zeroline": False,
        "showgrid": True,
    }
    return axis | ({"type": "log", "dtick": "D2"} if log else {"rangemode": "tozero"})


def values(numbers: Sequence[float], unit: str) -> list[str]:
    """Numbers as hover texts: "12.3 k IOPS"."""
    return [si(number, unit) for number in numbers]


def empty(title: str, says: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    note = {"text": says, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    hidden = {"visible": False}
    return {
        "data": [],
        "layout": layout(title, height=260, annotations=[note], xaxis=hidden, yaxis=hidden),
    }
