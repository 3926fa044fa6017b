# SPDX-License-Identifier: Apache-2.0
"""The histogram of latencies and how many I/Os took less (CDF), of a run or of several lines. Pure: curves -> figure.

The CDF's axis is stretched towards 100 %, each further nine as wide as the one before: of the last hundredth, which is
what one looks for, an even axis shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.latency_bins import Bins, cell_edge, count_cells
from benchlab.charts import figure, palette
from benchlab.charts.figure import Axis, Figure
from benchlab.charts.latency_curves import KIND_WORDS, MARKED_PERCENTILES, LatencyCurve
from benchlab.charts.palette import Style
from benchlab.charts.panels import UNIFIED_HOVER, axis_name, panel_heading
from benchlab.web.units import format_share, si

# curves in one panel; a table has all
MAX_CURVES = 8
PERCENT_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
# more ticks leave no room for the first
MAX_TICKS = 4
STEPS_NOTE = "percentiles are all that was told, joined by steps"


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A curve with its look; `where`: the page that a click opens."""

    curve: LatencyCurve
    style: Style
    url: str = ""


def build_histogram_figure(title: str, curves: Sequence[LatencyCurve], scale: str = "") -> Figure:
    """The histogram, where anything was counted in bins, beside the CDF."""
    drawn = [
        DrawnCurve(curve, palette.device_style(index))
        for index, curve in enumerate(curves[:MAX_CURVES])
    ]
    if not drawn:
        return figure.empty_figure(title, "Nothing was told of how long I/Os took but means.")
    binned = [curve for curve in drawn if curve.curve.bins is not None]
    figure_layout = figure.base_layout(
        f"How long I/Os took · {title}", _histogram_subtitle(curves), height=440
    )
    figure_layout["margin"]["b"] = 92
    figure_layout["legend"]["y"] = -0.19
    panels = 2 if binned else 1
    _share_axes(figure_layout, drawn, panels, scale)
    data = [
        _histogram_trace(curve, curve.curve.bins)
        for curve in binned
        if curve.curve.bins is not None
    ]
    data += cdf_traces(drawn, scale, panels)
    names: set[str] = set()
    # one legend entry a curve
    for trace in data:
        trace["showlegend"] = trace.get("showlegend", True) and trace["legendgroup"] not in names
        names.add(trace["legendgroup"])
    return {"data": data, "layout": figure_layout | UNIFIED_HOVER}


def build_cdf_lines(title: str, drawn: Sequence[DrawnCurve], subtitle: str) -> Figure:
    """The CDFs of several lines over each other."""
    figure_layout = figure.base_layout(title, subtitle, height=520)
    _share_axes(figure_layout, drawn, 1, "")
    figure_layout["legend"]["y"] = -0.18
    figure_layout["hovermode"] = "closest"
    data = cdf_traces(drawn, "", 1)
    for trace in data:
        trace["showlegend"] = trace.get("showlegend", True)
    return {"data": data, "layout": figure_layout}


def _histogram_subtitle(curves: Sequence[LatencyCurve]) -> str:
    binned = [curve.bins for curve in curves if curve.bins is not None]
    parts = []
    if binned:
        parts.append("Counted in bins; bars are an eighth of a doubling wide, 9 %.")
    if stepped := [curve.name for curve in curves[:MAX_CURVES] if curve.bins is None]:
        parts.append(f"{', '.join(stepped)}: {STEPS_NOTE}.")
    if len(curves) > MAX_CURVES:
        parts.append(f"The first {MAX_CURVES} of {len(curves)}; the table has all.")
    return " ".join(parts)


def _share_axes(
    figure_layout: dict[str, Any], drawn: Sequence[DrawnCurve], panels: int, scale: str
) -> None:
    """Panel n has the axes n and, for its heading, annotation n; the CDF is the last one."""
    word = latency_kind_text(curve.curve for curve in drawn)
    columns = [[0.0, 1.0]] if panels == 1 else [[0.0, 0.46], [0.54, 1.0]]
    heads = [("Share of I/Os", "%")] * (panels - 1) + [("I/Os that took less", "%")]
    times = figure.log_axis(word, "s", _axis_times(drawn), dense=3 if panels > 1 else 4)
    figure_layout["annotations"] = []
    for number, (column, (head, unit)) in enumerate(zip(columns, heads, strict=True), start=1):
        last = number == panels
        figure_layout["xaxis" + axis_name("", number)] = {
            **times,
            "domain": column,
            "anchor": axis_name("y", number),
            **({"matches": "x"} if number > 1 else {}),
        }
        figure_layout["yaxis" + axis_name("", number)] = {
            "anchor": axis_name("x", number),
            "zeroline": False,
            **(
                _percent_axis(drawn, scale) if last else {"rangemode": "tozero", "ticksuffix": " %"}
            ),
        }
        figure_layout["annotations"].append(
            panel_heading(head, "" if last else unit, column[0], 1.0)
        )


def latency_kind_text(curves: Iterable[LatencyCurve]) -> str:
    """ "Completion latency"; of several kinds each."""
    words = " or ".join(dict.fromkeys(KIND_WORDS[curve.kind] for curve in curves))
    return words[:1].upper() + words[1:]


def _axis_times(drawn: Sequence[DrawnCurve]) -> list[float]:
    times = []
    for drawn_curve in drawn:
        if drawn_curve.curve.bins is not None:
            times += [drawn_curve.curve.bins.lows[0], drawn_curve.curve.bins.highs[-1]]
        times += drawn_curve.curve.ranks.values()
    return times


