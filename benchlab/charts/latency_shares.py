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


def build_histogram_figure(title: str, found: Sequence[LatencyCurve], scale: str = "") -> Figure:
    """The histogram, where anything was counted in bins, beside the CDF."""
    drawn = [
        DrawnCurve(curve, palette.device_style(index))
        for index, curve in enumerate(found[:MAX_CURVES])
    ]
    if not drawn:
        return figure.empty_figure(title, "Nothing was told of how long I/Os took but means.")
    binned = [one for one in drawn if one.curve.bins is not None]
    made = figure.base_layout(
        f"How long I/Os took · {title}", _histogram_subtitle(found), height=440
    )
    made["margin"]["b"] = 92
    made["legend"]["y"] = -0.19
    panels = 2 if binned else 1
    _share_axes(made, drawn, panels, scale)
    data = [_histogram_trace(one, one.curve.bins) for one in binned if one.curve.bins is not None]
    data += cdf_traces(drawn, scale, panels)
    named: set[str] = set()
    # one legend entry a curve
    for trace in data:
        trace["showlegend"] = trace.get("showlegend", True) and trace["legendgroup"] not in named
        named.add(trace["legendgroup"])
    return {"data": data, "layout": made | UNIFIED_HOVER}


def build_cdf_lines(title: str, drawn: Sequence[DrawnCurve], said: str) -> Figure:
    """The CDFs of several lines over each other."""
    made = figure.base_layout(title, said, height=520)
    _share_axes(made, drawn, 1, "")
    made["legend"]["y"] = -0.18
    made["hovermode"] = "closest"
    data = cdf_traces(drawn, "", 1)
    for trace in data:
        trace["showlegend"] = trace.get("showlegend", True)
    return {"data": data, "layout": made}


def _histogram_subtitle(found: Sequence[LatencyCurve]) -> str:
    binned = [one.bins for one in found if one.bins is not None]
    parts = []
    if binned:
        parts.append("Counted in bins; bars are an eighth of a doubling wide, 9 %.")
    if stepped := [one.name for one in found[:MAX_CURVES] if one.bins is None]:
        parts.append(f"{', '.join(stepped)}: {STEPS_NOTE}.")
    if len(found) > MAX_CURVES:
        parts.append(f"The first {MAX_CURVES} of {len(found)}; the table has all.")
    return " ".join(parts)


def _share_axes(made: dict[str, Any], drawn: Sequence[DrawnCurve], panels: int, scale: str) -> None:
    """Panel n has the axes n and, for its heading, annotation n; the CDF is the last one."""
    word = latency_kind_text(one.curve for one in drawn)
    columns = [[0.0, 1.0]] if panels == 1 else [[0.0, 0.46], [0.54, 1.0]]
    heads = [("Share of I/Os", "%")] * (panels - 1) + [("I/Os that took less", "%")]
    times = figure.log_axis(word, "s", _axis_times(drawn), dense=3 if panels > 1 else 4)
    made["annotations"] = []
    for number, (column, (head, unit)) in enumerate(zip(columns, heads, strict=True), start=1):
        last = number == panels
        made["xaxis" + axis_name("", number)] = {
            **times,
            "domain": column,
            "anchor": axis_name("y", number),
            **({"matches": "x"} if number > 1 else {}),
        }
        made["yaxis" + axis_name("", number)] = {
            "anchor": axis_name("x", number),
            "zeroline": False,
            **(
                _percent_axis(drawn, scale) if last else {"rangemode": "tozero", "ticksuffix": " %"}
            ),
        }
        made["annotations"].append(panel_heading(head, "" if last else unit, column[0], 1.0))


def latency_kind_text(found: Iterable[LatencyCurve]) -> str:
    """ "Completion latency"; of several kinds each."""
    words = " or ".join(dict.fromkeys(KIND_WORDS[one.kind] for one in found))
    return words[:1].upper() + words[1:]


def _axis_times(drawn: Sequence[DrawnCurve]) -> list[float]:
    found = []
    for one in drawn:
        if one.curve.bins is not None:
            found += [one.curve.bins.lows[0], one.curve.bins.highs[-1]]
        found += one.curve.ranks.values()
    return found


