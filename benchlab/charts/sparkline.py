# SPDX-License-Identifier: Apache-2.0
"""A chart so small that it needs no script: lines over outstanding I/Os as SVG, or a bar for each set-up. Pure.

Places and paths are texts: a template puts them into attributes, colours come by class from the stylesheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchlab.analysis.formats import shown_unit
from benchlab.charts import metric_naming
from benchlab.charts.palette import COLOURS, Style
from benchlab.web.units import short_si, si

WIDTH, HEIGHT = 280, 150
PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM = 58, 268, 22, 118
# of the middles of two numbers on the axis of depths
MIN_TICK_GAP = 22
# on the axis of values, beside zero
VALUE_TICKS = 3
# What a marker is drawn with around 0, 0; names of benchlab/charts/palette.py.
MARKS = {
    "circle": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "square": "m-3 -3h6v6h-6z",
    "diamond": "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
    "triangle-up": "m0 -4l4 7h-8z",
    "cross": "m-1.5 -4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
    "x": "m-4 -2l2 -2l2 2l2 -2l2 2l-2 2l2 2l-2 2l-2 -2l-2 2l-2 -2l2 -2z",
    "triangle-down": "m0 4l-4 -7h8z",
    "star": "m0 -5l1.5 3.2l3.5 .4l-2.6 2.4l.7 3.5l-3.1 -1.8l-3.1 1.8l.7 -3.5l-2.6 -2.4l3.5 -.4z",
}
RING = "m-7.5 0a7.5 7.5 0 1 0 15 0a7.5 7.5 0 1 0 -15 0z"


@dataclass(frozen=True, slots=True)
class SetUp:
    """A set-up: its median at each depth; 0: without a sweep. `knee`: the depth that is ringed, where it is known."""

    label: str
    style: Style
    medians: Mapping[int, float]
    knee: int | None = None


@dataclass(frozen=True, slots=True)
class LegendKey:
    """Look of a line in a legend of 28 x 12: class, `stroke-dasharray`, path of the marker."""

    css: str
    dash: str
    mark: str


@dataclass(frozen=True, slots=True)
class SparkLine:
    label: str
    css: str
    dash: str
    path: str
    marks: str
    key: LegendKey
    # around the knee; empty where none is drawn
    ring: str


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    css: str
    # in percent of the longest
    share: str
    value: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class SparkChart:
    """`says`: all of it in words, for who does not see it. Either lines or bars."""

    title: str
    description: str
    lines: tuple[SparkLine, ...] = ()
    bars: tuple[Bar, ...] = ()
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()


def build_sparkline(sets: Sequence[SetUp], name: str, unit: str) -> SparkChart | None:
    """Draw `name` in base units: lines if there are several depths, else bars. None if nothing was measured."""
    measured = [set_up for set_up in sets if set_up.medians]
    depths = sorted({depth for set_up in measured for depth in set_up.medians if depth})
    if len(depths) > 1:
        return _line_chart([s for s in measured if any(s.medians)], depths, name, unit)
    return _bar_chart(measured, name, unit) if measured else None


def _line_chart(sets: Sequence[SetUp], depths: Sequence[int], name: str, unit: str) -> SparkChart:
    values = _axis_values(max(value for set_up in sets for value in set_up.medians.values()))
    first, last = math.log2(depths[0]), math.log2(depths[-1])
    title, display_unit = metric_naming.metric_title(name), shown_unit(name, unit)

    def x(depth: int) -> float:
        return PLOT_LEFT + (math.log2(depth) - first) / (last - first) * (PLOT_RIGHT - PLOT_LEFT)

    def y(value: float) -> float:
        return PLOT_BOTTOM - value / values[-1] * (PLOT_BOTTOM - PLOT_TOP)

    texts = []
    lines = []
    for set_up in sets:
        medians = sorted((depth, value) for depth, value in set_up.medians.items() if depth)
        knee_text = f", knee at {set_up.knee}" if set_up.knee else ""
        medians_text = ", ".join(
            f"{si(value, display_unit)} at {depth}" for depth, value in medians
        )
        texts.append(f"{set_up.label}: {medians_text}{knee_text}")
        points = {depth: f"{x(depth):.1f} {y(value):.1f}" for depth, value in medians}
        key = legend_key(set_up.style)
        lines.append(
            SparkLine(
                set_up.label,
                key.css,
                key.dash,
                "M" + "L".join(points.values()),
                "".join(f"M{point}{MARKS[set_up.style.marker]}" for point in points.values()),
                key,
                f"M{points[set_up.knee]}{RING}" if set_up.knee in points else "",
            )
        )
    return SparkChart(
        title,
        f"{title} over outstanding I/Os. {'; '.join(texts)}.",
        lines=tuple(lines),
        x_ticks=tuple(Tick(f"{x(depth):.1f}", str(depth)) for depth in _spaced_depths(depths, x)),
        y_ticks=tuple(Tick(f"{y(value):.1f}", short_si(value, display_unit)) for value in values),
    )


def legend_key(style: Style) -> LegendKey:
    dash = "" if style.dash == "solid" else style.dash.replace("px", "").replace(",", " ")
    return LegendKey(colour_class(style), dash, f"M14 6{MARKS[style.marker]}")


def colour_class(style: Style) -> str:
    """The class of a series' colour, which has a light and a dark half."""
    return f"s{COLOURS.index(style.colour) + 1}"


def _bar_chart(sets: Sequence[SetUp], name: str, unit: str) -> SparkChart:
    values = [next(iter(set_up.medians.values())) for set_up in sets]
    most, title = max(values), metric_naming.metric_title(name)
    bars = [
        Bar(
            set_up.label,
            colour_class(set_up.style),
            f"{100 * value / most if most > 0 else 0.0:.1f}",
            si(value, shown_unit(name, unit)),
        )
        for set_up, value in zip(sets, values, strict=True)
    ]
    texts = "; ".join(f"{bar.label}: {bar.value}" for bar in bars)
    return SparkChart(title, f"{title}. {texts}.", bars=tuple(bars))


def _axis_values(most: float) -> list[float]:
    """Return the ticks from 0 up to at least `most`, in steps of 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / VALUE_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [step * number for number in range(math.ceil(most / step * (1 - 1e-9)) + 1)]


def _spaced_depths(depths: Sequence[int], x: Callable[[int], float]) -> list[int]:
    """The last one, and of the others those that have room."""
    labelled = [depths[-1]]
    for depth in reversed(depths[:-1]):
        if x(labelled[-1]) - x(depth) >= MIN_TICK_GAP:
            labelled.append(depth)
    return labelled[::-1]
