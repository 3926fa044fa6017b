"""Which colour, dash and marker a series has: the same on every page, told apart without colour too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
# Small gaps: lines that jump every second stay lines, and are still told apart in print.
FINE_DASHES = ("solid", "9px,2px", "4px,2px", "14px,2px,3px,2px", "2px,2px")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star")

# Topology, host, workload (primary keys), rest of the point, and the moment's rank (benchlab.topologies.moments).
Identity = tuple[int, int, int, str, tuple[int, bool]]
# Dashes that tell what a line is: a host, or before, during and after of what is the same but for its moment.
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


@dataclass(frozen=True, slots=True)
class Style:
    colour: str
    dash: str
    marker: str

    def faded(self, alpha: float) -> str:
        return rgba(self.colour, alpha)


def rgba(colour: str, alpha: float) -> str:
    """ "#0072b2", 0.2 -> "rgba(0,114,178,0.2)"."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def dark_swaps() -> dict[str, str]:
    """Text -> text for a dark page: the hex forms, and the beginnings of the rgba forms."""
    swaps = dict(DARK)
    for light, dark in DARK.items():
        swaps[rgba(light, 0).removesuffix("0)")] = rgba(dark, 0).removesuffix("0)")
    return swaps


def heat_swaps() -> dict[str, str]:
    """The same of what a heat map is filled with."""
    return dict(zip(HEAT, HEAT_DARK, strict=True))


def style(index: int) -> Style:
    """The nth style of a device: colours repeat after 7, dashes and markers not in step with them."""
    return Style(
        COLOURS[index % len(COLOURS)],
        FINE_DASHES[(index + index // len(COLOURS)) % len(FINE_DASHES)],
        MARKERS[index % len(MARKERS)],
    )


def styles(identities: Sequence[Identity]) -> dict[Identity, Style]:
    """A style per line by what it is, not by its place on this page: the topology and host make the colour.

    Two that would share a colour though others are free are moved apart, in the order of their identity; with more
    lines than colours, no two share colour and marker. The moments of one line share its colour; their dashes tell
    them apart where dashes are not needed to say which statistic a line shows, their markers do so everywhere.
    """
    slots: dict[tuple[Any, ...], int] = {}
    moments: dict[tuple[Any, ...], int] = {}
    used: dict[int, set[int]] = {}  # markers of each colour
    found: dict[Identity, Style] = {}
    each = Counter(identity[:4] for identity in set(identities))
    for identity in sorted(set(identities)):
        topology, host, workload, rest = line = identity[:4]
        wanted = topology + 2 * host + sum(rest.encode()) - 3  # the first one is blue
        if line not in slots:
            slots[line] = _free(wanted % len(COLOURS), _no_room(used, each[line]), len(COLOURS))
        slot, nth = slots[line], moments.get(line, 0)
        moments[line] = nth + 1
        taken = used.setdefault(slot, set())
        marker = _free((topology + host + workload) % len(MARKERS), taken, len(MARKERS))
        taken.add(marker)
        dash = LINE_DASHES[nth % len(LINE_DASHES)]
        found[identity] = Style(COLOURS[slot], dash, MARKERS[marker])
    return found


def _no_room(used: Mapping[int, set[int]], moments: int) -> set[int]:
    """Colours that a line of so many moments may not have: used ones, then those with too few markers left."""
    if len(used) < len(COLOURS):
        return set(used)
    return {colour for colour, markers in used.items() if len(markers) + moments > len(MARKERS)}


def _free(wanted: int, taken: set[int], size: int) -> int:
    """The first free one of `size`, going up from the wanted one; the wanted one when all are taken."""
    return next(
        (at % size for at in range(wanted, wanted + size) if at % size not in taken), wanted
    )
