# SPDX-License-Identifier: Apache-2.0
"""Looks of the lines of Explore: colour, dash and marker by what the axes say, and no two alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchlab.charts.explore import factors
from benchlab.charts.explore.lines import Line
from benchlab.charts.explore.query import Axes
from benchlab.charts.palette import Place, Style, assign_styles, rank_values

# Keys that rise as they were made, the order of their looks on all other pages
CREATION_ORDERED = (
    "topology",
    "host",
)


def explore_styles(
    lines: Sequence[Line], axes: Axes, seats: Mapping[str, Mapping[Any, int]] | None = None
) -> dict[str, Style]:
    """{line: its look}, of all lines that there are: who hides some, changes no other.

    `seats`: {factor: {key: place}} of what keeps the look that it has elsewhere.
    """
    colours, dashes, markers = (
        {} if not name else (seats or {}).get(name) or _factor_places(lines, name)
        for name in (axes.colour, axes.dash, axes.marker)
    )
    places = [
        Place(
            _level_place(line, axes.colour, colours),
            _level_place(line, axes.dash, dashes),
            _level_place(line, axes.marker, markers) if markers else -1,
        )
        for line in lines
    ]
    return {line.id: look for line, look in zip(lines, assign_styles(places), strict=True)}


def _factor_places(lines: Sequence[Line], name: str) -> dict[Any, int]:
    """{key of a value: its place}, in order. {}: by nothing that lines have."""
    if not factors.is_factor(name):
        return {}
    levels = {line.levels[name] for line in lines if name in line.levels}
    if name in CREATION_ORDERED:
        return rank_values(level.key for level in levels)
    rising = sorted(levels, key=lambda level: level.sort_key)
    return {level.key: place for place, level in enumerate(rising)}


def _level_place(line: Line, name: str, places: Mapping[Any, int]) -> int:
    return places.get(line.levels[name].key, 0) if name in line.levels else 0
