# SPDX-License-Identifier: Apache-2.0
"""Latency against IOPS, a point per depth: what more throughput costs, and past the knee waiting for nothing. Pure.

Both axes are logarithmic, so Little's law draws a straight line for each depth: outstanding I/Os = IOPS x mean total
latency. A point beside its line did not have its depth in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchlab.analysis.curves import little, median_of
from benchlab.charts import figure
from benchlab.charts.curve import StyledLine, operation_words, styled_lines
from benchlab.charts.figure import Chart, Figure, Subplot, Trace
from benchlab.charts.line_analysis import Choice
from benchlab.charts.metric_naming import latency_word
from benchlab.charts.palette import COLOURS, rgba
from benchlab.charts.queries import Group
from benchlab.web.units import si

# what Little's law is about
TOTAL_LATENCY = "lat.mean"
LITTLE_NAME = "Little's law: outstanding I/Os = IOPS × latency"
GREY = rgba(COLOURS[-1], 0.45)


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


def build_latency_against_iops(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """The figure of swept groups, with the first of the statistics that are asked for."""
    lines = styled_lines([group for group in groups if group.swept])
    what = operation_words(choice)
    kind = choice.latency_kind(line.group for line in lines)
    base = f"{kind}.{(choice.statistics or ('mean',))[0]}"
    by_line = [(line, _depth_points(line, choice, base)) for line in lines]
    points = [point for _, depth_points in by_line for point in depth_points]
    if not points:
        message = f"No IOPS with latency{what} measured over outstanding I/Os."
        return figure.empty_figure(title, message)
    word, total = latency_word(base), base == TOTAL_LATENCY
    data = [_depth_line(line, some, word, total=total) for line, some in by_line if some]
    if total and not choice.operation:
        data.insert(0, _little_law_lines(points))
    axes = Subplot(
        figure.log_axis("IOPS", "op/s", [point.iops for point in points]),
        figure.log_axis(word, "s", [point.latency for point in points]),
    )
    return figure.build_figure(
        Chart(
            f"{word}{what} against IOPS · {title}",
            "Point: medians at one depth, whose outstanding I/Os stand beside it.",
            data,
            [axes],
            legend={"y": -0.18},
        )
    )


def _depth_points(line: StyledLine, choice: Choice, base: str) -> list[DepthPoint]:
    by_depth: dict[int, list[tuple[float, float, int]]] = {}
    for sample, iops in line.samples(choice.metric_name("iops")):
        latency = choice.read_value(base, sample.values)
        if sample.outstanding and iops and latency:
            by_depth.setdefault(sample.outstanding, []).append((iops, latency, sample.run))
    return [_depth_point(depth, by_depth[depth]) for depth in sorted(by_depth)]


def _depth_point(depth: int, values: Sequence[tuple[float, float, int]]) -> DepthPoint:
    rates, latencies, _ = zip(*values, strict=True)
    iops = median_of(rates)
    nearest = min(values, key=lambda value: abs(value[0] - iops))[2]
    in_flight = little(depth, list(zip(rates, latencies, strict=True))).implied
    return DepthPoint(depth, iops, median_of(latencies), in_flight, nearest)


def _depth_line(line: StyledLine, points: Sequence[DepthPoint], word: str, *, total: bool) -> Trace:
    """`total`: of mean total latencies, whose product with IOPS is what was in flight."""
    hovers = []
    for point in points:
        values = f"<b>{si(point.iops, 'op/s')}</b>, {word} <b>{si(point.latency, 's')}</b>"
        in_flight = f"<br>in flight: {point.in_flight:.1f}" if total else ""
        head = f"{line.label}<br>outstanding {point.depth}: {values}{in_flight}"
        hovers.append(f"{head}<br>nearest: run {point.run} · click opens it")
    places = [point.iops for point in points], [point.latency for point in points]
    runs = [point.run for point in points]
    return figure.line_trace(line.label, line.style, places, runs, hovers) | {
        "legendgroup": line.id,
        "mode": "lines+markers+text",
        "text": [f"\u00a0{point.depth}" for point in points],
        "textposition": "middle right",
        "textfont": {"color": line.style.ink, "size": 11},
        "cliponaxis": False,
    }


def _little_law_lines(points: Sequence[DepthPoint]) -> Trace:
    """A line for each depth, as far as any of its points reach and a fifth beyond."""
    x: list[float | None] = []
    y: list[float | None] = []
    for depth in sorted({point.depth for point in points}):
        rates = [point.iops for point in points if point.depth == depth]
        ends = [min(rates) / 1.2, max(rates) * 1.2]
        x += [*ends, None]
        y += [*(depth / end for end in ends), None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": LITTLE_NAME,
        "x": x,
        "y": y,
        "line": {"color": GREY, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }
