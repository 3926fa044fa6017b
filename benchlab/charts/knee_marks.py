# SPDX-License-Identifier: Apache-2.0
"""Marks of a curve as a whole: knee, the stretch of one that is uncertain, fall, cap, "flat". Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.knees import Knee
from benchlab.analysis.plateaus import Cap, Collapse
from benchlab.charts.curve_answers import CurveAnswer
from benchlab.charts.label_places import (
    LINE_PX,
    MIN_PLOT_PX,
    OFF_PX,
    Box,
    Plot,
    Scale,
    find_room_near,
)
from benchlab.charts.palette import Style

KNEE_NAME = "knee: from here on doubling gains less than 5 %; bar: 95 % of what it may be"
UNCERTAIN_NAME = "knee uncertain: somewhere on this stretch (95 %)"
COLLAPSE_NAME = "falls past its peak"
CAP_NAME = "cap: within 2 % over two doublings or more"
# a cap's rule, of its IOPS
CAP_OFFSET = 1.03
# how wide "−30 %" is
COLLAPSE_TEXT_PX = 36
Trace = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarkedLine:
    """A line with what is known of it; `medians`: {outstanding I/Os: IOPS}."""

    answer: CurveAnswer
    style: Style
    medians: Mapping[int, float]


def knee_traces(lines: Sequence[MarkedLine], high: float) -> list[Trace]:
    """One entry in the legend for all marks of a kind. `high`: of the panel, in pixels."""
    made = [trace for line in lines for trace in _line_marks(line)] + _knee_notes(lines, high)
    first: set[str] = set()
    for trace in made:
        trace["showlegend"] = bool(trace["name"]) and trace["name"] not in first
        first.add(trace["name"])
    return made


def _line_marks(line: MarkedLine) -> Iterator[Trace]:
    known = line.answer.knee
    if known is not None and known.drawn:
        if known.at:
            yield _knee_ring(line, known, known.at)
        elif known.uncertain:
            yield _uncertain_stretch(line, known)
    if line.answer.collapse:
        yield _collapse_trace(line, line.answer.collapse)
    if line.answer.cap:
        yield _cap_trace(line, line.answer.cap)


def _mark_trace(group: str, name: str, mode: str, **more: Any) -> Trace:
    # A line may be called "cap", too.
    common = {"type": "scatter", "mode": mode, "name": name, "legendgroup": f"mark: {group}"}
    return common | {"xaxis": "x", "yaxis": "y", "hoverinfo": "skip", "cliponaxis": False, **more}


def _knee_ring(line: MarkedLine, known: Knee, depth: int) -> Trace:
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
    return _mark_trace("knee", KNEE_NAME, "markers", **at, error_x=error, marker=ring)


def _uncertain_stretch(line: MarkedLine, known: Knee) -> Trace:
    """Along the curve, to its last depth where the knee may lie beyond that."""
    low, last = known.low or 0, max(line.medians)
    high = last if known.beyond else known.high or last
    depths = [depth for depth in line.medians if low <= depth <= high]
    shown = {"color": line.style.faded(0.35), "width": 11}
    # With markers, for a stretch may be one depth.
    both = {"line": shown, "marker": {"color": line.style.faded(0.35), "size": 11}}
    y = [line.medians[depth] for depth in depths]
    return _mark_trace("uncertain", UNCERTAIN_NAME, "markers+lines", x=depths, y=y, **both)


def _knee_notes(lines: Sequence[MarkedLine], high: float) -> list[Trace]:
    """That a line is flat, or has no knee yet: near one of its last points, where no line runs; else it is left out,
    for the words below the chart tell it, too."""
    points = [(depth, rate) for line in lines for depth, rate in line.medians.items()]
    if not points:
        return []
    x = Scale.fit([depth for depth, _ in points], MIN_PLOT_PX, log=True)
    y = Scale.fit([rate for _, rate in points], high, log=False, zero=True)
    drawn = [(list(line.medians), list(line.medians.values())) for line in lines]
    caps = [
        ([c.low, c.high], [c.iops * CAP_OFFSET] * 2) for line in lines if (c := line.answer.cap)
    ]
    plot = Plot.from_lines(x, y, drawn, rules=caps)
    taken = [_collapse_box(plot, line, fall) for line in lines if (fall := line.answer.collapse)]
    found: list[Trace] = []
    for own, line in enumerate(lines):
        known = line.answer.knee
        if known is None or not known.drawn or known.at or known.uncertain:
            continue
        words = "flat" if known.flat else "no knee yet"
        if room := find_room_near(plot, own, words, taken):
            at, position, box = room
            taken.append(box)
            found.append(_note_trace(line, words, *list(line.medians.items())[at], position))
    return found


def _note_trace(line: MarkedLine, words: str, depth: float, rate: float, position: str) -> Trace:
    font = {"color": line.style.ink, "size": 11}
    # A marker that is not seen keeps the words off the line's own.
    unseen = {"size": 12, "opacity": 0}
    at = {"x": [depth], "y": [rate], "text": [words], "textposition": position}
    return _mark_trace("knee", "", "markers+text", **at, textfont=font, marker=unseen)


def _collapse_box(plot: Plot, line: MarkedLine, fall: Collapse) -> Box:
    """Of the words below where it fell to, as `_fall` draws them."""
    x, y = plot.x.to_pixel(fall.last), plot.y.to_pixel(line.medians[fall.last]) - OFF_PX
    return Box(x - COLLAPSE_TEXT_PX / 2, y - LINE_PX, x + COLLAPSE_TEXT_PX / 2, y + 2 * OFF_PX)


def _collapse_trace(line: MarkedLine, found: Collapse) -> Trace:
    shown = {"symbol": "triangle-down-open", "size": 15, "color": line.style.colour}
    text = f"−{found.share:.0%}".replace("%", " %")
    at = {"x": [found.last], "y": [line.medians[found.last]], "text": [text]}
    font = {"color": line.style.ink, "size": 11}
    mode = "markers+text"
    return _mark_trace(
        "falls",
        COLLAPSE_NAME,
        mode,
        **at,
        marker=shown,
        textfont=font,
        textposition="bottom center",
    )


def _cap_trace(line: MarkedLine, found: Cap) -> Trace:
    """A rule above the curve, which it would hide otherwise."""
    level = found.iops * CAP_OFFSET
    shown = {"color": line.style.colour, "width": 1.5, "dash": "dot"}
    return _mark_trace(
        "cap", CAP_NAME, "lines", x=[found.low, found.high], y=[level, level], line=shown
    )
