"""Latency against IOPS, a point per depth: what more throughput costs, and past the knee waiting for nothing. Pure.

Both axes are logarithmic, so Little's law draws a straight line for each depth: outstanding I/Os = IOPS x mean total
latency. A point beside its line did not have its depth in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchlab.analysis.curves import median_of
from benchlab.charts import figure
from benchlab.charts.chart_options import OPERATIONS, Choice
from benchlab.charts.curve import Line, lines_of, url
from benchlab.charts.figure import Figure
from benchlab.charts.naming import latency_word
from benchlab.charts.palette import COLOURS, rgba
from benchlab.charts.queries import Group, Sample
from benchlab.web.units import si

TOTAL = "lat.mean"  # what Little's law is about
LITTLE = "Little's law: outstanding I/Os = IOPS × latency"
GREY = rgba(COLOURS[-1], 0.45)


def build(title: str, groups: Sequence[Group], choice: Choice) -> Figure:
    """The figure of swept groups, with the first of the statistics that are asked for."""
    lines = lines_of([group for group in groups if group.swept])
    what = " of " + OPERATIONS[choice.operation] if choice.operation else ""
    base = f"{choice.latency(line.group for line in lines)}.{(choice.latencies or ('mean',))[0]}"
    drawn = [(line, found) for line in lines if (found := _points(line, choice, base))]
    if not drawn:
        return figure.empty(title, f"No IOPS with latency{what} measured over outstanding I/Os.")
    word = latency_word(base)
    data = [_line(line, found, word) for line, found in drawn]
    points = [one for _, found in drawn for one in found]
    if base == TOTAL and not choice.operation:
        data = [*_little(points), *data]
    layout = figure.layout(
        f"{word}{what} against IOPS · {title}",
        "Point: medians at one depth, whose outstanding I/Os stand beside it.",
        height=520,
        xaxis=figure.log_axis("IOPS", "op/s", [iops for _, iops, _, _ in points]),
        yaxis=figure.log_axis(word, "s", [latency for _, _, latency, _ in points]),
    )
    layout["legend"]["y"] = -0.18
    return {"data": data, "layout": layout}


Point = tuple[int, float, float, int]  # depth, op/s, s, the run nearest to those IOPS


def _points(line: Line, choice: Choice, base: str) -> list[Point]:
    by_depth: dict[int, list[tuple[float, float, Sample]]] = {}
    for sample in line.group.samples:
        iops, latency = sample.values.get(choice.name("iops")), choice.told(base, sample.values)
        if sample.outstanding and iops and latency:
            by_depth.setdefault(sample.outstanding, []).append((iops, latency, sample))
    return [_point(depth, by_depth[depth]) for depth in sorted(by_depth)]


def _point(depth: int, found: Sequence[tuple[float, float, Sample]]) -> Point:
    iops = median_of([one for one, _, _ in found])
    nearest = min(found, key=lambda one: abs(one[0] - iops))[2].run
    return depth, iops, median_of([one for _, one, _ in found]), nearest


def _line(line: Line, found: Sequence[Point], word: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": line.label,
        "legendgroup": line.label,
        "x": [iops for _, iops, _, _ in found],
        "y": [latency for _, _, latency, _ in found],
        "text": [f"\u00a0{depth}" for depth, _, _, _ in found],
        "textposition": "middle right",
        "textfont": {"color": line.style.colour, "size": 11},
        "cliponaxis": False,
        "line": {"color": line.style.colour, "dash": line.style.dash, "width": 2},
        "marker": {"color": line.style.colour, "symbol": line.style.marker, "size": 8},
        "customdata": [[url(run)] for _, _, _, run in found],
        "hovertext": [
            f"{line.label}<br>outstanding {depth}: <b>{si(iops, 'op/s')}</b>, {word} <b>{si(latency, 's')}</b>"
            f"<br>in flight: {iops * latency:.1f}<br>nearest: run {run} · click opens it"
            for depth, iops, latency, run in found
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _little(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A line for each depth, as far as any of its points reach and a fifth beyond."""
    x: list[float | None] = []
    y: list[float | None] = []
    for depth in sorted({depth for depth, _, _, _ in points}):
        rates = [iops for at, iops, _, _ in points if at == depth]
        ends = [min(rates) / 1.2, max(rates) * 1.2]
        x += [*ends, None]
        y += [*(depth / end for end in ends), None]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": LITTLE,
            "x": x,
            "y": y,
            "line": {"color": GREY, "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
