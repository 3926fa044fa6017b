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

# cells per doubling of the latency, on a chart: each about 9 % wide
CELLS = 8
# Bins of fio per doubling; a cell begins where one of them does, and where merged ones do.
FINEST = 64
CUTS = tuple(round(FINEST * (2 ** (at / CELLS) - 1)) for at in range(CELLS))
# Share of a bin of fio that rounding from ns to s and back may lose.
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
        """(latency, share of the I/Os that took less), 0 to 1, at each edge; between two edges it is unknown."""
        shares: list[tuple[float, float]] = []
        total, below = self.total, 0
        for low, high, count in zip(self.lows, self.highs, self.counts, strict=True):
            if not shares or shares[-1][0] < low:
                shares.append((low, below / total))
            below += count
            shares.append((high, below / total))
        return shares

    def percentile_bin(self, percent: float) -> tuple[float, float]:
        """The bin in which this percentage of the I/Os is reached: the percentile lies in it."""
        target_count = percent / 100 * self.total
        reached = accumulate(self.counts)
        at = next(
            (at for at, below in enumerate(reached) if below >= target_count), len(self.counts) - 1
        )
        return self.lows[at], self.highs[at]


# number of a cell -> I/Os
Cells = Counter[int]


def count_cells(bins: Bins) -> Cells:
    """Count the I/Os of each cell; a bin counts in the cell where it begins."""
    cells: Cells = Counter()
    for low, count in zip(bins.lows, bins.counts, strict=True):
        cells[_cell_number(low)] += count
    return cells


def _cell_number(low: float) -> int:
    """Number of the cell that holds `low` seconds. fio divides the doublings of nanoseconds into cells."""
    mantissa, exponent = math.frexp(max(low * NS, 1.0))
    place = FINEST * (2 * mantissa - 1) + NEAR
    if place >= FINEST:
        return CELLS * exponent
    return CELLS * (exponent - 1) + bisect_right(CUTS, place) - 1


def cell_edge(cell: int) -> float:
    """Start of a cell, and end of the one below (s)."""
    doubling, part = divmod(cell, CELLS)
    return 2.0**doubling * (1 + CUTS[part] / FINEST) / NS


def bins_of_cells(cells: Cells) -> Bins:
    filled = sorted(cell for cell, count in cells.items() if count)
    return Bins(
        tuple(cell_edge(cell) for cell in filled),
        tuple(cell_edge(cell + 1) for cell in filled),
        tuple(cells[cell] for cell in filled),
    )


def merge_bins(every: Iterable[Bins]) -> Bins:
    """Merge the I/Os of several runs as if counted together. Bins differ from run to run, so cells count them."""
    return bins_of_cells(sum((count_cells(bins) for bins in every), Counter()))
