# SPDX-License-Identifier: Apache-2.0
"""The histogram of latencies and the share of I/Os that took less (CDF), for a run or for several lines.

The CDF's axis is stretched towards 100 %, each further nine as wide as the one before: an even axis shows nothing of
the last hundredth, which is what readers look for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.curves import median_of
from benchlab.analysis.latency_bins import Bins, cell_edge, count_cells, merge_bins
from benchlab.charts import figure, palette
from benchlab.charts.figure import Axis, Figure, axis_name, run_url
from benchlab.charts.latency_distributions import (
    KIND_WORDS,
    MARKED_PERCENTILES,
    MIN_PERCENTILES,
    LatencyCurve,
    StoredHistogram,
    read_percentiles,
)
from benchlab.charts.line_analysis import OPERATIONS, Choice
from benchlab.charts.palette import Style
from benchlab.charts.panels import UNIFIED_HOVER, panel_heading
from benchlab.charts.queries import Group, Sample, line_labels, line_styles
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
    """Draw the histogram as a stepped outline, since no bar width fits all bars of a logarithmic axis."""
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
    """Draw the CDF of each curve, with the usual percentiles marked on it."""
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
    """Return the height of a point: percent on an even axis, the remaining share (0 to 1) on a stretched one."""
    return round(100 * (1 - rest), 8) if scale == "even" else round(rest, 12)


def _cdf_hover(curve: LatencyCurve, at: float, rest: float) -> str:
    word = "took less than" if curve.bins is not None else "took at most"
    return f"{curve.name}: <b>{format_share(1 - rest)}</b> {word} {si(at, 's')}"


DIRECTIONS = ("read", "write", "trim")


def has_cdf(names: Collection[str]) -> bool:
    """True if runs with these figures have a CDF."""
    values = dict.fromkeys(names, 0.0)
    bases = [f"{op}.{kind}" if op else kind for op in ("", *DIRECTIONS) for kind in KIND_WORDS]
    return any(len(read_percentiles(base, values)) >= MIN_PERCENTILES for base in bases)


def cdf_depths(groups: Iterable[Group]) -> list[int]:
    """List the outstanding I/Os at which a CDF may be requested; [] if the lines have none."""
    return sorted(
        {sample.outstanding for line in groups for sample in line.samples if sample.outstanding}
    )


def build_cdf_figure(
    title: str,
    groups: Sequence[Group],
    choice: Choice,
    counted: Mapping[int, Sequence[StoredHistogram]],
) -> Figure:
    """`counted`: {attempt: its histograms}. All lines have one kind of latency, or they would not compare: the one that
    is asked for where any has its percentiles."""
    what = f" of {OPERATIONS[choice.operation]}" if choice.operation else ""
    where = f", {choice.depth} outstanding" if choice.depth else ""
    at = [
        [sample for sample in line.samples if sample.outstanding == choice.depth] for line in groups
    ]
    for kind in dict.fromkeys([*filter(None, [choice.kind]), *KIND_WORDS]):
        curves = [
            _pooled_curve(name, samples_of_line, kind, choice, counted)
            for name, samples_of_line in _labelled_samples(groups, at)
        ]
        drawn = [
            DrawnCurve(curve, style, run_url(samples[0].run))
            for curve, style, samples in zip(curves, line_styles(groups), at, strict=True)
            if curve is not None
        ]
        if drawn:
            word = latency_kind_text(drawn_curve.curve for drawn_curve in drawn)
            head = f"{word}{what}: I/Os that took less{where} · {title}"
            return build_cdf_lines(head, drawn, _cdf_subtitle(drawn, at))
    return figure.empty_figure(title, f"No percentiles of latency{what} were told here{where}.")


def _labelled_samples(
    groups: Sequence[Group], at: Sequence[list[Sample]]
) -> Iterable[tuple[str, list[Sample]]]:
    return zip(line_labels(groups), at, strict=True)


def _cdf_subtitle(drawn: Sequence[DrawnCurve], at: Sequence[list[Sample]]) -> str:
    most = max(map(len, at), default=0)
    stepped = [curve.curve.name for curve in drawn if curve.curve.bins is None]
    parts = []
    if len(stepped) < len(drawn):
        repeats = f"The I/Os of up to {most} repeats together" if most > 1 else "One run each"
        parts.append(
            f"{repeats}, counted in bins; a mark is where the bin of p50, p99, p99.9 ends."
        )
    if stepped:
        names = ", ".join(stepped) if len(stepped) < len(drawn) else "Medians of repeats"
        parts.append(f"{names}: {STEPS_NOTE}.")
    return " ".join(parts)


def _pooled_curve(
    name: str,
    samples: Sequence[Sample],
    kind: str,
    choice: Choice,
    counted: Mapping[int, Sequence[StoredHistogram]],
) -> LatencyCurve | None:
    """Pool the runs into one curve; None if they report nothing of it."""
    bins = [
        pooled
        for sample in samples
        for pooled in _matching_bins(counted.get(sample.attempt, ()), kind, choice)
    ]
    # whose percentiles are not the repeats' medians: marks are to lie on the curve
    if bins:
        return LatencyCurve(name, kind, {}, bins[0] if len(bins) == 1 else merge_bins(bins))
    ranks = _median_percentiles(samples, kind, choice)
    return LatencyCurve(name, kind, ranks) if len(ranks) >= MIN_PERCENTILES else None


def _matching_bins(histograms: Iterable[StoredHistogram], kind: str, choice: Choice) -> list[Bins]:
    """Bins of one direction, or of each: both are I/Os."""
    names = {f"{op}.{kind}" for op in ((choice.operation,) if choice.operation else DIRECTIONS)}
    if not choice.operation:
        names.add(kind)
    return [
        histogram.bins
        for histogram in histograms
        if not histogram.labels and histogram.name in names
    ]


def _median_percentiles(samples: Sequence[Sample], kind: str, choice: Choice) -> dict[float, float]:
    """Return {percent: median of the repeats} of the percentiles that all of them report."""
    names = {name for sample in samples for name in sample.values if f"{kind}.p" in name}
    plain = {name[name.index(f"{kind}.p") :]: 0.0 for name in names}
    percentiles = {}
    for percent in read_percentiles(kind, plain):
        values = [choice.read_value(f"{kind}.p{percent:g}", sample.values) for sample in samples]
        stated = [value for value in values if value is not None]
        if stated and len(stated) == len(values):
            percentiles[percent] = median_of(stated)
    return percentiles