def _percent_axis(drawn: Sequence[DrawnCurve], scale: str) -> Axis:
    """Stretched, y is the share that took longer, on a logarithmic axis upside down."""
    if scale == "even":
        return {"range": [0, 102], "ticksuffix": " %"}
    rest = [y for one in drawn for _, y in _share_points(one.curve) if y > 0]
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


def _histogram_trace(one: DrawnCurve, bins: Bins) -> dict[str, Any]:
    """As an outline of steps: bars have no width on a logarithmic axis that holds for several."""
    found, total = count_cells(bins), bins.total
    first, last = min(found), max(found)
    every = range(first, last + 1)
    return {
        **_curve_trace(one),
        "x": [cell_edge(cell) for cell in (*every, last + 1)],
        "y": [100 * found[cell] / total for cell in every] + [0.0],
        "xaxis": "x",
        "yaxis": "y",
        "line": {"color": one.style.colour, "width": 1.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": one.style.faded(0.15),
        "hovertext": [_bar_hover(one.curve, cell, found[cell], total) for cell in every] + [""],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _bar_hover(curve: LatencyCurve, cell: int, hits: int, total: int) -> str:
    span = f"{si(cell_edge(cell), 's')} to {si(cell_edge(cell + 1), 's')}"
    return f"{curve.name}: <b>{format_share(hits / total)}</b>, {hits:,} from {span}"


def cdf_traces(drawn: Sequence[DrawnCurve], scale: str, panel: int) -> list[dict[str, Any]]:
    """The CDF of each, and on it the percentiles that one asks for."""
    data = []
    for index, one in enumerate(drawn):
        points = [
            (at, rest) for at, rest in _share_points(one.curve) if scale == "even" or rest > 0
        ]
        where = {"xaxis": axis_name("x", panel), "yaxis": axis_name("y", panel)}
        line: dict[str, Any] = {"color": one.style.colour, "dash": one.style.dash, "width": 2}
        if one.curve.bins is None:
            line["shape"] = "hv"
        data.append(
            {
                **_curve_trace(one),
                **where,
                "x": [at for at, _ in points],
                "y": [_share_height(rest, scale) for _, rest in points],
                "line": line,
                "hovertext": [_cdf_hover(one.curve, at, rest) for at, rest in points],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
        data.append({**_percentile_marks(one, index, scale, texts=len(drawn) <= 2), **where})
    return data


def _percentile_marks(one: DrawnCurve, index: int, scale: str, *, texts: bool) -> dict[str, Any]:
    marks = one.curve.marked_percentiles
    mode = "markers+text" if texts else "markers"
    return {
        **_curve_trace(one),
        "mode": mode,
        "x": list(marks.values()),
        "y": [_share_height(1 - percent / 100, scale) for percent in marks],
        "marker": {"color": one.style.colour, "symbol": one.style.marker, "size": 8},
        "text": [f"{MARKED_PERCENTILES[percent]} {si(at, 's')}" for percent, at in marks.items()],
        "textposition": "bottom right" if index % 2 else "top left",
        "textfont": {"size": 11},
        "cliponaxis": False,
        "showlegend": False,
        "hovertext": [
            f"{one.curve.name}: {MARKED_PERCENTILES[percent]} <b>{si(at, 's')}</b>"
            for percent, at in marks.items()
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        **({"customdata": [[one.url] for _ in marks]} if one.url else {}),
    }


def _curve_trace(one: DrawnCurve) -> dict[str, Any]:
    total = f" ({one.curve.bins.total:,})" if one.curve.bins is not None else ""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{one.curve.name}{total}",
        "legendgroup": one.curve.name,
    }


def _share_height(rest: float, scale: str) -> float:
    """In percent on an even axis; stretched, what is left."""
    return round(100 * (1 - rest), 8) if scale == "even" else round(rest, 12)


def _cdf_hover(curve: LatencyCurve, at: float, rest: float) -> str:
    word = "took less than" if curve.bins is not None else "took at most"
    return f"{curve.name}: <b>{format_share(1 - rest)}</b> {word} {si(at, 's')}"
