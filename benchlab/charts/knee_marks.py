# SPDX-License-Identifier: Apache-2.0
"""Marks of a curve as a whole: knee, the stretch of one that is uncertain, fall, cap, "flat". Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.knees import Knee
from benchlab.analysis.plateaus import Cap, Collapse
from benchlab.charts.curve_answers import CurveAnswer
from benchlab.charts.label_places import LINE_PX, OFF_PX, PLOT_PX, Box, Plot, Scale, near
from benchlab.charts.palette import Style

KNEE = "knee: from here on doubling gains less than 5 %; bar: 95 % of what it may be"
UNCERTAIN = "knee uncertain: somewhere on this stretch (95 %)"
FALLS = "falls past its peak"
CAP = "cap: within 2 % over two doublings or more"
# a cap's rule, of its IOPS
ABOVE = 1.03
# how wide "−30 %" is
FALL_PX = 36
Trace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Marked:
    """A line with what is known of it; `medians`: {outstanding I/Os: IOPS}."""

    answer: CurveAnswer
    style: Style
    medians: Mapping[int, float]


def traces(lines: Sequence[Marked], high: float) -> list[Trace]:
    """One entry in the legend for all marks of a kind. `high`: of the panel, in pixels."""
    made = [trace for line in lines for trace in _of_line(line)] + _notes(lines, high)
    first: set[str] = set()
    for trace in made:
        trace["showlegend"] = bool(trace["name"]) and trace["name"] not in first
        first.add(trace["name"])
    return made


def _of_line(line: Marked) -> Iterator[Trace]:
    known = line.answer.knee
    if known is not None and known.drawn:
        if known.at:
            yield _ring(line, known, known.at)
        elif known.uncertain:
            yield _stretch(line, known)
    if line.answer.collapse:
        yield _fall(line, line.answer.collapse)
    if line.answer.cap:
        yield _cap(line, line.answer.cap)


def _mark(group: str, name: str, mode: str, **more: Any) -> Trace:
    # A line may be called "cap", too.
    common = {"type": "scatter", "mode": mode, "name": name, "legendgroup": f"mark: {group}"}
    return common | {"xaxis": "x", "yaxis": "y", "hoverinfo": "skip", "cliponaxis": False, **more}


def _ring(line: Marked, known: Knee, depth: int) -> Trace:
    error = {
        "type": "data",
        "symmetric": False,
        "array": [max(depth, known.high or depth) - depth],
        "arrayminus": [depth - min(depth, known.low or depth)],
        "color": line.style.colour,
        "thickness": 1.5,
        "width": 6,
    }
    ring = {
        "symbol": "circle-open",
        "size": 19,
        "color": line.style.colour,
        "line": {"width": 1.5},
    }
    at = {"x": [depth], "y": [line.medians[depth]]}
    return _mark("knee", KNEE, "markers", **at, error_x=error, marker=ring)


def _stretch(line: Marked, known: Knee) -> Trace:
    """Along the curve, to its last depth where the knee may lie beyond that."""
    low, last = known.low or 0, max(line.medians)
    high = last if known.beyond else known.high or last
    depths = [depth for depth in line.medians if low <= depth <= high]
    shown = {"color": line.style.faded(0.35), "width": 11}
    # With markers, for a stretch may be one depth.
    both = {"line": shown, "marker": {"color": line.style.faded(0.35), "size": 11}}
    y = [line.medians[depth] for depth in depths]
    return _mark("uncertain", UNCERTAIN, "markers+lines", x=depths, y=y, **both)


def _notes(lines: Sequence[Marked], high: float) -> list[Trace]:
    """That a line is flat, or has no knee yet: near one of its last points, where no line runs; else it is left out,
    for the words below the chart tell it, too."""
    points = [(depth, rate) for line in lines for depth, rate in line.medians.items()]
    if not points:
        return []
    x = Scale.of([depth for depth, _ in points], PLOT_PX, log=True)
    y = Scale.of([rate for _, rate in points], high, log=False, zero=True)
    drawn = [(list(line.medians), list(line.medians.values())) for line in lines]
    caps = [([c.low, c.high], [c.iops * ABOVE] * 2) for line in lines if (c := line.answer.cap)]
    plot = Plot.of(x, y, drawn, rules=caps)
    taken = [_box(plot, line, fall) for line in lines if (fall := line.answer.collapse)]
    found: list[Trace] = []
    for own, line in enumerate(lines):
        known = line.answer.knee
        if known is None or not known.drawn or known.at or known.uncertain:
            continue
        words = "flat" if known.flat else "no knee yet"
        if room := near(plot, own, words, taken):
            at, position, box = room
            taken.append(box)
            found.append(_note(line, words, *list(line.medians.items())[at], position))
    return found


def _note(line: Marked, words: str, depth: float, rate: float, position: str) -> Trace:
    font = {"color": line.style.ink, "size": 11}
    # A marker that is not seen keeps the words off the line's own.
    unseen = {"size": 12, "opacity": 0}
    at = {"x": [depth], "y": [rate], "text": [words], "textposition": position}
    return _mark("knee", "", "markers+text", **at, textfont=font, marker=unseen)


def _box(plot: Plot, line: Marked, fall: Collapse) -> Box:
    """Of the words below where it fell to, as `_fall` draws them."""
    x, y = plot.x.pixel(fall.last), plot.y.pixel(line.medians[fall.last]) - OFF_PX
    return Box(x - FALL_PX / 2, y - LINE_PX, x + FALL_PX / 2, y + 2 * OFF_PX)


def _fall(line: Marked, found: Collapse) -> Trace:
    shown = {"symbol": "triangle-down-open", "size": 15, "color": line.style.colour}
    text = f"−{found.share:.0%}".replace("%", " %")
    at = {"x": [found.last], "y": [line.medians[found.last]], "text": [text]}
    font = {"color": line.style.ink, "size": 11}
    mode = "markers+text"
    return _mark(
        "falls", FALLS, mode, **at, marker=shown, textfont=font, textposition="bottom center"
    )


def _cap(line: Marked, found: Cap) -> Trace:
    """A rule above the curve, which it would hide otherwise."""
    level = found.iops * ABOVE
    shown = {"color": line.style.colour, "width": 1.5, "dash": "dot"}
    return _mark("cap", CAP, "lines", x=[found.low, found.high], y=[level, level], line=shown)
