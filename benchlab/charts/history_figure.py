# SPDX-License-Identifier: Apache-2.0
"""A set-up's history as a figure: a dot per run, the level of each stretch between changes, and the changes. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from benchlab.analysis.curves import median_of
from benchlab.analysis.rate_words import shown_unit
from benchlab.charts import figure, naming
from benchlab.charts.curve import run_url
from benchlab.charts.figure import Figure
from benchlab.charts.history import History, HistoryChange, HistoryRun
from benchlab.charts.palette import device_style
from benchlab.web.units import si

LEVEL_NAME = "median between confirmed and possible changes"
CONFIRMED_NAME, POSSIBLE_NAME = "change", "possible change"
UNUSUAL_NAME = "stands out from the runs before it"
IGNORED_CHANGE_NAME = "the ignored property changes here"


def build_history_figure(title: str, history: History) -> Figure:
    """Runs in order, not by the clock: weeks without a run would press those of one night together."""
    word, unit = naming.metric_word(history.metric), shown_unit(history.metric, history.unit)
    if not history.runs:
        return figure.empty_figure(title, f"No run of this set-up measured {word}.")
    top = max(run.value for run in history.runs) * 1.08
    data = [
        _level_lines(history),
        *_change_lines(history, top),
        *_ignored_change_lines(history, top),
        _run_dots(history, unit),
    ]
    if history.unusual:
        data.append(_unusual_rings(history))
    many = len(history.runs)
    layout = figure.base_layout(
        f"{word} over time · {title}",
        f"Dot: one of {many} run{'' if many == 1 else 's'}, a click opens it. Line: median of a stretch.",
        height=460,
        xaxis=_run_axis(history),
        yaxis=figure.value_axis(word, unit),
    )
    layout["legend"]["y"] = -0.24
    return {"data": data, "layout": layout}


def _run_axis(history: History) -> dict[str, Any]:
    """Runs by number; at some of them stands when they ran."""
    every = max(1, -(-len(history.runs) // 8))
    at = list(range(0, len(history.runs), every))
    return {
        "title": {"text": "Runs in the order of time (UTC)"},
        "tickmode": "array",
        "tickvals": [index + 1 for index in at],
        "ticktext": [f"{history.runs[index].at:%Y-%m-%d}" for index in at],
        "range": [0, len(history.runs) + 1],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _run_dots(history: History, unit: str) -> dict[str, Any]:
    look = device_style(0)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "showlegend": False,
        "x": list(range(1, len(history.runs) + 1)),
        "y": [run.value for run in history.runs],
        "marker": {"color": look.colour, "symbol": look.marker, "size": 7},
        "customdata": [[run_url(run.run)] for run in history.runs],
        "text": [_run_hover(run, unit) for run in history.runs],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _run_hover(run: HistoryRun, unit: str) -> str:
    part = f"<br>{run.ignored_value}" if run.ignored_value else ""
    return (
        f"{run.at:%Y-%m-%d %H:%M} UTC<br>{run.campaign_name}, repeat {run.repeat}: "
        f"<b>{si(run.value, unit)}</b>{part}<br>run {run.run} · click opens it"
    )


def _level_lines(history: History) -> dict[str, Any]:
    edges = [0, *(change.at for change in history.changes), len(history.runs)]
    x: list[float | None] = []
    y: list[float | None] = []
    for begin, end in pairwise(edges):
        level = median_of([run.value for run in history.runs[begin:end]])
        x += [begin + 0.6, end + 0.4, None]
        y += [level, level, None]
    line = {"color": device_style(0).faded(0.6), "width": 2}
    return _history_trace(LEVEL_NAME, x, y, line) | {"showlegend": bool(history.changes)}


def _change_lines(history: History, top: float) -> list[dict[str, Any]]:
    return [
        trace
        for name, confirmed in ((CONFIRMED_NAME, True), (POSSIBLE_NAME, False))
        if (
            steps := [
                change for change in history.history_changes if change.change.confirmed is confirmed
            ]
        )
        for trace in [_vertical_lines(name, steps, top, confirmed=confirmed)]
    ]


def _vertical_lines(
    name: str, steps: list[HistoryChange], top: float, *, confirmed: bool
) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str] = []
    for step in steps:
        at = step.change.at + 0.5
        sign = "+" if step.change.ratio > 1 else "−"
        x += [at, at, None]
        y += [0, top, None]
        text += ["", f"{sign}{step.change_percent} %", ""]
    colour = device_style(1).colour
    line = {
        "color": colour,
        "width": 2 if confirmed else 1.5,
        "dash": "solid" if confirmed else "dot",
    }
    return _history_trace(name, x, y, line) | {
        "mode": "lines+text",
        "text": text,
        "textposition": "top center",
        "textfont": {"color": colour, "size": 11},
        "cliponaxis": False,
    }


def _ignored_change_lines(history: History, top: float) -> list[dict[str, Any]]:
    """Lines where the part that was let go becomes another, whether anything changed there or not."""
    at = [
        n
        for n in range(1, len(history.runs))
        if history.runs[n].ignored_value != history.runs[n - 1].ignored_value
    ]
    if not at:
        return []
    x = [value for n in at for value in (n + 0.5, n + 0.5, None)]
    y = [value for _ in at for value in (0, top * 0.94, None)]
    return [
        _history_trace(
            IGNORED_CHANGE_NAME,
            x,
            y,
            {"color": device_style(2).colour, "width": 1.5, "dash": "dashdot"},
        )
    ]


def _unusual_rings(history: History) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": UNUSUAL_NAME,
        "x": [outlier.at + 1 for outlier in history.unusual],
        "y": [history.runs[outlier.at].value for outlier in history.unusual],
        "marker": {
            "symbol": "circle-open",
            "size": 15,
            "color": device_style(1).colour,
            "line": {"width": 1.5},
        },
        "hoverinfo": "skip",
    }


def _history_trace(name: str, x: list[Any], y: list[Any], line: dict[str, Any]) -> dict[str, Any]:
    look = {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip"}
    return {"name": name, "x": x, "y": y, **look}
