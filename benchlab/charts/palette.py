# SPDX-License-Identifier: Apache-2.0
"""Palette with colour, dash and marker of each series: the one place that decides it, for charts, tables and keys.

Of lines of campaigns (`looks`) the colour is the layout and the dash the host. Devices of a run have `style`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

# Okabe and Ito's palette without yellow, which vanishes on white, each at least 3:1 on the page. Neighbours differ
# most. The same as --s1 to --s7 of static/benchlab.css.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3588d", "#b87d00", "#1a99b8", "#3f4854")
# What a dark page shows instead (charts.js swaps them): same hue, lighter where the original would sink, and the two
# blues as far apart as they are on white.
DARK = {
    "#0072b2": "#3d8fe0",
    "#d55e00": "#f2874a",
    "#009e73": "#2fc79c",
    "#b3588d": "#e19dc4",
    "#b87d00": "#e9ae2b",
    "#1a99b8": "#8fd3f7",
    "#3f4854": "#e4e7ec",
}
# What bars of one layout are filled with where they stand beside each other: they show neither dash nor marker.
PATTERNS = ("", "/", "x", "-", "\\", "|", "+", ".")
# Words in a series' colour, by it: with as much of the page's ink (--ink) as makes them 4.5:1 on either page.
INKS = {
    "#0072b2": "#075886",
    "#d55e00": "#9c4a0a",
    "#009e73": "#07765a",
    "#b3588d": "#84456d",
    "#b87d00": "#875f0a",
    "#1a99b8": "#19738b",
    "#3f4854": "#333a45",
}
INKS_DARK = {
    "#075886": "#70abe5",
    "#9c4a0a": "#efa57c",
    "#07765a": "#66d2b6",
    "#84456d": "#e3b5d2",
    "#875f0a": "#e9c167",
    "#19738b": "#aadaf5",
    "#333a45": "#e5e8ee",
}
# Small gaps: lines that jump every second stay lines, and are still told apart in print.
FINE_DASHES = ("solid", "9px,2px", "4px,2px", "14px,2px,3px,2px", "2px,2px")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")

# what can be put in order
T = TypeVar("T", bound=Any)

# Of a line whose dash tells its host.
LINE_DASHES = ("solid", "9px,3px", "2px,3px", "14px,3px,3px,3px", "5px,2px", "20px,4px")
# --h0 to --h8 of static/benchlab.css: more is stronger on either page.
HEAT = (
    "#f0f5fa",
    "#dfebf5",
    "#c8deef",
    "#a6cae6",
    "#79b0d8",
    "#4d97cb",
    "#1a6fae",
    "#0b5690",
    "#083f6b",
)
HEAT_DARK = (
    "#18212b",
    "#1a2b3b",
    "#1c374f",
    "#1d4666",
    "#1e567f",
    "#23689a",
    "#3f92cb",
    "#69b2e5",
    "#a3d3f5",
)
# the same as Plotly takes it
HEAT_SCALE = [[place / (len(HEAT) - 1), colour] for place, colour in enumerate(HEAT)]


@dataclass(frozen=True, slots=True)
class Style:
    colour: str
    dash: str
    marker: str

    @property
    def ink(self) -> str:
        """Colour of words about it."""
        return INKS[self.colour]

    def faded(self, alpha: float) -> str:
        return rgba(self.colour, alpha)


def rgba(colour: str, alpha: float) -> str:
    """ "#0072b2", 0.2 -> "rgba(0,114,178,0.2)"."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def dark_swaps() -> dict[str, str]:
    """Text -> text for a dark page: the hex forms, and the beginnings of the rgba forms."""
    swaps = {**DARK, **INKS_DARK, **dict(zip(HEAT, HEAT_DARK, strict=True))}
    for light, dark in DARK.items():
        swaps[rgba(light, 0).removesuffix("0)")] = rgba(dark, 0).removesuffix("0)")
    return swaps


def device_style(index: int) -> Style:
    """The nth style of a device: colours repeat after 7, dashes and markers not in step with them."""
    return Style(
        COLOURS[index % len(COLOURS)],
        FINE_DASHES[(index + index // len(COLOURS)) % len(FINE_DASHES)],
        MARKERS[index % len(MARKERS)],
    )


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Place of a line among those that it is seen with: of its layout, of its host, and of what else tells lines apart
    (the size of a block, the share of reads, a moment, a campaign), each from 0. `more`: -1 where nothing else does.
    """

    layout: int = 0
    host: int = 0
    more: int = -1


# places in COLOURS, LINE_DASHES, MARKERS
Look = tuple[int, int, int]


def assign_styles(places: Sequence[Place]) -> list[Style]:
    """The look of each line, in order: its colour is the layout, its dash the host, its marker what else there is.

    Where nothing else tells lines apart the marker goes with the layout, so that the eighth, whose colour is the
    first's again, has another one. Whoever would look as another line does gets the next free marker, then dash (where
    the marker means something, the other way round), and another colour only when all of those are taken. The order
    of the lines does not matter, but for those that are at one place.
    """
    several = len({place.host for place in places}) > 1
    used: set[Look] = set()
    styles: dict[int, Style] = {}
    for at, place in sorted(enumerate(places), key=lambda item: item[1]):
        near = _nearby_looks(_preferred_look(place), keep_marker=place.more >= 0 and not several)
        look = next(
            (candidate for candidate in near if candidate not in used), _preferred_look(place)
        )
        used.add(look)
        styles[at] = Style(COLOURS[look[0]], LINE_DASHES[look[1]], MARKERS[look[2]])
    return [styles[at] for at in range(len(places))]


def fill_patterns(styles: Sequence[Style]) -> list[str]:
    """Patterns that fill the bars of each line, in order: those of one colour differ."""
    uses: Counter[str] = Counter()
    patterns: list[str] = []
    for style in styles:
        patterns.append(PATTERNS[uses[style.colour] % len(PATTERNS)])
        uses[style.colour] += 1
    return patterns


def _preferred_look(place: Place) -> Look:
    marker = place.layout if place.more < 0 else place.more
    return place.layout % len(COLOURS), place.host % len(LINE_DASHES), marker % len(MARKERS)


def _nearby_looks(look: Look, *, keep_marker: bool) -> Iterator[Look]:
    """Every look, those first that differ in the marker alone (or in the dash), the colour last."""
    colour, dash, marker = look
    sizes = len(LINE_DASHES), len(MARKERS)
    for c in range(len(COLOURS)):
        for first, other in product(*(map(range, sizes[::-1] if keep_marker else sizes))):
            d, m = (other, first) if keep_marker else (first, other)
            yield (
                (colour + c) % len(COLOURS),
                (dash + d) % len(LINE_DASHES),
                (marker + m) % len(MARKERS),
            )


def rank_values(values: Iterable[T]) -> dict[T, int]:
    """{value: its place among them}, in order."""
    return {value: place for place, value in enumerate(sorted(set(values)))}
