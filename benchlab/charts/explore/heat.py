# SPDX-License-Identifier: Apache-2.0
"""A metric by two factors as a heat map (depth by block size, say): one panel a line, one scale for all. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchlab.charts import figure
from benchlab.charts.curve import run_url
from benchlab.charts.explore import factors
from benchlab.charts.explore.exploration import ExploreChart
from benchlab.charts.explore.factors import Level
from benchlab.charts.explore.lines import Line, Point
from benchlab.charts.figure import Figure
from benchlab.charts.palette import HEAT, heat_swaps
from benchlab.charts.panels import axis_name
from benchlab.web.units import short_si, si

ROW_PX, GAP_PX, EDGE_PX = 30, 70, 150
SCALE = [[place / (len(HEAT) - 1), colour] for place, colour in enumerate(HEAT)]


def build_factor_heat_map(title: str, chart: ExploreChart) -> Figure:
    """Cells that nobody measured stay empty."""
    quantity = chart.colour
    if quantity is None:
        raise ValueError("a heat map needs a metric as its colour")
    xs, ys = chart.levels(chart.axes.x), chart.levels(chart.axes.y)
    columns = 1 if len(chart.lines) == 1 else 2
    rows = math.ceil(len(chart.lines) / columns)
    inside = rows * ROW_PX * max(3, len(ys)) + (rows - 1) * GAP_PX
    figure_layout = figure.base_layout(
        title,
        "Each field: median over its runs; a click opens one of them.",
        height=inside + EDGE_PX,
    )
    figure_layout["meta"]["dark"] |= heat_swaps()
    figure_layout["meta"]["columns"] = columns
    figure_layout["annotations"] = []
    figure_layout["coloraxis"] = {
        "colorscale": SCALE,
        "colorbar": {"title": {"text": quantity.unit}},
    }
    domains = figure.panel_domains(rows, GAP_PX / inside if rows > 1 else 0.0)
    data = []
    for index, line in enumerate(chart.lines):
        row, column = divmod(index, columns)
        width = 1.0 if columns == 1 else 0.485
        start = column * (1 - width)
        number = axis_name("", index + 1)
        figure_layout["xaxis" + number] = {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [level.text for level in xs],
            "domain": [start, start + width],
            "anchor": axis_name("y", index + 1),
            "title": {"text": chart.axis_titles[0] if index + columns >= len(chart.lines) else ""},
            "zeroline": False,
        }
        figure_layout["yaxis" + number] = {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [level.text for level in ys],
            "domain": domains[row],
            "anchor": axis_name("x", index + 1),
            "automargin": True,
            "showticklabels": column == 0,
        }
        figure_layout["annotations"].append(
            {
                "text": f"<b>{line.label}</b> {factors.lower_first(chart.axis_titles[1])}",
                "x": start,
                "y": domains[row][1],
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
        data.append(_heat_panel(line, quantity.unit, xs, ys, index + 1))
    return {"data": data, "layout": figure_layout}


def _heat_panel(
    line: Line, unit: str, xs: Sequence[Level], ys: Sequence[Level], number: int
) -> dict[str, Any]:
    by_place: dict[tuple[Level, Level], Point] = {(p.at[0], p.at[-1]): p for p in line.points}
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
            [[run_url(cell.runs[0])] if cell else [""] for cell in row] for row in cells
        ],
        "hovertext": [
            [_cell_hover(line, cell, unit) if cell else "" for cell in row] for row in cells
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverongaps": False,
        "coloraxis": "coloraxis",
        "xgap": 2,
        "ygap": 2,
        "xaxis": axis_name("x", number),
        "yaxis": axis_name("y", number),
    }


def _cell_hover(line: Line, cell: Point, unit: str) -> str:
    n = len(cell.runs)
    return f"{line.label}<br>{cell.at[0].text}, {cell.at[-1].text}: <b>{si(cell.colour, unit)}</b><br>median of {n}"
