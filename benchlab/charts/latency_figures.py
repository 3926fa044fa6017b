# SPDX-License-Identifier: Apache-2.0
"""The histogram of latencies and the share of I/Os that took less (CDF), for a run or for several lines.

The CDF's axis is stretched towards 100 %, each further nine as wide as the one before: an even axis shows nothing of
the last hundredth, which is what readers look for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from benchlab.analysis.curves import median_of
from benchlab.analysis.latency_bins import Bins, cell_edge, count_cells, merge_bins
from benchlab.charts import figure, palette
from benchlab.charts.figure import Axis, Figure, Trace, axes_of, axis_name, one_entry_each, run_url
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
DIRECTIONS = ("read", "write", "trim")
EVEN = "even"

# a curve with its look, and the page that a click opens
DrawnCurve = tuple[LatencyCurve, Style, str]


def build_histogram_figure(title: str, curves: Sequence[LatencyCurve], scale: str = "") -> Figure:
    """The histogram, where anything was counted in bins, beside the CDF."""
    drawn = [(c, palette.device_style(index), "") for index, c in enumerate(curves[:MAX_CURVES])]
    if not drawn:
        return figure.empty_figure(title, "Nothing was told of how long I/Os took but means.")
    parts = []
    if any(curve.bins for curve in curves):
        parts.append("Counted in bins; bars are an eighth of a doubling wide, 9 %.")
    if stepped := [curve.name for curve, _, _ in drawn if curve.bins is None]:
        parts.append(f"{', '.join(stepped)}: {STEPS_NOTE}.")
    if len(curves) > MAX_CURVES:
        parts.append(f"The first {MAX_CURVES} of {len(curves)}; the table has all.")
    bars = [_histogram_trace(curve, style, curve.bins) for curve, style, _ in drawn if curve.bins]
    panels = 2 if bars else 1
    layout = figure.base_layout(
        f"How long I/Os took · {title}", " ".join(parts), height=440, **_axes(drawn, panels, scale)
    )
    layout["margin"]["b"] = 92
    layout["legend"]["y"] = -0.19
    data = one_entry_each([*bars, *cdf_traces(drawn, scale, panels)])
    return {"data": data, "layout": layout | UNIFIED_HOVER}


def _axes(drawn: Sequence[DrawnCurve], panels: int, scale: str) -> dict[str, Any]:
    """Panel n has the axes n and, for its heading, annotation n; the CDF is the last one."""
    numbers = [at for curve, _, _ in drawn for at in curve.ranks.values()]
    for bins in filter(None, (curve.bins for curve, _, _ in drawn)):
        numbers += [bins.lows[0], bins.highs[-1]]
    kinds = latency_kind_text(curve for curve, _, _ in drawn)
    times = figure.log_axis(kinds, "s", numbers, dense=3 if panels > 1 else 4)
    columns = [[0.0, 1.0]] if panels == 1 else [[0.0, 0.46], [0.54, 1.0]]
    heads = ("Share of I/Os", "%", {"rangemode": "tozero", "ticksuffix": " %"})
    cdf_heads = ("I/Os that took less", "", _percent_axis(drawn, scale))
    parts: dict[str, Any] = {"annotations": []}
    for number, column in enumerate(columns, start=1):
        head, unit, percent = cdf_heads if number == panels else heads
        matches = {"matches": "x"} if number > 1 else {}
        place = {"domain": column, "anchor": axis_name("y", number)}
        parts["xaxis" + axis_name("", number)] = times | place | matches
        anchor = {"anchor": axis_name("x", number), "zeroline": False}
        parts["yaxis" + axis_name("", number)] = anchor | percent
        parts["annotations"].append(panel_heading(head, unit, column[0], 1.0))
    return parts


def latency_kind_text(curves: Iterable[LatencyCurve]) -> str:
    """ "Completion latency"; of several kinds each."""
    words = " or ".join(dict.fromkeys(KIND_WORDS[curve.kind] for curve in curves))
    return words[:1].upper() + words[1:]


def _percent_axis(drawn: Sequence[DrawnCurve], scale: str) -> Axis:
    """Stretched, y is the share that took longer, on a logarithmic axis upside down."""
    if scale == EVEN:
        return {"range": [0, 102], "ticksuffix": " %"}
    rests = [rest for curve, _, _ in drawn for _, rest in _share_points(curve) if rest > 0]
    least = min(rests, default=0.01)
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


def _histogram_trace(curve: LatencyCurve, style: Style, bins: Bins) -> Trace:
    """Draw the histogram as a stepped outline, since no bar width fits all bars of a logarithmic axis."""
    counts, total = count_cells(bins), bins.total
    cells = range(min(counts), max(counts) + 1)
    edges = [cell_edge(cell) for cell in (*cells, cells.stop)]
    hovers = [
        f"{curve.name}: <b>{format_share(counts[cell] / total)}</b>, {counts[cell]:,}"
        f" from {si(cell_edge(cell), 's')} to {si(cell_edge(cell + 1), 's')}"
        for cell in cells
    ]
    return {
        **_curve_trace(curve, [*hovers, ""]),
        **axes_of(1),
        "x": edges,
        "y": [100 * counts[cell] / total for cell in cells] + [0.0],
        "line": {"color": style.colour, "width": 1.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": style.faded(0.15),
    }


def cdf_traces(drawn: Sequence[DrawnCurve], scale: str, panel: int) -> list[Trace]:
    """Draw the CDF of each curve, with the usual percentiles marked on it."""
    traces = []
    for index, (curve, style, url) in enumerate(drawn):
        points = [(at, rest) for at, rest in _share_points(curve) if scale == EVEN or rest > 0]
        word = "took less than" if curve.bins else "took at most"
        hovers = [
            f"{curve.name}: <b>{format_share(1 - rest)}</b> {word} {si(at, 's')}"
            for at, rest in points
        ]
        line = {"color": style.colour, "dash": style.dash, "width": 2}
        traces.append(
            {
                **_curve_trace(curve, hovers),
                **axes_of(panel),
                "x": [at for at, _ in points],
                "y": [_share_height(rest, scale) for _, rest in points],
                "line": line if curve.bins else {**line, "shape": "hv"},
            }
        )
        marks = curve.marked_percentiles
        labels = [(MARKED_PERCENTILES[percent], si(at, "s")) for percent, at in marks.items()]
        mark_hovers = [f"{curve.name}: {rank} <b>{time}</b>" for rank, time in labels]
        traces.append(
            {
                **_curve_trace(curve, mark_hovers),
                **axes_of(panel),
                "mode": "markers+text" if len(drawn) <= 2 else "markers",
                "x": list(marks.values()),
                "y": [_share_height(1 - percent / 100, scale) for percent in marks],
                "marker": {"color": style.colour, "symbol": style.marker, "size": 8},
                "text": [f"{rank} {time}" for rank, time in labels],
                "textposition": "bottom right" if index % 2 else "top left",
                "textfont": {"size": 11},
                "cliponaxis": False,
                "showlegend": False,
                **({"customdata": [[url] for _ in marks]} if url else {}),
            }
        )
    return traces


def _curve_trace(curve: LatencyCurve, hovers: list[str]) -> Trace:
    total = f" ({curve.bins.total:,})" if curve.bins else ""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{curve.name}{total}",
        "legendgroup": curve.name,
        "showlegend": True,
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _share_height(rest: float, scale: str) -> float:
    """Return the height of a point: percent on an even axis, the remaining share (0 to 1) on a stretched one."""
    return round(100 * (1 - rest), 8) if scale == EVEN else round(rest, 12)


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
    repeats = [
        [sample for sample in line.samples if sample.outstanding == choice.depth] for line in groups
    ]
    lines = list(zip(line_labels(groups), line_styles(groups), repeats, strict=True))
    for kind in dict.fromkeys([*filter(None, [choice.kind]), *KIND_WORDS]):
        drawn = [
            (curve, style, run_url(samples[0].run))
            for name, style, samples in lines
            if (curve := _pooled_curve(name, samples, kind, choice, counted))
        ]
        if drawn:
            word = latency_kind_text(curve for curve, _, _ in drawn)
            layout = figure.base_layout(
                f"{word}{what}: I/Os that took less{where} · {title}",
                _cdf_subtitle([curve for curve, _, _ in drawn], max(map(len, repeats))),
                **_axes(drawn, 1, ""),
            )
            layout["legend"]["y"] = -0.18
            return {"data": cdf_traces(drawn, "", 1), "layout": layout}
    return figure.empty_figure(title, f"No percentiles of latency{what} were told here{where}.")


def _cdf_subtitle(curves: Sequence[LatencyCurve], most_repeats: int) -> str:
    stepped = [curve.name for curve in curves if curve.bins is None]
    parts = []
    if len(stepped) < len(curves):
        repeats = f"The I/Os of up to {most_repeats} repeats together"
        parts.append(
            f"{repeats if most_repeats > 1 else 'One run each'}, counted in bins;"
            " a mark is where the bin of p50, p99, p99.9 ends."
        )
    if stepped:
        names = ", ".join(stepped) if len(stepped) < len(curves) else "Medians of repeats"
        parts.append(f"{names}: {STEPS_NOTE}.")
    return " ".join(parts)


def _pooled_curve(
    name: str,
    samples: Sequence[Sample],
    kind: str,
    choice: Choice,
    counted: Mapping[int, Sequence[StoredHistogram]],
) -> LatencyCurve | None:
    """Pool the runs into one curve; None if they report nothing of it. Of no direction, each counts: all are I/Os."""
    operations = [choice.operation] if choice.operation else DIRECTIONS
    names = {f"{operation}.{kind}" for operation in operations}
    if not choice.operation:
        names.add(kind)
    bins = [
        histogram.bins
        for sample in samples
        for histogram in counted.get(sample.attempt, ())
        if not histogram.labels and histogram.name in names
    ]
    # whose percentiles are not the repeats' medians: marks are to lie on the curve
    if bins:
        return LatencyCurve(name, kind, {}, bins[0] if len(bins) == 1 else merge_bins(bins))
    ranks = _median_percentiles(samples, kind, choice)
    return LatencyCurve(name, kind, ranks) if len(ranks) >= MIN_PERCENTILES else None


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
