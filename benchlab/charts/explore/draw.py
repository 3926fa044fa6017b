# SPDX-License-Identifier: Apache-2.0
"""The figure of Explore: one panel with every line, small multiples on one scale, or a heat map. Pure: lines -> figure.

A heat map shows a metric by two factors (depth by block size, say): one panel a line, one scale for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from benchlab.analysis.formats import ratio_sign, ratio_tick
from benchlab.charts import figure
from benchlab.charts.explore import factors
from benchlab.charts.explore.exploration import ExploreChart
from benchlab.charts.explore.factors import EACH, Level
from benchlab.charts.explore.lines import Line, Point, Quantity
from benchlab.charts.figure import Axis, Chart, Figure, Subplot, Trace, axes_of, axis_name
from benchlab.charts.palette import COLOURS, HEAT_SCALE, rgba
from benchlab.web.units import short_si, si

# all others, behind the one that a panel is about
BACKGROUND_COLOUR = rgba(COLOURS[-1], 0.22)
# only the page's table names more lines
MAX_LEGEND_LINES = 6
# of more lines they would cover each other
MAX_BANDS = 6
TIMES = "×"
PANEL_PX, GAP_PX, EDGE_PX = 170, 46, 136
# of two metrics of all lines, one panel beside the other
SPLIT_PX = 330
# of a heat map
ROW_PX, HEAT_GAP_PX, HEAT_EDGE_PX = 30, 70, 150
# letters of headings beside each other
HEADING_LETTERS = 130
TITLE_WITH_UNIT = re.compile(r"(.*) \(([^()]*)\)", re.DOTALL)
# a further line of one
HEADING_PX = 14


def build_explore_figure(chart: ExploreChart) -> Figure:
    if not any(line.points for line in (*chart.lines, *chart.around)):
        x, y = chart.axis_titles
        words = dict.fromkeys(q.word for q in (chart.x, chart.y, chart.colour) if q)
        what = " and ".join(words) or f"{y} over {x}"
        return figure.empty_figure(chart.heading, f"No run here measured {what}.")
    if chart.colour and not chart.x and not chart.y:
        return _heat_map(chart, chart.colour)
    panels = _facet_panels(chart)
    alone = len(panels) == (2 if chart.beside else 1)
    traces = []
    for number, panel in enumerate(panels, start=1):
        if not alone:
            traces += _background_lines(panel, number)
        for line in panel.lines:
            traces += _line_traces(panel.chart, line, number, alone=alone)
    return figure.build_figure(
        _single_panel(chart, traces) if len(panels) == 1 else _panel_grid(chart, panels, traces)
    )


class FacetPanel(NamedTuple):
    """A panel: `lines` are those in colour, `chart` is the one whose axes it has."""

    heading: str
    lines: list[Line]
    chart: ExploreChart


def _facet_panels(chart: ExploreChart) -> list[FacetPanel]:
    """Panels, for two metrics one panel beside the other, in two columns."""
    facets = _facets(chart)
    if not chart.beside:
        return [FacetPanel(heading, lines, chart) for heading, lines in facets]
    other = {line.id: line for line in chart.beside.lines}
    panels = []
    for heading, lines in facets:
        same = [other[line.id] for line in lines if line.id in other]
        for part, part_lines in ((chart, lines), (chart.beside, same)):
            words = filter(None, (heading, _axis(part, 1)["title"]["text"]))
            panels.append(FacetPanel(" · ".join(words), part_lines, part))
    return panels


def _facets(chart: ExploreChart) -> list[tuple[str, list[Line]]]:
    facet, lines = chart.axes.facet, chart.all_lines
    if facet == EACH:
        return [(line.label, [line]) for line in lines]
    if not facet or facet in chart.point_factors:
        return [("", lines)]
    levels = {line.levels[facet] for line in lines}
    word = "" if facet in factors.IDENTITY else factors.factor_word(facet) + " "
    return [
        (word + level.text, [line for line in lines if line.levels[facet] == level])
        for level in sorted(levels, key=lambda level: level.sort_key)
    ]


def _single_panel(chart: ExploreChart, traces: list[Trace]) -> Chart:
    x, y = _axis(chart, 0), _axis(chart, 1)
    listed = len(chart.lines) > MAX_LEGEND_LINES
    ends: list[dict[str, Any]] = []
    numeric = (axis.get("type") not in ("category", "date") for axis in (x, y))
    if not chart.colour and all(numeric):
        lines = [trace for trace in traces if "fill" not in trace and trace["x"]]
        logs = x.get("type") == "log", y.get("type") == "log"
        ends = figure.end_names(lines, axes_of(1), logs)
    baseline = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": 1,
        "y1": 1,
        "line": {"color": rgba(COLOURS[-1], 0.6), "width": 1, "dash": "dot"},
    }
    return Chart(
        chart.title,
        _subtitle(chart),
        traces,
        [Subplot(x, y)],
        legend={"y": -0.18},
        annotations=ends,
        meta={"listed": listed},
        layout={
            "hovermode": "closest" if chart.x else "x unified",
            # as the lines lie above each other
            "hoversort": "value descending",
            "showlegend": not listed,
            "shapes": [baseline] if chart.baseline else [],
        },
    )


def _panel_grid(chart: ExploreChart, panels: Sequence[FacetPanel], traces: list[Trace]) -> Chart:
    columns = 2 if chart.beside else _column_count(len(panels))
    rows = math.ceil(len(panels) / columns)
    split = bool(chart.beside) and rows == 1
    inside = rows * (SPLIT_PX if split else PANEL_PX) + (rows - 1) * GAP_PX
    headings = [_wrap_heading(panel.heading, HEADING_LETTERS // columns) for panel in panels]
    higher = HEADING_PX if any(len(lines) > 1 for lines in headings[:columns]) else 0
    # no subplot of another metric is on the scale of the first one's
    first_of = {id(panel.chart): at for at, panel in reversed([*enumerate(panels, start=1)])}
    subplots = []
    for number, (panel, heading) in enumerate(zip(panels, headings, strict=True), start=1):
        row, column = divmod(number - 1, columns)
        x, y = _axis(panel.chart, 0), _axis(panel.chart, 1) | {"title": {"text": ""}}
        x["showticklabels"] = number + columns > len(panels)
        y["showticklabels"] = column == 0 or bool(chart.beside)
        y["nticks"] = 6 if split else 4
        if row < rows - 1:
            x["title"] = {"text": ""}
        if number > 1:
            x["matches"] = "x"
        if number > (first := first_of[id(panel.chart)]):
            y["matches"] = axis_name("y", first)
        words = _bold_heading("<br>".join(heading), united=bool(chart.beside))
        subplots.append(Subplot(x, y, words, panel.heading))
    listed = len(chart.all_lines) > MAX_LEGEND_LINES
    margin = {"l": 64, "r": 24, "t": 80 + higher, "b": 56}
    return Chart(
        chart.title,
        _subtitle(chart),
        traces,
        subplots,
        height=inside + EDGE_PX + higher,
        columns=columns,
        # where each panel has ticks of its own
        gaps=(0.08 if chart.beside else 0.035, GAP_PX / inside),
        legend={"y": -0.18} if chart.beside else {},
        meta={"columns": columns} | ({"listed": listed} if chart.beside else {}),
        layout={
            "showlegend": bool(chart.beside) and not listed,
            "margin": margin,
            **({} if chart.x else {"hovermode": "x", "hoversubplots": "axis"}),
        },
    )


def _bold_heading(text: str, *, united: bool) -> str:
    """`united`: a unit is at its end, which is quieter, as above every y axis (charts.js)."""
    match = TITLE_WITH_UNIT.fullmatch(text) if united else None
    if not match:
        return f"<b>{text}</b>"
    return f"<b>{match[1]}</b>" + (f" {match[2]}" if match[2] != "1" else "")


def _wrap_heading(text: str, most: int) -> list[str]:
    """Wrap the text at words onto at most two lines of `most` letters. Its hover text shows what has no room."""
    lines = wrap(text, most, max_lines=2, placeholder="…") or [text]
    return [line.replace(" ·…", "…") for line in lines]


def _column_count(panels: int) -> int:
    return 2 if panels <= 4 else 3 if panels <= 9 else 4


def _subtitle(chart: ExploreChart) -> str:
    every = (*chart.lines, *chart.around)
    most = max(len(point.runs) for line in every for point in line.points)
    parts = [f"Point: median of up to {most} runs" if most > 1 else "Point: one run"]
    if chart.x and chart.y:
        parts.append(
            f", at each {factors.lower_first(factors.factor_word(chart.point_factors[0]))}"
        )
    if _has_bands(chart) and most >= 3:
        parts.append("; band: smallest to largest")
    parts.append(".")
    if chart.baseline:
        parts.append(f" Ratio of medians to {chart.baseline}, where both have the point.")
    if _is_stepped(chart):
        parts.append(
            " What was told, joined by steps; from counted bins: Compare by workload, drawn as CDF."
        )
    return "".join(parts)


def _is_stepped(chart: ExploreChart) -> bool:
    """True for a CDF of percentiles: between two of them nobody knows."""
    return chart.axes.y == factors.PERCENTILE and bool(chart.x)


def _axis(chart: ExploreChart, place: int) -> Axis:
    """Return the x axis (0) or the y axis (1): of a metric, of a numeric factor, of names, or of time."""
    quantity = chart.y if place else chart.x
    word, log = chart.axis_titles[place], chart.logs[place]
    if quantity:
        return _quantity_axis(chart, quantity, place, log=log)
    name = chart.axes.y if place else chart.axes.x
    levels = chart.levels(name)
    title: Axis = {"title": {"text": word}}
    if name == "date":
        return title | {"type": "date", "zeroline": False}
    if not _are_numbers(levels):
        return title | {"automargin": True} | _categories(levels)
    return title | {
        "type": "log" if log and min(level.number or 0 for level in levels) > 0 else "linear",
        "tickmode": "array",
        "tickvals": [level.number for level in levels],
        "ticktext": [level.text for level in levels],
        "zeroline": False,
    }


def _quantity_axis(chart: ExploreChart, quantity: Quantity, place: int, *, log: bool) -> Axis:
    lines = chart.lines if place else (*chart.lines, *chart.around)
    points = [point.y if place else point.x for line in lines for point in line.points]
    numbers = [number for number in points if number is not None]
    ratio = bool(place and chart.baseline)
    word, unit = (f"{quantity.word}, ratio", TIMES) if ratio else (quantity.word, quantity.unit)
    if not (log and any(number > 0 for number in numbers)):
        axis = figure.value_axis(word, unit)
        # 0.5 ×, which is no 500 m of anything
        return axis | ({"tickformat": ".3~f", "ticksuffix": "\u00a0×"} if ratio else {})
    axis = figure.log_axis(word, unit, numbers)
    return axis | ({"ticktext": [ratio_tick(value) for value in axis["tickvals"]]} if ratio else {})


def _categories(levels: Sequence[Level]) -> Axis:
    texts = list(dict.fromkeys(level.text for level in levels))
    return {"type": "category", "categoryorder": "array", "categoryarray": texts}


def _are_numbers(levels: Sequence[Level]) -> bool:
    return all(level.number is not None for level in levels)


def _coordinates(chart: ExploreChart, points: Sequence[Point]) -> tuple[list[Any], list[Any]]:
    """The x and the y of points."""
    x, y = (
        [getattr(point, axis) for point in points]
        if getattr(chart, axis)
        else _level_coordinates(chart, points, getattr(chart.axes, axis))
        for axis in "xy"
    )
    return x, y


def _level_coordinates(chart: ExploreChart, points: Sequence[Point], name: str) -> list[Any]:
    as_text = name == "date" or not _are_numbers(chart.levels(name))
    levels = [chart.point_level(name, point) for point in points]
    return [level.text if as_text else level.number for level in levels]


def _background_lines(panel: FacetPanel, number: int) -> list[Trace]:
    """Every other line, grey, so that a panel shows where its own are among all."""
    own = {line.id for line in panel.lines}
    x: list[Any] = []
    y: list[Any] = []
    for line in panel.chart.lines:
        if line.id not in own:
            line_x, line_y = _coordinates(panel.chart, line.points)
            x += [*line_x, None]
            y += [*line_y, None]
    grey = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        **axes_of(number),
        "line": {"color": BACKGROUND_COLOUR, "width": 1},
        "hoverinfo": "skip",
    }
    return [grey] if x else []


def _line_traces(chart: ExploreChart, line: Line, number: int, *, alone: bool) -> list[Trace]:
    style = chart.styles[line.id]
    common = {"legendgroup": line.id, **axes_of(number)}
    points = _coordinates(chart, line.points)
    runs = [point.nearest for point in line.points]
    hovers = [_point_hover(chart, line, point) for point in line.points]
    median = figure.line_trace(line.label, style, points, runs, hovers, **common)
    if _is_stepped(chart):
        median["line"]["shape"] = "hv"
    if not alone:
        median["marker"]["size"] = 5
    if chart.colour:
        median["marker"] |= _colour_scale(chart, chart.colour) | {
            "color": [point.colour for point in line.points],
            "showscale": line is chart.lines[0],
            "line": {"color": style.colour, "width": 1.5},
            "size": 11,
        }
    banded = line.points if alone and _has_bands(chart) else ()
    ranges = [point for point in banded if point.spread.low is not None]
    if not ranges:
        return [median]
    x, _ = _coordinates(chart, ranges)
    low, high = [p.spread.low for p in ranges], [p.spread.high for p in ranges]
    return [figure.band_trace(x, low, high, style.faded(0.15), **common), median]


def _colour_scale(chart: ExploreChart, quantity: Quantity) -> dict[str, Any]:
    every = [p.colour for line in chart.lines for p in line.points if p.colour is not None]
    return {
        "colorscale": HEAT_SCALE,
        "colorbar": {"title": {"text": quantity.word}, "len": 0.6},
        "cmin": min(every),
        "cmax": max(every),
    }


def _has_bands(chart: ExploreChart) -> bool:
    return len(chart.lines) <= MAX_BANDS and not chart.x and bool(chart.y) and not chart.axes.facet


def _point_hover(chart: ExploreChart, line: Line, point: Point) -> str:
    """Return the label and numbers; one text line each in a panel whose lines share a hover."""
    values = []
    for quantity, value in ((chart.x, point.x), (chart.y, point.y), (chart.colour, point.colour)):
        if quantity and value is not None:
            ratio = quantity is chart.y and chart.baseline
            values.append(f"<b>{ratio_sign(value) if ratio else si(value, quantity.unit)}</b>")
    text = f"{line.label}: {', '.join(values) or point.at[-1].text}"
    if chart.y and not chart.baseline and point.spread.low is not None:
        low, high = si(point.spread.low, chart.y.unit), si(point.spread.high, chart.y.unit)
        text += f" ({low} to {high})"
    if chart.x:
        factor = factors.lower_first(factors.factor_word(chart.point_factors[0]))
        text += f" at {factor} {point.at[0].text}"
    return text


def _heat_map(chart: ExploreChart, quantity: Quantity) -> Figure:
    """Cells that nobody measured stay empty."""
    xs, ys = chart.levels(chart.axes.x), chart.levels(chart.axes.y)
    columns = 1 if len(chart.lines) == 1 else 2
    rows = math.ceil(len(chart.lines) / columns)
    inside = rows * ROW_PX * max(3, len(ys)) + (rows - 1) * HEAT_GAP_PX
    x_title, y_title = chart.axis_titles
    subplots = []
    for index, line in enumerate(chart.lines):
        below = index + columns >= len(chart.lines)
        x = _categories(xs) | {"title": {"text": x_title if below else ""}, "zeroline": False}
        y = _categories(ys) | {"automargin": True, "showticklabels": index % columns == 0}
        subplots.append(Subplot(x, y, f"<b>{line.label}</b> {factors.lower_first(y_title)}"))
    lines = enumerate(chart.lines, start=1)
    color_axis = {"colorscale": HEAT_SCALE, "colorbar": {"title": {"text": quantity.unit}}}
    return figure.build_figure(
        Chart(
            chart.heading,
            "Each field: median over its runs; a click opens one of them.",
            [_heat_panel(line, quantity.unit, xs, ys) | axes_of(number) for number, line in lines],
            subplots,
            height=inside + HEAT_EDGE_PX,
            columns=columns,
            gaps=(0.03, HEAT_GAP_PX / inside if rows > 1 else 0.0),
            meta={"columns": columns},
            layout={"showlegend": False, "coloraxis": color_axis},
        )
    )


def _heat_panel(line: Line, unit: str, xs: Sequence[Level], ys: Sequence[Level]) -> Trace:
    by_place = {(point.at[0], point.at[-1]): point for point in line.points}
    cells = [[by_place.get((x, y)) for x in xs] for y in ys]
    return {
        "type": "heatmap",
        "name": line.label,
        "x": [level.text for level in xs],
        "y": [level.text for level in ys],
        "z": [[cell.colour if cell else None for cell in row] for row in cells],
        "text": [[short_si(cell.colour, unit) if cell else "" for cell in row] for row in cells],
        "texttemplate": "%{text}",
        "customdata": [
            [[figure.run_url(cell.runs[0])] if cell else [""] for cell in row] for row in cells
        ],
        "hovertext": [
            [_cell_hover(line, cell, unit) if cell else "" for cell in row] for row in cells
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverongaps": False,
        "coloraxis": "coloraxis",
        "xgap": 2,
        "ygap": 2,
    }


def _cell_hover(line: Line, cell: Point, unit: str) -> str:
    place = f"{cell.at[0].text}, {cell.at[-1].text}"
    value = f"<b>{si(cell.colour, unit)}</b>"
    return f"{line.label}<br>{place}: {value}<br>median of {len(cell.runs)}"