def _percent_axis(drawn: Sequence[DrawnCurve], scale: str) -> Axis:
    """Stretched, y is the share that took longer, on a logarithmic axis upside down."""
    if scale == "even":
        return {"range": [0, 102], "ticksuffix": " %"}
    rest = [y for drawn_curve in drawn for _, y in _share_points(drawn_curve.curve) if y > 0]
    least = min(rest, default=0.01)
    ticks = [percent for percent in PERCENT_TICKS if 1 - percent / 100 >= least * 0.7]
    # 0 % and 50 % would touch
    ticks = ticks[len(ticks) > MAX_TICKS :]
    return {
        "type": "log",
        "range": [0.02, math.log10(least) - 0.15],
        "tickmode": "array",
        "tickvals": [round(1 - percent / 100, 8) for percent in ticks],
        "ticktext": [f"{percent:g} %" for percent in ticks],
    }


def _share_points(curve: LatencyCurve) -> list[tuple[float, float]]:
    """(latency, share of the I/Os that took at least that long)."""
    if curve.bins is not None:
        return [(at, 1 - below) for at, below in curve.bins.cumulative_shares()]
    return [(at, 1 - percent / 100) for percent, at in curve.ranks.items()]


def _histogram_trace(drawn_curve: DrawnCurve, bins: Bins) -> dict[str, Any]:
    """As an outline of steps: bars have no width on a logarithmic axis that holds for several."""
    counts, total = count_cells(bins), bins.total
    first, last = min(counts), max(counts)
    every = range(first, last + 1)
    return {
        **_curve_trace(drawn_curve),
        "x": [cell_edge(cell) for cell in (*every, last + 1)],
        "y": [100 * counts[cell] / total for cell in every] + [0.0],
        "xaxis": "x",
        "yaxis": "y",
        "line": {"color": drawn_curve.style.colour, "width": 1.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": drawn_curve.style.faded(0.15),
        "hovertext": [_bar_hover(drawn_curve.curve, cell, counts[cell], total) for cell in every]
        + [""],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _bar_hover(curve: LatencyCurve, cell: int, hits: int, total: int) -> str:
    span = f"{si(cell_edge(cell), 's')} to {si(cell_edge(cell + 1), 's')}"
    return f"{curve.name}: <b>{format_share(hits / total)}</b>, {hits:,} from {span}"


def cdf_traces(drawn: Sequence[DrawnCurve], scale: str, panel: int) -> list[dict[str, Any]]:
    """The CDF of each, and on it the percentiles that one asks for."""
    data = []
    for index, drawn_curve in enumerate(drawn):
        points = [
            (at, rest)
            for at, rest in _share_points(drawn_curve.curve)
            if scale == "even" or rest > 0
        ]
        where = {"xaxis": axis_name("x", panel), "yaxis": axis_name("y", panel)}
        line: dict[str, Any] = {
            "color": drawn_curve.style.colour,
            "dash": drawn_curve.style.dash,
            "width": 2,
        }
        if drawn_curve.curve.bins is None:
            line["shape"] = "hv"
        data.append(
            {
                **_curve_trace(drawn_curve),
                **where,
                "x": [at for at, _ in points],
                "y": [_share_height(rest, scale) for _, rest in points],
                "line": line,
                "hovertext": [_cdf_hover(drawn_curve.curve, at, rest) for at, rest in points],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
        data.append(
            {**_percentile_marks(drawn_curve, index, scale, texts=len(drawn) <= 2), **where}
        )
    return data


def _percentile_marks(
    drawn_curve: DrawnCurve, index: int, scale: str, *, texts: bool
) -> dict[str, Any]:
    marks = drawn_curve.curve.marked_percentiles
    mode = "markers+text" if texts else "markers"
    return {
        **_curve_trace(drawn_curve),
        "mode": mode,
        "x": list(marks.values()),
        "y": [_share_height(1 - percent / 100, scale) for percent in marks],
        "marker": {
            "color": drawn_curve.style.colour,
            "symbol": drawn_curve.style.marker,
            "size": 8,
        },
        "text": [f"{MARKED_PERCENTILES[percent]} {si(at, 's')}" for percent, at in marks.items()],
        "textposition": "bottom right" if index % 2 else "top left",
        "textfont": {"size": 11},
        "cliponaxis": False,
        "showlegend": False,
        "hovertext": [
            f"{drawn_curve.curve.name}: {MARKED_PERCENTILES[percent]} <b>{si(at, 's')}</b>"
            for percent, at in marks.items()
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        **({"customdata": [[drawn_curve.url] for _ in marks]} if drawn_curve.url else {}),
    }


def _curve_trace(drawn_curve: DrawnCurve) -> dict[str, Any]:
    total = f" ({drawn_curve.curve.bins.total:,})" if drawn_curve.curve.bins is not None else ""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{drawn_curve.curve.name}{total}",
        "legendgroup": drawn_curve.curve.name,
    }


def _share_height(rest: float, scale: str) -> float:
    """In percent on an even axis; stretched, what is left."""
    return round(100 * (1 - rest), 8) if scale == "even" else round(rest, 12)


def _cdf_hover(curve: LatencyCurve, at: float, rest: float) -> str:
    word = "took less than" if curve.bins is not None else "took at most"
    return f"{curve.name}: <b>{format_share(1 - rest)}</b> {word} {si(at, 's')}"
