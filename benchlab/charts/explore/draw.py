# SPDX-License-Identifier: Apache-2.0
"""The figure of Explore: one panel with every line, or small multiples on one scale. Pure: lines -> figure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from benchlab.analysis.formats import ratio_sign, ratio_tick
from benchlab.charts import figure, label_places
from benchlab.charts.curve import run_url
from benchlab.charts.explore import factors, heat
from benchlab.charts.explore.exploration import ExploreChart
from benchlab.charts.explore.factors import Level
from benchlab.charts.explore.lines import Line, Point
from benchlab.charts.explore.query import EACH
from benchlab.charts.figure import Axis, Figure
from benchlab.charts.label_places import Scale
from benchlab.charts.palette import COLOURS, HEAT, Style, rgba
from benchlab.charts.panels import axis_name
from benchlab.web.units import si

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
# letters of headings beside each other
HEADING_LETTERS = 130
TITLE_WITH_UNIT = re.compile(r"(.*) \(([^()]*)\)", re.DOTALL)
# a further line of one
HEADING_PX = 14


def build_explore_figure(chart: ExploreChart) -> Figure:
    if not any(line.points for line in (*chart.lines, *chart.around)):
        x, y = chart.axis_titles
        both = " and ".join(
            dict.fromkeys(
                quantity.word for quantity in (chart.x, chart.y, chart.colour) if quantity
            )
        )
        return figure.empty_figure(
            chart.heading, f"No run here measured {both or f'{y} over {x}'}."
        )
    if chart.colour and not chart.x and not chart.y:
        return heat.build_factor_heat_map(chart.heading, chart)
    panels = _facet_panels(chart)
    data: list[dict[str, Any]] = []
    alone = len(panels) == (2 if chart.beside else 1)
    for number, panel in enumerate(panels, start=1):
        if not alone:
            data.append(_background_lines(panel.chart, panel.lines, number))
        for line in panel.lines:
            data += _line_traces(panel.chart, line, number, alone=alone)
    if chart.beside:
        _keep_first_entries(data)
    layout = _explore_layout(chart, panels)
    if len(panels) == 1 and not chart.colour:
        layout["annotations"] = _explore_end_names(chart, layout)
    return {"data": [trace for trace in data if trace], "layout": layout}


def _explore_end_names(chart: ExploreChart, layout: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Names at the ends of lines, where both axes are of numbers."""
    end_names = [
        label_places.NamedLine(
            line.label,
            line.id,
            chart.styles[line.id],
            _axis_coordinates(chart, line.points, 0),
            _axis_coordinates(chart, line.points, 1),
        )
        for line in chart.lines
        if line.points
    ]
    every = [name.x for name in end_names], [name.y for name in end_names]
    if not all(isinstance(n, int | float) for axis in every for line in axis for n in line):
        return []
    x, y = (
        Scale.fit(
            [number for line in every[place] for number in line],
            label_places.MIN_PLOT_PX if place == 0 else layout["height"] - EDGE_PX,
            log=layout[name].get("type") == "log",
            zero=layout[name].get("rangemode") == "tozero",
        )
        for place, name in enumerate(("xaxis", "yaxis"))
    )
    return label_places.end_name_annotations(end_names, x, y, {"xref": "x", "yref": "y"})


class FacetPanel(NamedTuple):
    """A panel: `lines` are those in colour, `of` is the chart whose axes it has."""

    heading: str
    lines: list[Line]
    chart: ExploreChart


def _facet_panels(chart: ExploreChart) -> list[FacetPanel]:
    """Panels, for two metrics one panel beside the other, in two columns."""
    facets = _facets(chart)
    if not chart.beside:
        return [FacetPanel(heading, lines, chart) for heading, lines in facets]
    other = {line.id: line for line in chart.beside.lines}
    facet_panels = []
    for heading, lines in facets:
        same = [other[line.id] for line in lines if line.id in other]
        for part, part_lines in ((chart, lines), (chart.beside, same)):
            word = _explore_axis(part, 1)["title"]["text"]
            facet_panels.append(
                FacetPanel(" · ".join(filter(None, (heading, word))), part_lines, part)
            )
    return facet_panels


