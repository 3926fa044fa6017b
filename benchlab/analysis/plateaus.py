# SPDX-License-Identifier: Apache-2.0
"""Falls and caps of a response curve past its knee. Pure.

A fall is claimed by the posterior over shapes (shape_library). Of 900 simulated curves that do not fall it is said of
0.1 % at a noise of 3 %, and of 0.4 to 0.7 % at 10 %; of falls of 20 % and more some 60 % are found. Most missed ones
have only their last depth to show for it, which may as well be a bad point. With fewer than three repeats: not claimed.
A cap is claimed of 0.4 % (three repeats) and of 0 to 1 % (one) of curves that still gain 5 % a doubling there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, log2

import numpy as np

from benchlab.analysis.curves import ENOUGH_REPEATS, median_of
from benchlab.analysis.knees import usable
from benchlab.analysis.repeats import robust_means
from benchlab.analysis.shape_library import library, posterior

# Share of the peak: a smaller fall is not worth mentioning.
FALL = 0.05
SURE_OF_FALL = 0.97
# largest range of the IOPS of a cap (docs/method.md)
FLAT = 0.02
# doublings that a cap lasts for, at least
DOUBLINGS = 2
# Share of the growth in outstanding I/Os by which latency grows too, if all of them wait.
FOLLOWS = 0.9


@dataclass(frozen=True, slots=True)
class Collapse:
    """IOPS fall from the depth `peak` to the last one, by `share` of the peak (medians, 0 to 1)."""

    peak: int
    last: int
    share: float


@dataclass(frozen=True, slots=True)
class Cap:
    """A range of outstanding I/Os, `low` to `high`, with IOPS within 2 % of `iops`: more of them only wait longer."""

    low: int
    high: int
    iops: float


def collapse(cells: Mapping[int, Sequence[float]]) -> Collapse | None:
    """Find a fall in {outstanding I/Os: IOPS of each repeat}, with three repeats of each; None if no fall is proven."""
    if not usable(cells) or min(map(len, cells.values())) < ENOUGH_REPEATS:
        return None
    depths = tuple(sorted(cells))
    medians = {depth: median_of(cells[depth]) for depth in depths}
    peak, last = max(depths, key=lambda depth: medians[depth]), depths[-1]
    share = 1 - medians[last] / medians[peak]
    if share < FALL:
        return None
    falling = library(depths).falls >= -log(1 - FALL)
    chance = posterior(depths, [cells[depth] for depth in depths])[falling].sum()
    return Collapse(peak, last, share) if chance >= SURE_OF_FALL else None


def cap(
    cells: Mapping[int, Sequence[float]], latencies: Mapping[int, Sequence[float]] | None = None
) -> Cap | None:
    """Find a cap in {outstanding I/Os: IOPS of each repeat}.

    `latencies`: mean total latencies (s) where they are known. A cap reaches the last depth. A curve that is flat from
    the first depth on is a cap, too, or one request at a time.
    """
    if not cells or any(not cell or min(cell) <= 0 for cell in cells.values()):
        return None
    depths = sorted(cells)
    means = robust_means([cells[depth] for depth in depths], ENOUGH_REPEATS).means
    flat = next(at for at in range(len(depths)) if np.ptp(means[at:]) <= log(1 + FLAT))
    low, high = depths[flat], depths[-1]
    if log2(high / low) < DOUBLINGS or not _waits(low, high, latencies or {}):
        return None
    return Cap(low, high, float(np.exp(means[flat:].mean())))


def _waits(low: int, high: int, latencies: Mapping[int, Sequence[float]]) -> bool:
    """True when latency grows with the depth, or is not known, for it follows from IOPS by Little's law."""
    first, last = latencies.get(low), latencies.get(high)
    if not first or not last:
        return True
    return median_of(last) / median_of(first) >= FOLLOWS * high / low
