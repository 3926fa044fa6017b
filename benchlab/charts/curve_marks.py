# SPDX-License-Identifier: Apache-2.0
"""Marks on a curve: knee, collapse, cap, and repeats that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.knees import Knee
from benchlab.analysis.plateaus import Cap, Collapse
from benchlab.charts.label_places import (
    LETTER_PX,
    LINE_PX,
    MIN_PLOT_PX,
    OFF_PX,
    Box,
    Plot,
    Scale,
    find_room_near,
)
from benchlab.charts.line_analysis import CurveAnswer
from benchlab.charts.palette import Style
from benchlab.web.units import factor

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
    marks = [trace for line in lines for trace in _line_marks(line)] + _knee_notes(lines, high)
    first: set[str] = set()
    for trace in marks:
        trace["showlegend"] = bool(trace["name"]) and trace["name"] not in first
        first.add(trace["name"])
    return marks


def _line_marks(line: MarkedLine) -> Iterator[Trace]:
    knee = line.answer.knee
    if knee is not None and knee.drawn:
        if knee.at:
            yield _knee_ring(line, knee, knee.at)
        elif knee.uncertain:
            yield _uncertain_stretch(line, knee)
    if line.answer.collapse:
        yield _collapse_trace(line, line.answer.collapse)
    if line.answer.cap:
        yield _cap_trace(line, line.answer.cap)


def _mark_trace(group: str, name: str, mode: str, **more: Any) -> Trace:
    # A line may be called "cap", too.
    common = {"type": "scatter", "mode": mode, "name": name, "legendgroup": f"mark: {group}"}
    return common | {"xaxis": "x", "yaxis": "y", "hoverinfo": "skip", "cliponaxis": False, **more}


def _knee_ring(line: MarkedLine, knee: Knee, depth: int) -> Trace:
    error = {
        "type": "data",
        "symmetric": False,
        "array": [max(depth, knee.high or depth) - depth],
        "arrayminus": [depth - min(depth, knee.low or depth)],
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


def _uncertain_stretch(line: MarkedLine, knee: Knee) -> Trace:
    """Along the curve, to its last depth where the knee may lie beyond that."""
    low, last = knee.low or 0, max(line.medians)
    high = last if knee.beyond else knee.high or last
    depths = [depth for depth in line.medians if low <= depth <= high]
    stroke = {"color": line.style.faded(0.35), "width": 11}
    # With markers, for a stretch may be one depth.
    both = {"line": stroke, "marker": {"color": line.style.faded(0.35), "size": 11}}
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
    boxes = [_collapse_box(plot, line, fall) for line in lines if (fall := line.answer.collapse)]
    notes: list[Trace] = []
    for own, line in enumerate(lines):
        knee = line.answer.knee
        if knee is None or not knee.drawn or knee.at or knee.uncertain:
            continue
        words = "flat" if knee.flat else "no knee yet"
        if room := find_room_near(plot, own, words, boxes):
            at, position, box = room
            boxes.append(box)
            notes.append(_note_trace(line, words, *list(line.medians.items())[at], position))
    return notes


def _note_trace(line: MarkedLine, words: str, depth: float, rate: float, position: str) -> Trace:
    font = {"color": line.style.ink, "size": 11}
    # A marker that is not seen keeps the words off the line's own.
    unseen = {"size": 12, "opacity": 0}
    at = {"x": [depth], "y": [rate], "text": [words], "textposition": position}
    return _mark_trace("knee", "", "markers+text", **at, textfont=font, marker=unseen)


def _collapse_box(plot: Plot, line: MarkedLine, fall: Collapse) -> Box:
    """Return the box of the text that `_collapse_trace` draws below the point to which the line fell."""
    x, y = plot.x.to_pixel(fall.last), plot.y.to_pixel(line.medians[fall.last]) - OFF_PX
    return Box(x - COLLAPSE_TEXT_PX / 2, y - LINE_PX, x + COLLAPSE_TEXT_PX / 2, y + 2 * OFF_PX)


def _collapse_trace(line: MarkedLine, collapse: Collapse) -> Trace:
    marker = {"symbol": "triangle-down-open", "size": 15, "color": line.style.colour}
    text = f"−{collapse.share:.0%}".replace("%", " %")
    at = {"x": [collapse.last], "y": [line.medians[collapse.last]], "text": [text]}
    font = {"color": line.style.ink, "size": 11}
    mode = "markers+text"
    return _mark_trace(
        "falls",
        COLLAPSE_NAME,
        mode,
        **at,
        marker=marker,
        textfont=font,
        textposition="bottom center",
    )


def _cap_trace(line: MarkedLine, cap: Cap) -> Trace:
    """A rule above the curve, which it would hide otherwise."""
    level = cap.iops * CAP_OFFSET
    stroke = {"color": line.style.colour, "width": 1.5, "dash": "dot"}
    return _mark_trace(
        "cap", CAP_NAME, "lines", x=[cap.low, cap.high], y=[level, level], line=stroke
    )


DIFFER_NAME = "repeats differ: smallest to largest"


@dataclass(frozen=True, slots=True)
class LineRepeats:
    """A line: its repeats and median at each depth, and {depth: largest over smallest repeat} where those differ."""

    style: Style
    repeats: Mapping[int, Sequence[float]]
    medians: Mapping[int, float]
    ratios: Mapping[int, float]


def beam_traces(lines: Sequence[LineRepeats], high: float) -> list[dict[str, Any]]:
    """One entry in the legend for all. `high`: of the panel, in pixels."""
    plot, boxes = _repeat_plot(lines, high), list[Box]()
    beams = [_line_beams(line, plot, boxes) for line in lines if line.ratios]
    for trace in beams[:1]:
        trace["showlegend"] = True
    return beams


def _repeat_plot(lines: Sequence[LineRepeats], high: float) -> Plot:
    x = Scale.fit([depth for line in lines for depth in line.repeats], MIN_PLOT_PX, log=True)
    values = [value for line in lines for some in line.repeats.values() for value in some]
    drawn = [(list(line.medians), list(line.medians.values())) for line in lines]
    return Plot.from_lines(x, Scale.fit(values, high, log=False, zero=True), drawn)


def _line_beams(line: LineRepeats, plot: Plot, boxes: list[Box]) -> dict[str, Any]:
    x: list[int | None] = []
    y: list[float | None] = []
    text: list[str] = []
    where: list[str] = []
    for depth, ratio in line.ratios.items():
        low, high = min(line.repeats[depth]), max(line.repeats[depth])
        words = factor(ratio)
        side = _text_side(plot, depth, low, high, words, boxes)
        x += [depth, depth, None]
        y += [low, high, None]
        text += [words if side == "low" else "", words if side == "high" else "", ""]
        where += ["bottom center", "top center", "top center"]
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": DIFFER_NAME,
        "legendgroup": "differ",
        "showlegend": False,
        "x": x,
        "y": y,
        "xaxis": "x",
        "yaxis": "y",
        "line": {"color": line.style.faded(0.5), "width": 7},
        "text": text,
        "textposition": where,
        "cliponaxis": False,
        "hoverinfo": "skip",
    }


def _text_side(
    plot: Plot, depth: int, low: float, high: float, words: str, boxes: list[Box]
) -> str:
    """Return the end of the beam that has room for the text, "high" or "low".

    "" if other lines or boxes leave no room; the page shows the text elsewhere, too.
    """
    half = LETTER_PX * len(words) / 2
    at = plot.x.to_pixel(depth)
    deep = LINE_PX + OFF_PX
    for side, edge in (("high", plot.y.to_pixel(high)), ("low", plot.y.to_pixel(low))):
        bottom, top = (edge, edge + deep) if side == "high" else (edge - deep, edge)
        box = Box(at - half, bottom, at + half, top)
        # Above the plot there is a margin; below it stand the axis's own words.
        inside = bottom >= 0 and top <= plot.y.pixels + deep
        if inside and plot.is_off_lines(box) and not any(box.meets(other) for other in boxes):
            boxes.append(box)
            return side
    return ""
