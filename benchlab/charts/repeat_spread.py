"""Where repeats differ more than noise explains: charts, tables and cards mark the same points. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.repeats import disagreeing
from benchlab.charts.queries import Group, Sample

RATES = ("iops", "bandwidth")


def of_depths(group: Group, name: str) -> dict[int, float]:
    """{outstanding: largest over smallest repeat} of the points of a sweep whose repeats differ."""
    cells: dict[int, list[float]] = {}
    for sample in group.samples:
        if name in sample.values:
            cells.setdefault(sample.outstanding or 0, []).append(sample.values[name])
    found = zip(cells, disagreeing(list(cells.values())), strict=True)
    return {depth: ratio for depth, ratio in found if ratio}


def of_lines(groups: Sequence[Group], name: str) -> list[float | None]:
    """Of lines without a sweep: a cell each, held against the noise of the others."""
    return disagreeing([_values(group.samples, name) for group in groups])


def rate_of(group: Group) -> str:
    """What a line's points are judged by: the first rate that it has."""
    known = (name for name in RATES if _values(group.samples, name))
    return next(known, RATES[0])


def _values(samples: Sequence[Sample], name: str) -> list[float]:
    return [sample.values[name] for sample in samples if name in sample.values]
