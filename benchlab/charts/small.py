# SPDX-License-Identifier: Apache-2.0
"""A chart so small that it needs no script: lines over outstanding I/Os as SVG, or a bar for each set-up. Pure.

Places and paths are texts: a template puts them into attributes, colours come by class from the stylesheet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchlab.analysis.rate_words import shown_unit
from benchlab.charts import naming
from benchlab.charts.palette import COLOURS, Style
from benchlab.web.units import short, si

WIDTH, HEIGHT = 280, 150
LEFT, RIGHT, TOP, BOTTOM = 58, 268, 22, 118
# of the middles of two numbers on the axis of depths
APART = 22
# on the axis of values, beside zero
TICKS = 3
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
class Key:
    """Look of a line in a legend of 28 x 12: class, `stroke-dasharray`, path of the marker."""

    css: str
    dash: str
    mark: str


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    css: str
    dash: str
    path: str
    marks: str
    key: Key
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
class Chart:
    """`says`: all of it in words, for who does not see it. Either lines or bars."""

    title: str
    says: str
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    xs: tuple[Tick, ...] = ()
    ys: tuple[Tick, ...] = ()


def chart(sets: Sequence[SetUp], name: str, unit: str) -> Chart | None:
    """Of `name` in base units. Lines where there are several depths, else bars; None where nothing is known."""
    known = [one for one in sets if one.medians]
    depths = sorted({depth for one in known for depth in one.medians if depth})
    if len(depths) > 1:
        return _curves([one for one in known if _sorted(one)], depths, name, unit)
    return _bars(known, name, unit) if known else None


def _words(name: str, unit: str, value: float) -> str:
    return si(value, shown_unit(name, unit))


def _curves(sets: Sequence[SetUp], depths: Sequence[int], name: str, unit: str) -> Chart:
    ys = _values(max(value for one in sets for value in one.medians.values()))
    top = ys[-1]

    def x(depth: int) -> float:
        first, last = math.log2(depths[0]), math.log2(depths[-1])
        return LEFT + (math.log2(depth) - first) / (last - first) * (RIGHT - LEFT)

    def y(value: float) -> float:
        return BOTTOM - value / top * (BOTTOM - TOP)

    told = (
        f"{one.label}: {', '.join(f'{_words(name, unit, v)} at {d}' for d, v in _sorted(one))}"
        + (f", knee at {one.knee}" if one.knee else "")
        for one in sets
    )
    return Chart(
        naming.title(name),
        f"{naming.title(name)} over outstanding I/Os. {'; '.join(told)}.",
        lines=tuple(_line(one, [(x(d), y(v)) for d, v in _sorted(one)]) for one in sets),
        xs=tuple(Tick(_text(x(depth)), str(depth)) for depth in _apart(depths, x)),
        ys=tuple(Tick(_text(y(value)), short(value, shown_unit(name, unit))) for value in ys),
    )


def _sorted(one: SetUp) -> list[tuple[int, float]]:
    return sorted((depth, value) for depth, value in one.medians.items() if depth)


def _line(one: SetUp, places: Sequence[tuple[float, float]]) -> Line:
    knee = [at for at, (depth, _) in zip(places, _sorted(one), strict=True) if depth == one.knee]
    mark, shown = MARKS[one.style.marker], key(one.style)
    points = [f"{_text(x)} {_text(y)}" for x, y in places]
    return Line(
        one.label,
        shown.css,
        shown.dash,
        "M" + "L".join(points),
        "".join(f"M{point}{mark}" for point in points),
        shown,
        next((f"M{_text(x)} {_text(y)}{RING}" for x, y in knee), ""),
    )


def key(style: Style) -> Key:
    dash = "" if style.dash == "solid" else style.dash.replace("px", "").replace(",", " ")
    return Key(css(style), dash, f"M14 6{MARKS[style.marker]}")


def css(style: Style) -> str:
    """The class of a series' colour, which has a light and a dark half."""
    return f"s{COLOURS.index(style.colour) + 1}"


def _bars(sets: Sequence[SetUp], name: str, unit: str) -> Chart:
    values = [next(iter(one.medians.values())) for one in sets]
    most = max(values)
    told = [_words(name, unit, value) for value in values]
    bars = tuple(
        Bar(one.label, css(one.style), _text(100 * value / most if most > 0 else 0.0), words)
        for one, value, words in zip(sets, values, told, strict=True)
    )
    says = "; ".join(f"{one.label}: {words}" for one, words in zip(sets, told, strict=True))
    return Chart(naming.title(name), f"{naming.title(name)}. {says}.", bars=bars)


def _values(most: float) -> list[float]:
    """From 0 in steps of 1, 2 or 5 times a power of ten, to above the most."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [step * number for number in range(math.ceil(most / step * (1 - 1e-9)) + 1)]


def _apart(depths: Sequence[int], x: Callable[[int], float]) -> list[int]:
    """The last one, and of the others those that have room."""
    kept = [depths[-1]]
    for depth in reversed(depths[:-1]):
        if x(kept[-1]) - x(depth) >= APART:
            kept.append(depth)
    return kept[::-1]


def _text(number: float) -> str:
    return f"{number:.1f}"
