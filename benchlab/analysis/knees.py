# SPDX-License-Identifier: Apache-2.0
"""The knee of a response curve with its uncertainty: a posterior over a library of shapes (docs/analysis.md, 2).

The knee is the smallest measured depth from which every further doubling gains less than 5 % on the curve without its
noise. Asked of noisy points that question is answered by luck, so each of some ten thousand noise-free curves says
where its knee is, and the measured points say how likely each curve is.

Of 1,000 simulated curves each with realistic noise of 3, 5 and 10 % three repeats get an answer in 93, 89 and 83 %, of
which 98 % and more are right within one step. One repeat, held to more certainty (SURE_OF_FEW), gets one in 86
and 77 % at 3 and 10 %, of which 99.5 and 96.8 % are right; but it sees a knee in 4 to 10 % of curves without one, and
it cannot tell one bad run. A curve that gains 6 to 10 % a doubling for ever is none of the library's: it gets a knee.
So what fewer than three repeats say is said in words, and drawn nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from benchlab.analysis.curves import ENOUGH_REPEATS
from benchlab.analysis.shape_library import NONE, library, posterior

__all__ = ["NONE", "Knee", "chances_of", "knee", "usable"]

# With fewer depths a corner cannot be distinguished from a bend.
ENOUGH_DEPTHS = 4
# Probability of depths within a factor of two of the knee, or, for "flat", of the first depth; for "none" see
# PLAUSIBLE.
SURE = 0.90
# the same for fewer than three repeats
SURE_OF_FEW = 0.95
# Least probability of the range "between a and b"; "none" is reported if no knee is that plausible.
PLAUSIBLE = 0.95


@dataclass(frozen=True, slots=True)
class Knee:
    """`at`: its depth, None when it is uncertain or there is none. `low` to `high`: where it is in 95 % of cases.

    `flat`: nothing is gained from the first depth on, which is no corner, so `at` is None. `beyond`: it may lie deeper
    than anything that was measured; with no `low` it does. `repeats`: the fewest of a depth.
    """

    at: int | None
    low: int | None
    high: int | None
    flat: bool = False
    beyond: bool = False
    repeats: int = ENOUGH_REPEATS

    @property
    def drawn(self) -> bool:
        """True if it rests on enough data to be drawn; otherwise it is only described in words."""
        return self.repeats >= ENOUGH_REPEATS

    @property
    def uncertain(self) -> bool:
        """True if only the range `low` to `high` is known."""
        return self.at is None and not self.flat and self.low is not None


def usable(cells: Mapping[int, Sequence[float]]) -> bool:
    """True when {outstanding I/Os: IOPS of each repeat} can be judged at all."""
    return len(cells) >= ENOUGH_DEPTHS and all(cell and min(cell) > 0 for cell in cells.values())


def knee(cells: Mapping[int, Sequence[float]]) -> Knee | None:
    """Find the knee in {outstanding I/Os: IOPS of each repeat}; None below 4 depths, or if one did nothing."""
    if not usable(cells):
        return None
    depths = tuple(sorted(cells))
    return _knee(depths, tuple(tuple(cells[depth]) for depth in depths))


# It takes some ms, and a page asks several times.
@lru_cache(maxsize=512)
def _knee(depths: tuple[int, ...], cells: tuple[tuple[float, ...], ...]) -> Knee:
    repeats = min(map(len, cells))
    sure = SURE if repeats >= ENOUGH_REPEATS else SURE_OF_FEW
    knee = replace(_answer(depths, chances_of(depths, cells), sure), repeats=repeats)
    if knee.at is None:
        return knee
    # Repeats at the knee as low as those at the first depth hide the rise up to it.
    lost = min(cells[depths.index(knee.at)]) <= max(cells[0])
    return replace(knee, at=None) if lost else knee


def chances_of(depths: tuple[int, ...], cells: Sequence[Sequence[float]]) -> dict[int, float]:
    """{index of the knee's depth, or NONE: its probability}, for any number of repeats; depths rise."""
    labels, chances = library(depths).labels, posterior(depths, cells)
    return {int(label): float(chances[labels == label].sum()) for label in np.unique(labels)}


def _answer(depths: Sequence[int], chances: Mapping[int, float], sure: float) -> Knee:
    plausible: list[int] = []
    for label in sorted(chances, key=lambda label: -chances[label]):
        if sum(chances[label] for label in plausible) < PLAUSIBLE:
            plausible.append(label)
    labels = sorted(label for label in plausible if label != NONE)
    low, high = (depths[labels[0]], depths[labels[-1]]) if labels else (None, None)
    best = max((label for label in chances if label != NONE), key=lambda label: chances[label])
    at = depths[best]
    window = sum(p for n, p in chances.items() if n != NONE and at / 2 <= depths[n] <= at * 2)
    decided = window >= sure
    return Knee(
        at if decided and best else None,
        low,
        high,
        flat=decided and not best,
        beyond=NONE in plausible,
    )
