# SPDX-License-Identifier: Apache-2.0
"""A set-up's history as a figure: a dot per run, the level of each stretch between changes, and the changes. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from benchlab.analysis.curves import median_of
from benchlab.analysis.rate_words import shown_unit
from benchlab.charts import figure, naming
from benchlab.charts.curve import url
from benchlab.charts.figure import Figure
from benchlab.charts.history import History, Past, Step
from benchlab.charts.palette import style
from benchlab.web.units import si

LEVEL = "median between confirmed and possible changes"
CONFIRMED, POSSIBLE = "change", "possible change"
STANDS_OUT = "stands out from the runs before it"
MOVED = "the ignored property changes here"


def build(title: str, found: History) -> Figure:
    """Runs in order, not by the clock: weeks without a run would press those of one night together."""
    word, unit = naming.word(found.metric), shown_unit(found.metric, found.unit)
    if not found.runs:
        return figure.empty(title, f"No run of this set-up measured {word}.")
    top = max(one.value for one in found.runs) * 1.08
    data = [_levels(found), *_changes(found, top), *_moved(found, top), _dots(found, unit)]
    if found.unusual:
        data.append(_unusual(found))
    many = len(found.runs)
    layout = figure.layout(
        f"{word} over time · {title}",
        f"Dot: one of {many} run{'' if many == 1 else 's'}, a click opens it. Line: median of a stretch.",
        height=460,
        xaxis=_axis(found),
        yaxis=figure.value_axis(word, unit),
    )
    layout["legend"]["y"] = -0.24
    return {"data": data, "layout": layout}


def _axis(found: History) -> dict[str, Any]:
    """Runs by number; at some of them stands when they ran."""
    every = max(1, -(-len(found.runs) // 8))
    at = list(range(0, len(found.runs), every))
    return {
        "title": {"text": "Runs in the order of time (UTC)"},
        "tickmode": "array",
        "tickvals": [one + 1 for one in at],
        "ticktext": [f"{found.runs[one].at:%Y-%m-%d}" for one in at],
        "range": [0, len(found.runs) + 1],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _dots(found: History, unit: str) -> dict[str, Any]:
    look = style(0)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "showlegend": False,
        "x": list(range(1, len(found.runs) + 1)),
        "y": [one.value for one in found.runs],
        "marker": {"color": look.colour, "symbol": look.marker, "size": 7},
        "customdata": [[url(one.run)] for one in found.runs],
        "text": [_text(one, unit) for one in found.runs],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _text(one: Past, unit: str) -> str:
    part = f"<br>{one.part}" if one.part else ""
    return (
        f"{one.at:%Y-%m-%d %H:%M} UTC<br>{one.campaign_name}, repeat {one.repeat}: "
        f"<b>{si(one.value, unit)}</b>{part}<br>run {one.run} · click opens it"
    )


def _levels(found: History) -> dict[str, Any]:
    edges = [0, *(one.at for one in found.changes), len(found.runs)]
    x: list[float | None] = []
    y: list[float | None] = []
    for begin, end in pairwise(edges):
        level = median_of([one.value for one in found.runs[begin:end]])
        x += [begin + 0.6, end + 0.4, None]
        y += [level, level, None]
    line = {"color": style(0).faded(0.6), "width": 2}
    return _lines(LEVEL, x, y, line) | {"showlegend": bool(found.changes)}


def _changes(found: History, top: float) -> list[dict[str, Any]]:
    return [
        trace
        for name, confirmed in ((CONFIRMED, True), (POSSIBLE, False))
        if (steps := [one for one in found.steps if one.change.confirmed is confirmed])
        for trace in [_verticals(name, steps, top, confirmed=confirmed)]
    ]


def _verticals(name: str, steps: list[Step], top: float, *, confirmed: bool) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str] = []
    for one in steps:
        at = one.change.at + 0.5
        sign = "+" if one.change.ratio > 1 else "−"
        x += [at, at, None]
        y += [0, top, None]
        text += ["", f"{sign}{one.percent} %", ""]
    colour = style(1).colour
    line = {
        "color": colour,
        "width": 2 if confirmed else 1.5,
        "dash": "solid" if confirmed else "dot",
    }
    return _lines(name, x, y, line) | {
        "mode": "lines+text",
        "text": text,
        "textposition": "top center",
        "textfont": {"color": colour, "size": 11},
        "cliponaxis": False,
    }


def _moved(found: History, top: float) -> list[dict[str, Any]]:
    """Lines where the part that was let go becomes another, whether anything changed there or not."""
    at = [n for n in range(1, len(found.runs)) if found.runs[n].part != found.runs[n - 1].part]
    if not at:
        return []
    x = [value for n in at for value in (n + 0.5, n + 0.5, None)]
    y = [value for _ in at for value in (0, top * 0.94, None)]
    return [_lines(MOVED, x, y, {"color": style(2).colour, "width": 1.5, "dash": "dashdot"})]


def _unusual(found: History) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": STANDS_OUT,
        "x": [one.at + 1 for one in found.unusual],
        "y": [found.runs[one.at].value for one in found.unusual],
        "marker": {
            "symbol": "circle-open",
            "size": 15,
            "color": style(1).colour,
            "line": {"width": 1.5},
        },
        "hoverinfo": "skip",
    }


def _lines(name: str, x: list[Any], y: list[Any], line: dict[str, Any]) -> dict[str, Any]:
    look = {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip"}
    return {"name": name, "x": x, "y": y, **look}
