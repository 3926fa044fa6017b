# SPDX-License-Identifier: Apache-2.0
"""Beams from the smallest to the largest repeat where those differ; the ratio beside them where there is room. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.charts.label_places import LETTER_PX, LINE_PX, MIN_PLOT_PX, OFF_PX, Box, Plot, Scale
from benchlab.charts.palette import Style
from benchlab.web.units import factor

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
    """At which end of the beam the words stand; "": nowhere, for lines run there, and the page tells them, too."""
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
