# SPDX-License-Identifier: Apache-2.0
"""The depth from which the disks together do what their data sheets say: more outstanding I/Os only wait."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, sqrt

import numpy as np
from scipy.special import stdtrit

from benchlab.analysis.evidence import Device, Line
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._set_ups import data_disks, figure_amount, figure_unit
from benchlab.analysis.repeats import robust_means

LABEL = "Rating reached"
METHOD = "Findings"

# share of the rating
REACHED = 0.95
# probability that any depth of the sweep is reported wrongly
SURE = 0.01
# repeats that a robust mean needs
ENOUGH = 3


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Report the depth for each line and rating.

    One repeat decides nothing; the depth at which it reached the rating is reported all the same.
    """
    described = (
        _describe_rated_depth(line, figure) for line in lines for figure in ("iops", "bandwidth")
    )
    return [finding for finding in described if finding]


def _describe_rated_depth(line: Line, figure: str) -> Finding | None:
    rated = _total_rating(line, figure)
    sweep = {
        d: list(cell.values())
        for d, cell in sorted(line.sweep_values(figure).items())
        if d and all(0 < value < inf for value in cell.values())
    }
    if not rated or len(sweep) < 2:
        return None
    single = min(map(len, sweep.values())) < 2
    lows = {d: min(cell) for d, cell in sweep.items()} if single else _lower_bounds(sweep)
    depth = next((d for d in sweep if lows[d] >= REACHED * rated), None)
    if depth is None:
        return None
    value = float(np.exp(np.log(sweep[depth]).mean()))
    disks = len(_rated_disks(line))
    sentence = (
        f"{line.name} reaches what its {f'{disks} disks are' if disks > 1 else 'disk is'} rated for"
        f" at {depth} outstanding: {figure_amount(value, figure)} of {figure_amount(rated, figure)}"
    )
    runs = [run for run in line.runs if run.access.outstanding == depth and figure in run.figures]
    return Finding(
        sentence + (" (one repeat: not decided)" if single else ""),
        Severity.LIMIT if not single else Severity.NOTE,
        {
            "reached": Number(
                value,
                figure_unit(figure),
                f"{line.name} at {depth}",
                run=runs[0].run,
                figure=figure,
            ),
            "rated": Number(rated, figure_unit(figure), "the sum of its disks' ratings"),
        },
        about=f"{line.name} {figure}",
        runs=tuple(run.run for run in runs if run.run),
    )


def _rated_disks(line: Line) -> tuple[Device, ...]:
    """Disks that hold data; () if one of them is unknown."""
    disk_names, devices = data_disks(line), line.runs[0].devices
    return tuple(devices[name] for name in disk_names) if devices.keys() >= set(disk_names) else ()


def _total_rating(line: Line, figure: str) -> float:
    """Total rating of the disks; 0 if that of one is unknown."""
    ratings = [d.rated_iops if figure == "iops" else d.rated_bandwidth for d in _rated_disks(line)]
    return sum(rating for rating in ratings if rating) if ratings and all(ratings) else 0.0


def _lower_bounds(sweep: dict[int, list[float]]) -> dict[int, float]:
    """Lower bounds of the means, of all depths at once; noise is that of the whole sweep."""
    cells = robust_means(list(sweep.values()), ENOUGH)
    free = float(cells.counts.sum() - len(sweep))
    noise = sqrt(max(cells.within, 0.0) / free)
    reach = -float(stdtrit(free, SURE / len(sweep)))
    halves = reach * noise / np.sqrt(cells.counts)
    return {
        d: exp(float(mean - half)) for d, mean, half in zip(sweep, cells.means, halves, strict=True)
    }