def _facets(chart: ExploreChart) -> list[tuple[str, list[Line]]]:
    facet = chart.axes.facet
    if facet == EACH:
        return [(line.label, [line]) for line in chart.all_lines]
    if not facet or facet in chart.point_factors:
        return [("", chart.all_lines)]
    levels = sorted(
        {line.levels[facet] for line in chart.all_lines}, key=lambda level: level.sort_key
    )
    word = "" if facet in factors.IDENTITY else factors.factor_word(facet) + " "
    return [
        (word + level.text, [line for line in chart.all_lines if line.levels[facet] == level])
        for level in levels
    ]


def _keep_first_entries(data: Sequence[dict[str, Any]]) -> None:
    """A line has one entry of the legend, in the first panel that has points of it."""
    names: set[str] = set()
    for trace in data:
        if "name" in trace:
            trace["showlegend"] = bool(trace["x"]) and trace["name"] not in names
            names |= {trace["name"]} if trace["x"] else set()


def _explore_layout(chart: ExploreChart, panels: Sequence[FacetPanel]) -> dict[str, Any]:
    several = len(panels) > 1
    x = _explore_axis(chart, 0)
    subtitle = _explore_subtitle(chart)
    if not several:
        figure_layout = figure.base_layout(
            chart.title, subtitle, height=520, xaxis=x, yaxis=_explore_axis(chart, 1)
        )
        figure_layout["hovermode"] = "closest" if chart.x else "x unified"
        # as the lines lie above each other
        figure_layout["hoversort"] = "value descending"
        figure_layout["showlegend"] = len(chart.lines) <= MAX_LEGEND_LINES
        figure_layout["meta"]["listed"] = len(chart.lines) > MAX_LEGEND_LINES
        figure_layout["legend"]["y"] = -0.18
        if chart.baseline:
            figure_layout["shapes"] = [_baseline_shape()]
        return figure_layout
    columns = 2 if chart.beside else _column_count(len(panels))
    rows = math.ceil(len(panels) / columns)
    split = bool(chart.beside) and rows == 1
    inside = rows * (SPLIT_PX if split else PANEL_PX)
    inside += (rows - 1) * GAP_PX
    figure_layout = figure.base_layout(
        chart.title, subtitle, height=inside + EDGE_PX, showlegend=False
    )
    figure_layout["meta"]["columns"] = columns
    if not chart.x:
        figure_layout |= {"hovermode": "x", "hoversubplots": "axis"}
    if chart.beside:
        few = len(chart.all_lines) <= MAX_LEGEND_LINES
        figure_layout["showlegend"], figure_layout["meta"]["listed"] = few, not few
        figure_layout["legend"]["y"] = -0.18
    figure_layout["annotations"] = []
    headings = [_wrap_heading(panel.heading, HEADING_LETTERS // columns) for panel in panels]
    if any(len(lines) > 1 for lines in headings[:columns]):
        figure_layout["margin"]["t"] += HEADING_PX
        figure_layout["height"] += HEADING_PX
    domains = figure.panel_domains(rows, GAP_PX / inside)
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        # where each panel has ticks of its own
        gap = 0.08 if chart.beside else 0.035
        width = (1 - gap * (columns - 1)) / columns
        start = column * (width + gap)
        number = axis_name("", index + 1)
        last = index + columns >= len(panels)
        figure_layout["xaxis" + number] = {
            **x,
            "domain": [start, start + width],
            "anchor": axis_name("y", index + 1),
            "showticklabels": last,
            "title": x["title"] if row == rows - 1 else {"text": ""},
            **({"matches": "x"} if index else {}),
        }
        first = next(at for at, other in enumerate(panels) if other.chart is panel.chart)
        figure_layout["yaxis" + number] = {
            **_explore_axis(panel.chart, 1),
            "title": {"text": ""},
            "domain": domains[row],
            "anchor": axis_name("x", index + 1),
            "showticklabels": column == 0 or bool(chart.beside),
            "nticks": 6 if split else 4,
            **({"matches": axis_name("y", first + 1)} if index != first else {}),
        }
        figure_layout["annotations"].append(
            {
                "text": _bold_heading("<br>".join(headings[index]), united=bool(chart.beside)),
                "align": "left",
                "hovertext": panel.heading,
                "x": start,
                "y": domains[row][1],
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 12 if columns < 4 else 11},
            }
        )
    return figure_layout


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


def _baseline_shape() -> dict[str, Any]:
    """The baseline itself, across the panel."""
    line = {"color": rgba(COLOURS[-1], 0.6), "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": line}


def _explore_subtitle(chart: ExploreChart) -> str:
    every = (*chart.lines, *chart.around)
    most = max(len(point.runs) for line in every for point in line.points)
    median = f"Point: median of up to {most} runs" if most > 1 else "Point: one run"
    per = (
        f", at each {factors.lower_first(factors.factor_word(chart.point_factors[0]))}"
        if chart.x and chart.y
        else ""
    )
    band = "; band: smallest to largest" if _has_bands(chart) and most >= 3 else ""
    ratio = (
        f" Ratio of medians to {chart.baseline}, where both have the point."
        if chart.baseline
        else ""
    )
    steps = (
        " What was told, joined by steps; from counted bins: Compare by workload, drawn as CDF."
        if _is_stepped(chart)
        else ""
    )
    return f"{median}{per}{band}.{ratio}{steps}"


def _is_stepped(chart: ExploreChart) -> bool:
    """True for a CDF of percentiles: between two of them nobody knows."""
    return chart.axes.y == factors.PERCENTILE and bool(chart.x)


def _axis_numbers(chart: ExploreChart, place: int) -> list[float]:
    lines = chart.lines if place else (*chart.lines, *chart.around)
    numbers = [point.y if place else point.x for line in lines for point in line.points]
    return [number for number in numbers if number is not None]


def _explore_axis(chart: ExploreChart, place: int) -> Axis:
    """Return the x axis (0) or the y axis (1): of a metric, of a numeric factor, of names, or of time."""
    quantity = chart.y if place else chart.x
    word, log = chart.axis_titles[place], chart.logs[place]
    if quantity:
        numbers = _axis_numbers(chart, place)
        if place and chart.baseline:
            return _ratio_axis(word, numbers, log=log)
        if log and any(number > 0 for number in numbers):
            return figure.log_axis(quantity.word, quantity.unit, numbers)
        return figure.value_axis(quantity.word, quantity.unit)
    name = chart.axes.y if place else chart.axes.x
    levels = chart.levels(name)
    if name == "date":
        return {"type": "date", "title": {"text": word}, "zeroline": False}
    if not _are_numbers(levels):
        texts = list(dict.fromkeys(level.text for level in levels))
        array = {"categoryorder": "array", "categoryarray": texts}
        return {"type": "category", "title": {"text": word}, "automargin": True, **array}
    return {
        "type": "log" if log and min(level.number or 0 for level in levels) > 0 else "linear",
        "title": {"text": word},
        "tickmode": "array",
        "tickvals": [level.number for level in levels],
        "ticktext": [level.text for level in levels],
        "zeroline": False,
    }


def _ratio_axis(word: str, numbers: Sequence[float], *, log: bool) -> Axis:
    """0.5 ×, which is no 500 m of anything."""
    title = f"{word}, ratio"
    if log and any(number > 0 for number in numbers):
        log_axis = figure.log_axis(title, TIMES, numbers)
        return log_axis | {"ticktext": [ratio_tick(value) for value in log_axis["tickvals"]]}
    return figure.value_axis(title, TIMES) | {"tickformat": ".3~f", "ticksuffix": "\u00a0×"}


def _are_numbers(levels: Sequence[Level]) -> bool:
    return all(level.number is not None for level in levels)


def _axis_coordinates(chart: ExploreChart, points: Sequence[Point], place: int) -> list[Any]:
    """Values of points on x (0) or y (1)."""
    if chart.y if place else chart.x:
        return [point.y if place else point.x for point in points]
    name = chart.axes.y if place else chart.axes.x
    as_text = name == "date" or not _are_numbers(chart.levels(name))
    levels = [chart.point_level(name, point) for point in points]
    return [level.text if as_text else level.number for level in levels]


def _background_lines(chart: ExploreChart, lines: Sequence[Line], number: int) -> dict[str, Any]:
    """Every other line, grey, so that a panel shows where its own are among all."""
    own = {line.id for line in lines}
    x: list[Any] = []
    y: list[Any] = []
    for line in chart.lines:
        if line.id not in own:
            x += [*_axis_coordinates(chart, line.points, 0), None]
            y += [*_axis_coordinates(chart, line.points, 1), None]
    if not x:
        return {}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "xaxis": axis_name("x", number),
        "yaxis": axis_name("y", number),
        "line": {"color": BACKGROUND_COLOUR, "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _line_traces(
    chart: ExploreChart, line: Line, number: int, *, alone: bool
) -> list[dict[str, Any]]:
    style = chart.styles[line.id]
    panel = {"xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}
    marker: dict[str, Any] = {
        "color": style.colour,
        "symbol": style.marker,
        "size": 8 if alone else 5,
    }
    if chart.colour:
        scale = [[place / (len(HEAT) - 1), colour] for place, colour in enumerate(HEAT)]
        bar = {"title": {"text": chart.colour.word}, "len": 0.6}
        marker |= {
            "color": [point.colour for point in line.points],
            "colorscale": scale,
            "showscale": line is chart.lines[0],
            "colorbar": bar,
            "line": {"color": style.colour, "width": 1.5},
            "size": 11,
        }
        every = [
            point.colour
            for other in chart.lines
            for point in other.points
            if point.colour is not None
        ]
        marker |= {"cmin": min(every), "cmax": max(every)}
    median = panel | {
        "type": "scatter",
        "mode": "lines+markers",
        "name": line.label,
        "legendgroup": line.id,
        "x": _axis_coordinates(chart, line.points, 0),
        "y": _axis_coordinates(chart, line.points, 1),
        "line": {
            "color": style.colour,
            "dash": style.dash,
            "width": 2,
            **({"shape": "hv"} if _is_stepped(chart) else {}),
        },
        "marker": marker,
        "customdata": [[run_url(point.nearest)] for point in line.points],
        "hovertext": [_point_hover(chart, line, point) for point in line.points],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    return [*(_spread_band(chart, line, style, panel) if alone else []), median]


def _has_bands(chart: ExploreChart) -> bool:
    return len(chart.lines) <= MAX_BANDS and not chart.x and bool(chart.y) and not chart.axes.facet


def _spread_band(
    chart: ExploreChart, line: Line, style: Style, panel: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Band from the smallest to the largest run, where there are enough of them."""
    spread_points = (
        [point for point in line.points if point.spread.low is not None]
        if _has_bands(chart)
        else []
    )
    if not spread_points:
        return []
    x = _axis_coordinates(chart, spread_points, 0)
    low, high = (
        [point.spread.low for point in spread_points],
        [point.spread.high for point in spread_points],
    )
    return [
        {
            **panel,
            "type": "scatter",
            "mode": "lines",
            "x": x + x[::-1],
            "y": low + high[::-1],
            "fill": "toself",
            "fillcolor": style.faded(0.15),
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
            "legendgroup": line.id,
        }
    ]


def _point_hover(chart: ExploreChart, line: Line, point: Point) -> str:
    """Return the label and numbers; one text line each in a panel whose lines share a hover."""
    values = []
    for quantity, value in ((chart.x, point.x), (chart.y, point.y), (chart.colour, point.colour)):
        if quantity and value is not None:
            ratio = quantity is chart.y and chart.baseline
            values.append(
                f"<b>{ratio_sign(value)}</b>" if ratio else f"<b>{si(value, quantity.unit)}</b>"
            )
    where = (
        ""
        if not chart.x
        else f" at {factors.lower_first(factors.factor_word(chart.point_factors[0]))} {point.at[0].text}"
    )
    spread = point.spread if chart.y else None
    span = ""
    if spread and spread.low is not None and chart.y and not chart.baseline:
        span = f" ({si(spread.low, chart.y.unit)} to {si(spread.high, chart.y.unit)})"
    return f"{line.label}: {', '.join(values) or point.at[-1].text}{span}{where}"
