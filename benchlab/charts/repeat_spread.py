# SPDX-License-Identifier: Apache-2.0
"""Points whose repeats differ more than noise explains: charts, tables and cards mark the same points. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.repeats import disagreement_ratios
from benchlab.charts.naming import METRICS
from benchlab.charts.queries import Group, Sample

JUDGED_RATES = ("iops", "bandwidth")


def ratios_by_depth(group: Group, name: str) -> dict[int, float]:
    """{outstanding: largest over smallest repeat} of the points of a sweep whose repeats differ."""
    cells: dict[int, list[float]] = {}
    for sample in group.samples:
        if name in sample.values:
            cells.setdefault(sample.outstanding or 0, []).append(sample.values[name])
    ratios = zip(cells, disagreement_ratios(list(cells.values())), strict=True)
    return {depth: ratio for depth, ratio in ratios if ratio}


def ratios_by_line(groups: Sequence[Group], name: str) -> list[float | None]:
    """Of lines without a sweep: a cell each, held against the noise of the others."""
    return disagreement_ratios([_sample_values(group.samples, name) for group in groups])


def has_depth_rows(lines: Sequence[Group]) -> bool:
    """True for a table with a row for each depth of a line; else it has one for each metric, the lines side by side."""
    return any(line.swept or not METRICS.keys().isdisjoint(line.units) for line in lines)


def ratios_by_run(lines: Sequence[Group], name: str) -> dict[int, float]:
    """{run: largest over smallest repeat of its point} where those differ, of one chart's lines as its table has it."""
    if has_depth_rows(lines):
        cells = [(line.samples, ratios_by_depth(line, name)) for line in lines]
        return {
            sample.run: by_depth[sample.outstanding or 0]
            for samples, by_depth in cells
            for sample in samples
            if (sample.outstanding or 0) in by_depth
        }
    ratios = zip(lines, ratios_by_line(lines, name), strict=True)
    return {sample.run: ratio for line, ratio in ratios if ratio for sample in line.samples}


def judged_rate(group: Group) -> str:
    """Rate by which a line's points are judged: the first that it has."""
    measured = (name for name in JUDGED_RATES if _sample_values(group.samples, name))
    return next(measured, JUDGED_RATES[0])


def _sample_values(samples: Sequence[Sample], name: str) -> list[float]:
    return [sample.values[name] for sample in samples if name in sample.values]
