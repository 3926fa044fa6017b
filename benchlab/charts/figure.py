# SPDX-License-Identifier: Apache-2.0
"""A chart is a description (`Chart`), of which `build_figure` makes Plotly's JSON as plain dicts.

Colours of text and grid are the page's (charts.js), and so is the arrangement in a narrow one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, log10
from textwrap import shorten
from typing import Any

import orjson
from django.urls import reverse

from benchlab.analysis.series import round_significant
from benchlab.charts.palette import INKS, Style, dark_swaps
from benchlab.web.units import si

Figure = dict[str, Any]
Trace = dict[str, Any]
# Of a legend below a plot: the narrowest that lies flat, what a key takes, a letter, and a row.
LEGEND_PX, KEY_PX, LETTER_PX, ROW_PX = 560, 48, 6.5, 20
# of an axis, so that a marker at its end is whole
EDGE_SHARE = 0.04
Axis = dict[str, Any]

# All but what our own texts are set with.
MARKUP = re.compile(r"<(?!/?(?:br|b|extra)>)")
# d3-format: SI prefixes, three significant digits.
SI_TICKS = "~s"
# Names at the ends of lines: of at most so many lines; shares of the axis that names keep apart, and that one may
# stand above its end.
MAX_NAMED_LINES, NAME_GAP, MAX_NAME_SHIFT = 6, 0.06, 0.15
# the axis's length to that of its data
LOG_AXIS_REACH = 1.3
MAX_NAME_LETTERS = 28
# How the `name` of such an annotation begins, before its line's legendgroup: charts.js leaves it out of a narrow chart,
# and hides it with its line.
END_PREFIX = "end: "


@dataclass(frozen=True, slots=True)
class Subplot:
    """A pair of axes, with words above them; `whole_heading` is shown to who points at those."""

    x: Axis
    y: Axis
    heading: str = ""
    whole_heading: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """`subplots` stand in so many columns, from the top; `gaps`: shares of width and height between them."""

    title: str
    subtitle: str
    traces: Sequence[Trace]
    subplots: Sequence[Subplot]
    height: int = 520
    columns: int = 1
    gaps: tuple[float, float] = (0.0, 0.0)
    legend: Mapping[str, object] = field(default_factory=dict)
    annotations: Sequence[Mapping[str, object]] = ()
    # what charts.js reads
    meta: Mapping[str, object] = field(default_factory=dict)
    # further parts of Plotly's layout
    layout: Mapping[str, object] = field(default_factory=dict)


def build_figure(chart: Chart) -> Figure:
    layout = base_layout(chart.title, chart.subtitle, chart.height, **chart.layout)
    layout["legend"] |= chart.legend
    layout["meta"] |= chart.meta
    layout["annotations"] = list(chart.annotations)
    rows = panel_domains(ceil(len(chart.subplots) / chart.columns), chart.gaps[1])
    width = (1 - chart.gaps[0] * (chart.columns - 1)) / chart.columns
    for index, subplot in enumerate(chart.subplots):
        row, column = divmod(index, chart.columns)
        left = column * (width + chart.gaps[0])
        x, y = {}, {}
        if len(chart.subplots) > 1:
            x = {"domain": [left, left + width], "anchor": axis_name("y", index + 1)}
            y = {"domain": rows[row], "anchor": axis_name("x", index + 1)}
        number = axis_name("", index + 1)
        layout |= {"xaxis" + number: subplot.x | x, "yaxis" + number: subplot.y | y}
        if subplot.heading:
            heading = heading_annotation(subplot.heading, left, rows[row][1])
            layout["annotations"].append(heading | {"hovertext": subplot.whole_heading})
    figure = {"data": one_entry_each(chart.traces), "layout": layout}
    return fit_legend(figure) if layout.get("showlegend", True) else figure


def heading_annotation(text: str, x: float, y: float) -> dict[str, Any]:
    """Words above a panel, from there on to the right."""
    return {
        "text": text,
        "align": "left",
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def axis_name(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def axes_of(number: int) -> Trace:
    """The part of a trace that says in which subplot it is, from 1."""
    return {"xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}


def one_entry_each(traces: Iterable[Trace]) -> list[Trace]:
    """The traces, of which the first of a group with a name and a point is the group's entry in the legend."""
    entries: set[tuple[str, str]] = set()
    data = []
    for trace in traces:
        name = trace.get("name", "")
        group = name, trace.get("legendgroup", "")
        entry = trace.get("showlegend", True) and bool(name and len(trace["x"]))
        data.append(trace | {"showlegend": entry and group not in entries})
        entries |= {group} if entry else set()
    return data


def run_url(run: int) -> str:
    """Address to which a click leads."""
    return reverse("run-detail", args=[run])


def run_links(runs: Iterable[int]) -> list[list[str]]:
    return [[run_url(run)] for run in runs]


def line_trace(
    name: str,
    style: Style,
    points: tuple[Sequence[Any], Sequence[Any]],
    runs: Iterable[int],
    hovers: Sequence[str],
    **more: Any,
) -> Trace:
    """A line whose points lead to runs. `points`: their x and their y."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": name,
        "x": points[0],
        "y": points[1],
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"color": style.colour, "symbol": style.marker, "size": 8},
        "customdata": run_links(runs),
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
        **more,
    }


def band_trace(
    x: list[Any], low: list[float | None], high: list[float | None], colour: str, **more: Any
) -> Trace:
    """The area between two lines, without an entry in the legend."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x + x[::-1],
        "y": low + high[::-1],
        "fill": "toself",
        "fillcolor": colour,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        **more,
    }


def end_names(
    lines: Sequence[Trace],
    axes: Trace,
    logs: tuple[bool, bool],
    notes: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Names of a panel's lines, and what is noted of them, at their ends: if there are few lines, and room for all.

    Else the legend alone names them. To the right there is room: Plotly fits an axis to its annotations, too.
    """
    notes = notes or {}
    has_names = len(lines) > 1
    lines = [line for line in lines if has_names or notes.get(line["legendgroup"])]
    if not 0 < len(lines) <= MAX_NAMED_LINES:
        return []
    x, y = (
        [[log10(n) if log and n > 0 else n for n in line[axis]] for line in lines]
        for axis, log in zip("xy", logs, strict=True)
    )
    # A logarithmic axis reaches from one labelled value to another, a linear one from 0.
    reach = LOG_AXIS_REACH * (max(map(max, y)) - min(map(min, y))) if logs[1] else max(map(max, y))
    places: dict[int, float] = {}
    lowest = -inf
    for at in sorted(range(len(lines)), key=lambda at: y[at][-1]):
        places[at] = max(y[at][-1], lowest)
        lowest = places[at] + NAME_GAP * reach
        if places[at] - y[at][-1] > MAX_NAME_SHIFT * reach:
            return []
    return [
        {
            "name": f"{END_PREFIX}{line['legendgroup']}",
            "text": _end_text(
                line["name"] if has_names else "", notes.get(line["legendgroup"], "")
            ),
            "x": x[at][-1],
            "y": places[at],
            "xref": axes["xaxis"],
            "yref": axes["yaxis"],
            "xanchor": "left",
            "xshift": 8,
            "showarrow": False,
            "font": {"color": INKS[line["line"]["color"]], "size": 11},
        }
        for at, line in enumerate(lines)
    ]


def _end_text(name: str, note: str) -> str:
    short = shorten(name, MAX_NAME_LETTERS - len(note), placeholder="…")
    return " · ".join(filter(None, (short, note)))


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
