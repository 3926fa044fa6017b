# SPDX-License-Identifier: Apache-2.0
"""Places in a plot with room for words: beside the ends of its lines, and near points where no line runs.

Places are computed in pixels of a plot as narrow as one that is shown with words at all; a wider one has more room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import Any

from benchlab.charts.palette import Style

# how wide it is
MIN_PLOT_PX = 480
# of words at 11 px
LETTER_PX, LINE_PX = 6.2, 14.0
# between a point, whose marker is 8 wide, and words
OFF_PX = 8.0
# of an axis, which Plotly leaves free beyond its first and last point
AXIS_EDGE = 0.05
# letters of a name at the end of a line
MAX_NAME_LETTERS = 28
# from a line's end, beyond which nobody sees what a name belongs to
MAX_SHIFT_PX = 30.0

# how far names may stand above the plot, where nothing else does
ABOVE_PX = 24.0

Numbers = Sequence[float]
# from the left, from the bottom
Pixel = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def crossed(self, start: Pixel, end: Pixel) -> bool:
        """True when the stretch from start to end has a point inside (Liang and Barsky)."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        sides = (
            (-dx, start[0] - self.left),
            (dx, self.right - start[0]),
            (-dy, start[1] - self.bottom),
            (dy, self.top - start[1]),
        )
        first, last = 0.0, 1.0
        for slope, room in sides:
            if slope == 0:
                if room < 0:
                    return False
                continue
            at = room / slope
            first, last = (max(first, at), last) if slope < 0 else (first, min(last, at))
        return first <= last


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis of so many pixels, from `low` to `high` in base units, or in their logarithms."""

    low: float
    high: float
    pixels: float
    log: bool = False

    @classmethod
    def fit(
        cls, numbers: Iterable[float], pixels: float, *, log: bool, zero: bool = False
    ) -> Scale:
        """Fit the scale to its points as Plotly does. With `zero`, a linear one begins at 0."""
        positions = [
            log10(number) if log else number for number in numbers if not log or number > 0
        ] or [0.0]
        low, high = min(positions), max(positions)
        if zero and not log:
            low = min(0.0, low)
        room = AXIS_EDGE / (1 - 2 * AXIS_EDGE) * ((high - low) or 1.0)
        return cls(low if zero and not log else low - room, high + room, pixels, log)

    def axis_value(self, value: float) -> float:
        """Return the position that Plotly expects of an annotation: the logarithm if the axis is logarithmic."""
        return log10(value) if self.log else value

    def to_pixel(self, value: float) -> float:
        return (self.axis_value(value) - self.low) / (self.high - self.low) * self.pixels

    def from_pixel(self, pixel: float) -> float:
        at = self.low + pixel / self.pixels * (self.high - self.low)
        return float(10**at) if self.log else at


@dataclass(frozen=True, slots=True)
class Plot:
    """Its axes and its lines, in pixels; `rules`: what words must not lie on, either, but may lie behind.

    `beyond`: how far words may reach into the margin on the right.
    """

    x: Scale
    y: Scale
    lines: tuple[tuple[Pixel, ...], ...]
    beyond: float = 0.0
    rules: tuple[tuple[Pixel, ...], ...] = ()

    @classmethod
    def from_lines(
        cls,
        x: Scale,
        y: Scale,
        lines: Iterable[tuple[Numbers, Numbers]],
        beyond: float = 0.0,
        rules: Iterable[tuple[Numbers, Numbers]] = (),
    ) -> Plot:
        """`lines`, `rules`: the x and the y of each. What a logarithmic axis cannot show is left out."""
        drawn, ruled = (tuple(_to_pixels(x, y, line) for line in some) for some in (lines, rules))
        return cls(x, y, drawn, beyond, ruled)

    def has_room(self, box: Box, boxes: Sequence[Box] = ()) -> bool:
        """True when it lies inside of the plot, on no line and on no other box."""
        right = self.x.pixels + self.beyond
        return (
            box.left >= 0
            and box.right <= right
            and box.bottom >= 0
            and box.top <= self.y.pixels
            and not any(box.meets(other) for other in boxes)
            and self.is_off_lines(box)
        )

    def is_off_lines(self, box: Box) -> bool:
        return not any(
            box.crossed(start, end) for line in self.lines for start, end in _segments(line)
        )

    def crosses_between(self, start: Pixel, end: Pixel, own: int) -> bool:
        """True when another line than the `own` one runs between two places."""
        return any(
            _segments_meet(start, end, a, b)
            for at, line in enumerate(self.lines)
            if at != own
            for a, b in _segments(line)
        )


def _to_pixels(x: Scale, y: Scale, line: tuple[Numbers, Numbers]) -> tuple[Pixel, ...]:
    return tuple(
        (x.to_pixel(a), y.to_pixel(b))
        for a, b in zip(*line, strict=True)
        if (a > 0 or not x.log) and (b > 0 or not y.log)
    )


def _segments(line: Sequence[Pixel]) -> Iterable[tuple[Pixel, Pixel]]:
    """Pair each point with the next; a single point is paired with itself."""
    return pairwise(line) if len(line) > 1 else zip(line, line, strict=True)


def _segments_meet(a: Pixel, b: Pixel, c: Pixel, d: Pixel) -> bool:
    """True when the stretches a to b and c to d meet."""
    return (
        _orientation(a, b, c) * _orientation(a, b, d) <= 0
        and _orientation(c, d, a) * _orientation(c, d, b) <= 0
    )


def _orientation(a: Pixel, b: Pixel, c: Pixel) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


# Plotly's word for it, and where the box is from the point: how much of it is on the left, and whether it is above.
POSITIONS = (
    ("top center", 0.5, True),
    ("bottom center", 0.5, False),
    ("top left", 1.0, True),
    ("bottom left", 1.0, False),
    ("top right", 0.0, True),
    ("bottom right", 0.0, False),
)


def find_room_near(
    plot: Plot, own: int, words: str, boxes: Sequence[Box] = ()
) -> tuple[int, str, Box] | None:
    """(which point of the line `own`, Plotly's textposition, its box) where there is room for words about that line,
    above or below the last point that has any; None where none has."""
    return next(_rooms_near(plot, own, words, boxes), None)


def _rooms_near(
    plot: Plot, own: int, words: str, boxes: Sequence[Box]
) -> Iterator[tuple[int, str, Box]]:
    wide = LETTER_PX * len(words)
    for at, (x, y) in reversed([*enumerate(plot.lines[own])]):
        for position, share, above in POSITIONS:
            start = x - share * wide + (1 - 2 * share) * OFF_PX
            bottom = y + OFF_PX if above else y - OFF_PX - LINE_PX
            box = Box(start, bottom, start + wide, bottom + LINE_PX)
            toward = x + (0.5 - share) * 2 * OFF_PX, y + (OFF_PX if above else -OFF_PX)
            # not where lines meet
            off = (19 * x + toward[0]) / 20, (19 * y + toward[1]) / 20
            if plot.has_room(box, boxes) and not plot.crosses_between(off, toward, own):
                yield at, position, box


def spread_apart(preferred: Numbers, gap: float, low: float, high: float) -> list[float]:
    """Places as near to the wanted ones as may be, at least `gap` from each other, between `low` and `high`.

    Those that are too near to each other are moved together, around their middle; their order stays.
    """
    order = sorted(range(len(preferred)), key=lambda at: preferred[at])
    # Sum of where each block's first one would be, and how many
    blocks: list[tuple[float, int]] = []
    for at in order:
        blocks.append((preferred[at], 1))
        while len(blocks) > 1 and _block_end(blocks[-2], gap) > _block_start(blocks[-1], gap):
            (first, many), (other, more) = blocks[-2:]
            blocks[-2:] = [(first + other - more * many * gap, many + more)]
    places: list[float] = []
    for total, many in blocks:
        start = total / many
        places += [start + gap * number for number in range(many)]
    return _clamp(dict(zip(order, places, strict=True)), gap, low, high)


def _block_start(block: tuple[float, int], gap: float) -> float:
    return block[0] / block[1]


def _block_end(block: tuple[float, int], gap: float) -> float:
    """Return the first position at which the next block may start."""
    return block[0] / block[1] + block[1] * gap


def _clamp(places: dict[int, float], gap: float, low: float, high: float) -> list[float]:
    """Pushed up from below, then down from above, where they left the plot."""
    rising = sorted(places, key=lambda at: places[at])
    floor = low
    for at in rising:
        places[at] = max(places[at], floor)
        floor = places[at] + gap
    ceiling = high
    for at in reversed(rising):
        places[at] = min(places[at], ceiling)
        ceiling = places[at] - gap
    return [places[at] for at in range(len(places))]


def shorten_labels(names: Sequence[str]) -> list[str]:
    """Names as lines' ends have room for them: without the words that all begin or end with, cut. [] where two would
    read the same."""
    words = [name.split() for name in names]
    if len(words) > 1 and max(map(len, names), default=0) > MAX_NAME_LETTERS:
        for from_end in (False, True):
            while _share_word(words, from_end):
                words = [name_words[:-1] if from_end else name_words[1:] for name_words in words]
    joined = [" ".join(name_words).strip("·, ") for name_words in words]
    for cut in (_truncate_at_word, _truncate):
        shortened = [cut(name) if len(name) > MAX_NAME_LETTERS else name for name in joined]
        if len(set(shortened)) == len(shortened) and all(shortened):
            return shortened
    return []


def _truncate_at_word(name: str) -> str:
    return _truncate(name[:MAX_NAME_LETTERS].rpartition(" ")[0] or name)


def _truncate(name: str) -> str:
    return name[: MAX_NAME_LETTERS - 1].rstrip(" ·,") + "…"


def _share_word(words: Sequence[Sequence[str]], from_end: bool) -> bool:
    """True when all begin (or end) with the same word, and none consists of it alone."""
    return (
        min(map(len, words)) > 1
        and len({name_words[-1 if from_end else 0] for name_words in words}) == 1
    )


def end_offsets(plot: Plot, names: Sequence[str]) -> list[float | None]:
    """Return, for each line, how many pixels its name stands above its end; None if there is no room.

    The names of lines that end furthest to the right stand one above the other. A line that ends before that has its
    name only if no line runs through it.
    """
    last = [line[-1] if line else None for line in plot.lines]
    edge = max((x for line in plot.lines for x, _ in line), default=0.0)
    beside = {at: end[1] for at, end in enumerate(last) if end and end[0] > edge - OFF_PX}
    top = plot.y.pixels + ABOVE_PX
    places = spread_apart(list(beside.values()), LINE_PX, LINE_PX / 2, top)
    offsets: list[float | None] = [None] * len(last)
    boxes: list[Box] = []
    for (at, end), place in zip(beside.items(), places, strict=True):
        if abs(place - end) > MAX_SHIFT_PX:
            return [None] * len(last)
        offsets[at] = place - end
        boxes.append(_name_box((edge, place), names[at]))
    for at, tip in enumerate(last):
        if tip is None or at in beside:
            continue
        box = _name_box(tip, names[at])
        if plot.has_room(box, boxes):
            boxes.append(box)
            offsets[at] = 0.0
    return offsets


def _name_box(end: Pixel, name: str) -> Box:
    start, bottom = end[0] + OFF_PX, end[1] - LINE_PX / 2
    return Box(start, bottom, start + LETTER_PX * len(name), bottom + LINE_PX)


# lines that have names there
MAX_NAMED_LINES = 6
# How the `name` of such an annotation begins, before its line's legendgroup: charts.js leaves it out of a narrow chart,
# and hides it with its line.
END_PREFIX = "end: "


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line; `x`, `y` in base units, `group` that its legend shows and hides it by."""

    label: str
    group: str
    style: Style
    x: Numbers
    y: Numbers


def end_name_annotations(
    lines: Sequence[NamedLine], x: Scale, y: Scale, axes: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Annotations with the names of two to six lines, where they have room; `axes`: Plotly's names of the panel's.

    To the right there is always room: Plotly fits an axis to its annotations as it does to its points.
    """
    labels = (
        shorten_labels([line.label for line in lines]) if 1 < len(lines) <= MAX_NAMED_LINES else []
    )
    if not labels:
        return []
    beyond = LETTER_PX * max(map(len, labels))
    plot = Plot.from_lines(x, y, [(line.x, line.y) for line in lines], beyond)
    return [
        {
            "name": f"{END_PREFIX}{line.group}",
            "text": name,
            "x": x.axis_value(line.x[-1]),
            "y": y.axis_value(line.y[-1]),
            **axes,
            "xanchor": "left",
            "yanchor": "middle",
            "xshift": OFF_PX,
            "yshift": round(up, 1),
            "showarrow": False,
            "font": {"color": line.style.ink, "size": 11},
        }
        for line, name, up in zip(lines, labels, end_offsets(plot, labels), strict=True)
        if up is not None
    ]
