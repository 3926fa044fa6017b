"""How the lines of Explore look: colour, dash and marker by what they are, and no two alike. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from benchlab.charts.explore import factors
from benchlab.charts.explore.factors import Level
from benchlab.charts.explore.lines import Line
from benchlab.charts.explore.wish import Axes
from benchlab.charts.palette import COLOURS, LINE_DASHES, MARKERS, Style

Look = tuple[int, int, int]  # places in COLOURS, LINE_DASHES, MARKERS


def styles(lines: Sequence[Line], axes: Axes) -> dict[str, Style]:
    """{line: its look}, of all lines that there are: who hides some, changes no other.

    Where the marker says nothing of its own it goes with the colour, so that the eighth topology, whose colour is the
    first's again, has another marker. Whoever would look as another line does gets the next free marker, then dash.
    """
    colours, dashes, markers = (
        _places(lines, name) for name in (axes.colour, axes.dash, axes.marker)
    )
    taken: set[Look] = set()
    found: dict[str, Style] = {}
    for line in lines:
        nth = _place(line, axes.colour, colours)
        wanted = (
            nth % len(COLOURS),
            _place(line, axes.dash, dashes) % len(LINE_DASHES),
            (_place(line, axes.marker, markers) if markers else nth) % len(MARKERS),
        )
        near = _near(wanted, keep_marker=bool(markers) and not dashes)
        look = next((one for one in near if one not in taken), wanted)
        taken.add(look)
        found[line.id] = Style(COLOURS[look[0]], LINE_DASHES[look[1]], MARKERS[look[2]])
    return found


def _places(lines: Sequence[Line], name: str) -> dict[Level, int]:
    """{value: its place}, in order. {}: by nothing that lines have."""
    if not factors.is_factor(name):
        return {}
    levels = {line.levels[name] for line in lines if name in line.levels}
    return {level: place for place, level in enumerate(sorted(levels, key=lambda one: one.rank))}


def _place(line: Line, name: str, places: dict[Level, int]) -> int:
    return places[line.levels[name]] if name in line.levels and places else 0


def _near(wanted: Look, *, keep_marker: bool) -> Iterator[Look]:
    """Every look, those first that differ in the marker alone (or in the dash), the colour last."""
    colour, dash, marker = wanted
    sizes = len(LINE_DASHES), len(MARKERS)
    for c in range(len(COLOURS)):
        for one, other in product(*(map(range, sizes[::-1] if keep_marker else sizes))):
            d, m = (other, one) if keep_marker else (one, other)
            yield (
                (colour + c) % len(COLOURS),
                (dash + d) % len(LINE_DASHES),
                (marker + m) % len(MARKERS),
            )
