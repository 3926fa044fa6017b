# SPDX-License-Identifier: Apache-2.0
"""Counts of I/Os by how long they took: shares, ranks, and bins of equal width for a chart. Pure.

No bin is ever split: whatever is read off is true at the edge of one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

# to a doubling of the latency, on a chart: each about 9 % wide
CELLS = 8
# fio has so many bins to a doubling; a cell begins where one of them does, as those do that were merged.
FINEST = 64
CUTS = tuple(round(FINEST * (2 ** (at / CELLS) - 1)) for at in range(CELLS))
# of one of fio's bins: what is lost from ns to s and back
NEAR = 1e-6
NS = 1e9


@dataclass(frozen=True, slots=True)
class Bins:
    """`counts[i]` I/Os took from `lows[i]` on and less than `highs[i]` (s). Rising, none empty."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def cumulative_shares(self) -> list[tuple[float, float]]:
        """(latency, share of the I/Os that took less), 0 to 1, at each edge: between two of them nobody knows."""
        found: list[tuple[float, float]] = []
        total, below = self.total, 0
        for low, high, count in zip(self.lows, self.highs, self.counts, strict=True):
            if not found or found[-1][0] < low:
                found.append((low, below / total))
            below += count
            found.append((high, below / total))
        return found

    def percentile_bin(self, percent: float) -> tuple[float, float]:
        """The bin in which so many percent of the I/Os are reached: the percentile lies in it."""
        wanted = percent / 100 * self.total
        reached = accumulate(self.counts)
        at = next((at for at, below in enumerate(reached) if below >= wanted), len(self.counts) - 1)
        return self.lows[at], self.highs[at]


# number of a cell -> I/Os
Cells = Counter[int]


def count_cells(bins: Bins) -> Cells:
    """A bin counts where it begins."""
    found: Cells = Counter()
    for low, count in zip(bins.lows, bins.counts, strict=True):
        found[_cell_number(low)] += count
    return found


def _cell_number(low: float) -> int:
    """By nanoseconds: doublings of those are what fio cuts."""
    mantissa, exponent = math.frexp(max(low * NS, 1.0))
    place = FINEST * (2 * mantissa - 1) + NEAR
    if place >= FINEST:
        return CELLS * exponent
    return CELLS * (exponent - 1) + bisect_right(CUTS, place) - 1


def cell_edge(cell: int) -> float:
    """Start of a cell, and end of the one below (s)."""
    doubling, part = divmod(cell, CELLS)
    return 2.0**doubling * (1 + CUTS[part] / FINEST) / NS


def bins_of_cells(found: Cells) -> Bins:
    kept = sorted(cell for cell, count in found.items() if count)
    return Bins(
        tuple(cell_edge(cell) for cell in kept),
        tuple(cell_edge(cell + 1) for cell in kept),
        tuple(found[cell] for cell in kept),
    )


def merge_bins(every: Iterable[Bins]) -> Bins:
    """The I/Os of several as if one had counted them. Bins differ from run to run, so they are counted in cells."""
    return bins_of_cells(sum((count_cells(bins) for bins in every), Counter()))
