# SPDX-License-Identifier: Apache-2.0
"""Latency against IOPS, a point per depth: what more throughput costs, and past the knee waiting for nothing. Pure.

Both axes are logarithmic, so Little's law draws a straight line for each depth: outstanding I/Os = IOPS x mean total
latency. A point beside its line did not have its depth in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.curves import little, median_of
from benchlab.charts import figure
from benchlab.charts.curve import StyledLine, run_url, styled_lines
from benchlab.charts.figure import Figure
from benchlab.charts.line_analysis import OPERATIONS, Choice
from benchlab.charts.metric_naming import latency_word
from benchlab.charts.palette import COLOURS, rgba
from benchlab.charts.queries import Group, Sample
from benchlab.web.units import si

# what Little's law is about
TOTAL_LATENCY = "lat.mean"
LITTLE_NAME = "Little's law: outstanding I/Os = IOPS × latency"
GREY = rgba(COLOURS[-1], 0.45)


def build_latency_against_iops(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """The figure of swept groups, with the first of the statistics that are asked for."""
    lines = styled_lines([group for group in groups if group.swept])
    what = " of " + OPERATIONS[choice.operation] if choice.operation else ""
    base = (
        f"{choice.latency_kind(line.group for line in lines)}.{(choice.statistics or ('mean',))[0]}"
    )
    drawn = [
        (line, depth_points)
        for line in lines
        if (depth_points := _depth_points(line, choice, base))
    ]
    if not drawn:
        return figure.empty_figure(
            title, f"No IOPS with latency{what} measured over outstanding I/Os."
        )
    word = latency_word(base)
    data = [
        _depth_line(line, depth_points, word, total=base == TOTAL_LATENCY)
        for line, depth_points in drawn
    ]
    points = [point for _, depth_points in drawn for point in depth_points]
    if base == TOTAL_LATENCY and not choice.operation:
        data = [*_little_law_lines(points), *data]
    layout = figure.base_layout(
        f"{word}{what} against IOPS · {title}",
        "Point: medians at one depth, whose outstanding I/Os stand beside it.",
        height=520,
        xaxis=figure.log_axis("IOPS", "op/s", [point.iops for point in points]),
        yaxis=figure.log_axis(word, "s", [point.latency for point in points]),
    )
    layout["legend"]["y"] = -0.18
    return figure.fit_legend({"data": data, "layout": layout})


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """Medians of the repeats at one depth.

    `in_flight` is the median of each one's IOPS x latency; `run` is the run nearest to the median IOPS.
    """

    depth: int
    iops: float
    latency: float
    in_flight: float
    run: int


def _depth_points(line: StyledLine, choice: Choice, base: str) -> list[DepthPoint]:
    by_depth: dict[int, list[tuple[float, float, Sample]]] = {}
    for sample in line.group.samples:
        iops, latency = (
            sample.values.get(choice.metric_name("iops")),
            choice.read_value(base, sample.values),
        )
        if sample.outstanding and iops and latency:
            by_depth.setdefault(sample.outstanding, []).append((iops, latency, sample))
    return [_depth_point(depth, by_depth[depth]) for depth in sorted(by_depth)]


def _depth_point(depth: int, values: Sequence[tuple[float, float, Sample]]) -> DepthPoint:
    iops = median_of([rate for rate, _, _ in values])
    nearest = min(values, key=lambda value: abs(value[0] - iops))[2].run
    runs = [(rate, latency) for rate, latency, _ in values]
    latency = median_of([time for _, time in runs])
    return DepthPoint(depth, iops, latency, little(depth, runs).implied, nearest)


def _depth_line(
    line: StyledLine, points: Sequence[DepthPoint], word: str, *, total: bool
) -> dict[str, Any]:
    """`total`: of mean total latencies, whose product with IOPS is what was in flight."""
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": line.label,
        "legendgroup": line.label,
        "x": [point.iops for point in points],
        "y": [point.latency for point in points],
        "text": [f"\u00a0{point.depth}" for point in points],
        "textposition": "middle right",
        "textfont": {"color": line.style.ink, "size": 11},
        "cliponaxis": False,
        "line": {"color": line.style.colour, "dash": line.style.dash, "width": 2},
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": [[run_url(point.run)] for point in points],
        "hovertext": [_depth_hover(line, point, word, total=total) for point in points],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _depth_hover(line: StyledLine, point: DepthPoint, word: str, *, total: bool) -> str:
    values = f"<b>{si(point.iops, 'op/s')}</b>, {word} <b>{si(point.latency, 's')}</b>"
    in_flight = f"<br>in flight: {point.in_flight:.1f}" if total else ""
    head = f"{line.label}<br>outstanding {point.depth}: {values}{in_flight}"
    return f"{head}<br>nearest: run {point.run} · click opens it"


def _little_law_lines(points: Sequence[DepthPoint]) -> list[dict[str, Any]]:
    """A line for each depth, as far as any of its points reach and a fifth beyond."""
    x: list[float | None] = []
    y: list[float | None] = []
    for depth in sorted({point.depth for point in points}):
        rates = [point.iops for point in points if point.depth == depth]
        ends = [min(rates) / 1.2, max(rates) * 1.2]
        x += [*ends, None]
        y += [*(depth / end for end in ends), None]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": LITTLE_NAME,
            "x": x,
            "y": y,
            "line": {"color": GREY, "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
