"""Workloads that sweep no outstanding I/Os (dd, say): a bar for the median and a dot per repeat. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchlab.analysis.curves import spread
from benchlab.charts import figure
from benchlab.charts.curve import METRICS, Choice, Line, lines_of, url
from benchlab.charts.figure import Figure
from benchlab.charts.queries import Group
from benchlab.charts.templatetags.si import si


def build(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """One bar per line; a click on a dot opens its run."""
    word, unit = METRICS[choice.metric]
    name = choice.name(choice.metric)
    lines = [
        line
        for line in lines_of([group for group in groups if not group.swept])
        if any(name in sample.values for sample in line.group.samples)
    ]
    if not lines:
        return figure.empty(title, f"No {word} measured yet.")
    data = [trace for line in lines for trace in (_bar(line, name, unit), _dots(line, name, unit))]
    layout = figure.layout(
        f"{word} · {title}",
        "Bar: median over repeats. Dot: one run; a click opens it.",
        height=150 + 46 * len(lines),
        xaxis=figure.value_axis(word, unit),
        yaxis={"automargin": True, "autorange": "reversed", "type": "category"},
        showlegend=False,
        bargap=0.45,
    )
    return {"data": data, "layout": layout}


def _values(line: Line, name: str) -> list[float]:
    return [sample.values[name] for sample in line.group.samples if name in sample.values]


def _bar(line: Line, name: str, unit: str) -> dict[str, Any]:
    point = spread(_values(line, name))
    text = f"{line.label}<br>median of {point.n}: <b>{si(point.median, unit)}</b>"
    if point.low is not None and point.high is not None:
        text += f"<br>{si(point.low, unit)} to {si(point.high, unit)}"
    return {
        "type": "bar",
        "orientation": "h",
        "name": line.label,
        "x": [point.median],
        "y": [line.label],
        "marker": {
            "color": line.style.faded(0.25),
            "line": {"color": line.style.colour, "width": 1},
        },
        "text": [si(point.median, unit)],
        "textposition": "inside",
        "insidetextanchor": "start",
        "hovertext": [text],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _dots(line: Line, name: str, unit: str) -> dict[str, Any]:
    found = [sample for sample in line.group.samples if name in sample.values]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": line.label,
        "x": [sample.values[name] for sample in found],
        "y": [line.label] * len(found),
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": [[url(sample.run)] for sample in found],
        "text": [
            f"{line.label}<br>repeat {sample.repeat}: <b>{si(sample.values[name], unit)}</b>"
            f"{'<br>' + sample.during if sample.during else ''}<br>run {sample.run} · click opens it"
            for sample in found
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }
