# SPDX-License-Identifier: Apache-2.0
"""Response curves: IOPS and latency over outstanding I/Os. Pure; base units (op/s, s)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# docs/method.md, "Numbers".
# With fewer repeats no interval is claimed.
ENOUGH_REPEATS = 3
LITTLE_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """Median over repeats; `low` and `high` are the smallest and largest repeat, None for fewer than three."""

    n: int
    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Little:
    """Little's law at one point: outstanding I/Os = IOPS x latency. `ratio`: that product over the requested number.

    For several repeats it is the median of their products. The product of their medians belongs to no run: it misses a
    run that is fast yet slow to answer, and invents one that is neither.
    """

    implied: float
    ratio: float

    @property
    def holds(self) -> bool:
        return abs(self.ratio - 1) <= LITTLE_TOLERANCE


def median_of(values: Sequence[float]) -> float:
    """Median as numpy computes it, which starts too slowly for a page of small tables; NaN if any value is NaN."""
    ordered, half = sorted(values), len(values) // 2
    if any(map(math.isnan, values)):
        return math.nan
    return float(ordered[half]) if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values: Sequence[float]) -> Spread:
    """The median of at least one value, with the range that three or more repeats cover."""
    if not values:
        raise ValueError("no values to take a median of")
    median = median_of(values)
    if len(values) < ENOUGH_REPEATS:
        return Spread(len(values), median, None, None)
    return Spread(len(values), median, min(values), max(values))


def curve(samples: Iterable[tuple[int, float]]) -> dict[int, Spread]:
    """{outstanding: Spread} in rising order, of (outstanding, value) pairs."""
    by_depth: dict[int, list[float]] = defaultdict(list)
    for outstanding, value in samples:
        by_depth[outstanding].append(value)
    return {depth: spread(by_depth[depth]) for depth in sorted(by_depth)}


def little(outstanding: int, runs: Sequence[tuple[float, float]]) -> Little:
    """`runs`: (op/s, mean total latency in s) of at least one run at that many outstanding I/Os."""
    implied = median_of([iops * latency for iops, latency in runs])
    return Little(implied, implied / outstanding)


def common_factor(laws: Sequence[Little]) -> int | None:
    """Whole number of I/Os in flight for each requested one, the same at two or more points; else None.

    Then so many workers had that depth each; where the points differ, a depth was not reached.
    """
    if len(laws) < 2:
        return None
    factor = round(median_of([law.ratio for law in laws]))
    alike = all(abs(law.ratio - factor) <= LITTLE_TOLERANCE * factor for law in laws)
    return factor if alike and factor >= 2 else None
