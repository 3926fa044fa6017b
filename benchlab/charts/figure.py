# SPDX-License-Identifier: Apache-2.0
"""Shared parts of all figures: Plotly JSON as plain dicts. Colours of text and grid are the page's (charts.js)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any

import orjson

from benchlab.analysis.series import round_significant
from benchlab.charts.palette import dark_swaps
from benchlab.web.units import si

Figure = dict[str, Any]
# Of a legend below a plot: the narrowest that lies flat, what a key takes, a letter, and a row.
LEGEND_PX, KEY_PX, LETTER_PX, ROW_PX = 560, 48, 6.5, 20
# of an axis, so that a marker at its end is whole
EDGE_SHARE = 0.04
Axis = dict[str, Any]

# All but what our own texts are set with.
MARKUP = re.compile(r"<(?!/?(?:br|b|extra)>)")
# d3-format: SI prefixes, three significant digits.
SI_TICKS = "~s"


def base_layout(title: str, subtitle: str = "", height: int = 520, **more: Any) -> dict[str, Any]:
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
        "margin": {"l": 64, "r": 24, "t": 80, "b": 56},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top"},
        "meta": {"dark": dark_swaps()},
        **more,
    }


def fit_legend(figure: Figure) -> Figure:
    """The figure, as much higher as the rows of its legend need: Plotly would take them from the plot."""
    layout = figure["layout"]
    names = [trace["name"] for trace in figure["data"] if trace.get("name") and _in_legend(trace)]
    count, used = 1, 0.0
    for name in names:
        wide = KEY_PX + LETTER_PX * len(name)
        count, used = (
            (count, used + wide) if used + wide <= LEGEND_PX or not used else (count + 1, wide)
        )
    layout["height"] += (count - 1) * ROW_PX
    layout["title"]["y"] = 1 - 24 / layout["height"]
    layout["legend"] |= {"tracegroupgap": 0, "maxheight": (count + 1) * ROW_PX}
    layout["meta"] |= {"rows": count}
    return figure


def _in_legend(trace: dict[str, Any]) -> bool:
    return bool(trace.get("showlegend", True))


def panel_domains(count: int, gap: float = 0.06) -> list[list[float]]:
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


def tick_format(unit: str) -> Axis:
    """2ms, 150MB/s, 40k: where there is a unit, its prefix alone would be read as part of a number."""
    if unit == "%":
        return {"ticksuffix": " %"}
    if unit == "1":
        return {}
    return {"tickformat": SI_TICKS, "ticksuffix": unit if unit in ("s", "B/s") else ""}


def value_axis(title: str, unit: str) -> Axis:
    """A linear axis from zero in base units; the unit stands in its title too."""
    return {
        "title": {"text": f"{title} ({unit})"},
        **tick_format(unit),
        "zeroline": False,
        "showgrid": True,
        "rangemode": "tozero",
        "automargin": True,
    }


def log_axis(title: str, unit: str, numbers: Sequence[float], dense: int = 99) -> Axis:
    """A logarithmic axis with ticks at 1, 2 and 5 of each decade that `numbers` reach; at least two are in sight.

    Of more decades than `dense` at 1 alone: there is no room for all.
    """
    positive = [number for number in numbers if number > 0] or [1.0]
    least, most = min(positive), max(positive)
    decades = range(floor(log10(least)), ceil(log10(most)) + 1)
    digits = (1, 2, 5) if log10(most / least) <= dense else (1,)
    at = [digit * 10.0**decade for decade in decades for digit in digits]
    return {
        "type": "log",
        **_surrounding_range(least, most, at),
        "title": {"text": f"{title} ({unit})"},
        "tickmode": "array",
        "tickvals": at,
        "ticktext": [si(value, unit) for value in at],
        "automargin": True,
        "zeroline": False,
        "showgrid": True,
    }


def _surrounding_range(least: float, most: float, ticks: Sequence[float]) -> Axis:
    """Return the range from the tick below to the one above if fewer than two lie between; else Plotly fits it."""
    if sum(least <= tick <= most for tick in ticks) > 1:
        return {}
    below = max((tick for tick in ticks if tick <= least * (1 + 1e-9)), default=least)
    above = min((tick for tick in ticks if tick > most and tick > below), default=most)
    room = EDGE_SHARE * (log10(above) - log10(below))
    return {"range": [log10(below) - room, log10(above) + room]}


def figure_json(figure: Figure) -> bytes:
    """JSON in which no name (a disk's, a campaign's) is a link or a style: Plotly takes some HTML in texts."""
    return orjson.dumps(_escape_names(figure))


def _escape_names(value: Any) -> Any:
    if isinstance(value, str):
        return MARKUP.sub("&lt;", value)
    if isinstance(value, dict):
        return {
            name: _escape_names(_rounded_values(item) if name == "y" else item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple) and not (value and isinstance(value[0], float)):
        return [_escape_names(item) for item in value]
    return value


def _rounded_values(values: Any) -> Any:
    """Round values to the digits that a chart needs: the others were half of a large campaign's response."""
    numbers = isinstance(values, list | tuple) and all(
        isinstance(number, float) for number in values
    )
    return round_significant(values, 6) if numbers else values


def empty_figure(title: str, message: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    note = {
        "text": message,
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0.5,
        "y": 0.5,
    }
    hidden = {"visible": False}
    return {
        "data": [],
        "layout": base_layout(title, height=260, annotations=[note], xaxis=hidden, yaxis=hidden),
    }
