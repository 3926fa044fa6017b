# SPDX-License-Identifier: Apache-2.0
"""Steps in the history of one set-up, and a new run against its past (docs/analysis.md, section 5). Pure numpy.

A lone outlier is replaced first (Hampel). Then binary segmentation: the split with the largest two-sample t is a change
where that t passes what one series without a change in 500 reaches by its best split (critical_values.json, which
`make_critical_values` computes with the same t), and each part is looked at likewise. Steps below 3 % are dropped. All
is done on logarithms of values above 0.

Looking again after each run multiplies false alarms, so a change is only *confirmed* when ENOUGH_AFTER runs have
followed it, the look before found it, too, and so do both looks at the medians of builds: the runs of one build of a
layout share its luck. Of clean simulated histories that are looked at from the 20th to the 100th run 2 to 10 % ever
confirm a change at 5 % noise; where builds differ by 2 %, 0 to 2 % do, and 33 to 78 % would without builds. A step of
10 % is confirmed after 6 runs (8 where three share a build) in 95 % of histories. Until then a change is *possible*.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchlab.analysis.curves import median_of

Array = NDArray[np.float64]

ALPHA = 0.002
# smallest step between the medians of neighbouring segments
SMALLEST = log(1.03)
# runs that must follow a change before it is confirmed
ENOUGH_AFTER = 6
# runs by which two looks may differ in the place of a change
SAME = 2
# Hampel: the window in runs, and limits in robust standard deviations.
WINDOW, FAR, ALONE = 9, 3.5, 2.5
# Least number of past runs, and the robust z from which a run is then unusual: false in 0.9 % of clean runs at most.
LIMITS = ((20, 3.6), (12, 4.5), (10, 5.0))
# Least noise assumed: a capped disk repeats itself to a tenth of a percent.
FLOOR = log(1.002)


@dataclass(frozen=True, slots=True)
class Change:
    """`at`: index of the first run after it. `before`, `after`: medians of the segments beside it."""

    at: int
    before: float
    after: float
    confirmed: bool

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Unusual:
    """A run that stands out: index `at`, robust z against the `past` runs since the last change before it."""

    at: int
    z: float
    past: int


def find_changes(values: Sequence[float], builds: Sequence[object] = ()) -> list[Change]:
    """Find the changes in `values` above 0, in order of time; `builds`: the build of its layout that each run ran on.

    Without `builds` each run counts as a build of its own.
    """
    logs = np.log(np.asarray(values, dtype=float))
    indices = _change_points(logs)
    if not indices:
        return []
    edges = [0, *indices, len(logs)]
    medians = [median_of(values[a:b]) for a, b in pairwise(edges)]
    build_of_run = list(builds) or list(range(len(logs)))
    looks = [
        _change_points(logs[:-1]),
        _build_change_points(logs, build_of_run),
        _build_change_points(logs[:-1], build_of_run[:-1]),
    ]
    return [
        Change(
            at,
            medians[nth],
            medians[nth + 1],
            len(logs) - at >= ENOUGH_AFTER and _confirmed_by_all(at, looks),
        )
        for nth, at in enumerate(indices)
    ]


def _confirmed_by_all(at: int, looks: Sequence[Sequence[int]]) -> bool:
    return all(any(abs(index - at) <= SAME for index in look) for look in looks)


def _build_change_points(logs: Array, builds: Sequence[object]) -> list[int]:
    """Changes between the medians of builds, each by its first run: builds differ by luck, and their runs share it."""
    starts = [at for at in range(len(logs)) if not at or builds[at] != builds[at - 1]]
    medians = [float(np.median(logs[a:b])) for a, b in pairwise([*starts, len(logs)])]
    return [starts[at] for at in _change_points(np.array(medians))]


def _change_points(logs: Array) -> list[int]:
    """Indices of changes whose steps are worth mentioning."""
    cleaned = hampel(logs)
    indices = sorted(_segment(cleaned, 0))
    while indices:
        edges = [0, *indices, len(logs)]
        medians = [float(np.median(cleaned[a:b])) for a, b in pairwise(edges)]
        steps = [abs(b - a) for a, b in pairwise(medians)]
        if min(steps) >= SMALLEST:
            break
        del indices[steps.index(min(steps))]
    return indices


def _segment(logs: Array, offset: int) -> list[int]:
    if len(logs) < 2 * LEAST_SIDE:
        return []
    (at,), (t,) = largest_t(logs[None, :])
    if t <= critical_t(len(logs)):
        return []
    before, after = _segment(logs[:at], offset), _segment(logs[at:], offset + int(at))
    return [*before, offset + int(at), *after]


@cache
def _critical_table() -> tuple[Array, Array]:
    """(ln lengths, critical values at ALPHA)."""
    table = json.loads(Path(__file__).with_name("critical_values.json").read_text())
    column = table["alphas"].index(ALPHA)
    rows = sorted((int(length), values[column]) for length, values in table["critical"].items())
    return np.log([length for length, _ in rows]), np.array([value for _, value in rows])


def critical_t(length: int) -> float:
    """Critical value of the largest t in a series of that length; beyond the table, that of its longest series."""
    lengths, values = _critical_table()
    return float(np.interp(log(length), lengths, values))


def hampel(logs: Array) -> Array:
    """Replace each lone run that is far from the median around it by that median.

    A run whose neighbours are like it is kept: it may be the beginning of a change.
    """
    if len(logs) < WINDOW:
        return logs
    median = np.median(sliding_window_view(np.pad(logs, WINDOW // 2, "reflect"), WINDOW), axis=1)
    steps = np.diff(logs)
    noise = max(FLOOR, 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / np.sqrt(2))
    apart = np.abs(steps) > ALONE * noise
    alone = np.concatenate([[True], apart]) & np.concatenate([apart, [True]])
    return np.where((np.abs(logs - median) > FAR * noise) & alone, median, logs)


def find_unusual(values: Sequence[float], changes: Sequence[Change]) -> list[Unusual]:
    """The runs that stand out from those before them since the last confirmed change. Each needs ten."""
    logs = np.log(np.asarray(values, dtype=float))
    starts = [0, *(change.at for change in changes if change.confirmed)]
    stand_out = []
    for at in range(len(logs)):
        begun = max(start for start in starts if start <= at)
        z, limit = robust_z(logs[begun:at], float(logs[at]))
        if limit is not None and z > limit:
            stand_out.append(Unusual(at, z, at - begun))
    return stand_out


def robust_z(past: Array, new: float) -> tuple[float, float | None]:
    """(robust z of a logarithm against those before it, from where on it is unusual: None with too few)."""
    limit = next((limit for enough, limit in LIMITS if len(past) >= enough), None)
    if limit is None:
        return 0.0, None
    median = float(np.median(past))
    noise = max(FLOOR, 1.4826 * float(np.median(np.abs(past - median))))
    return abs(new - median) / noise, limit


# runs on each side of a split
LEAST_SIDE = 3


def largest_t(series: Array) -> tuple[NDArray[np.int64], Array]:
    """Best split of each row (at least 2 x LEAST_SIDE values): (start of the second part, t with pooled sd).

    If the parts of a row have no spread, t is infinite where they differ and 0 where they do not.
    """
    n = series.shape[1]
    before = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    centred = series - series.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, before - 1]
    total = (centred**2).sum(axis=1, keepdims=True)
    # Centred, the second part's sum is minus the first's.
    between = sums**2 * (1 / before + 1 / (n - before))
    within = np.maximum(total - between, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.where(between > 1e-12 * total, between / within * (n - 2), 0.0)
    best = squared.argmax(axis=1)
    rows = np.arange(len(series))
    return before[best], np.sqrt(squared[rows, best])
