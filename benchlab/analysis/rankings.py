# SPDX-License-Identifier: Apache-2.0
"""Several set-ups in order, and how sure that order is (docs/analysis.md, section 1).

All pairs of set-ups of all answers of a page are one family: Benjamini and Hochberg's rule over all of them keeps the
share of false "faster" and "slower" at 5 %, however many there are. The place of a set-up is 1 + the number of set-ups
that are better beyond doubt, so the set-ups in place 1 are those that cannot be told from the best.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, log
from statistics import mean

import numpy as np

from benchlab.analysis.designs import Design
from benchlab.analysis.differences import FALSE_DISCOVERIES
from benchlab.analysis.verdicts import Comparison, Conclusion, Sweep, compare_sweeps

DECIDED = (Conclusion.FASTER, Conclusion.SLOWER)
# (first, second), first < second: indexes of set-ups
Pairs = Mapping[tuple[int, int], Comparison]


@dataclass(frozen=True, slots=True)
class Ranked:
    """`place` to `worst_place`: where it may stand, from 1. `against`: compared with the baseline, None for itself."""

    name: int
    place: int
    worst_place: int
    against: Comparison | None


def compare_all(
    sweeps: Sequence[Sweep],
    designs: Mapping[tuple[int, int], Design],
    *,
    lower_is_better: bool = False,
) -> dict[tuple[int, int], Comparison]:
    """Compare each set-up with each later one; `designs` by (smaller, larger) index."""
    return {
        (a, b): compare_sweeps(sweeps[a], sweeps[b], designs[a, b], lower_is_better=lower_is_better)
        for a, b in combinations(range(len(sweeps)), 2)
    }


def compare_with(
    baseline: int,
    sweeps: Sequence[Sweep],
    designs: Mapping[tuple[int, int], Design],
    *,
    lower_is_better: bool = False,
) -> dict[int, Comparison]:
    """Compare the baseline with each other set-up."""
    found = {}
    for name in range(len(sweeps)):
        if name != baseline:
            design = designs[min(baseline, name), max(baseline, name)]
            found[name] = compare_sweeps(
                sweeps[baseline],
                sweeps[name],
                design if baseline < name else design.reversed(),
                lower_is_better=lower_is_better,
            )
    return found


def largest_p(families: Iterable[Pairs]) -> float:
    """The largest p that Benjamini and Hochberg's rule lets decide, over all pairs of these; 0 if it lets none."""
    every = sorted(
        comparison.curve.p if comparison.curve.conclusion in DECIDED else 1.0
        for pairs in families
        for comparison in pairs.values()
        if comparison.curve is not None
    )
    ranks = np.arange(1, len(every) + 1)
    passed = np.array(every) <= FALSE_DISCOVERIES * ranks / max(len(every), 1)
    return every[int(np.flatnonzero(passed)[-1])] if passed.any() else 0.0


def rank_set_ups(
    pairs: Pairs,
    against_baseline: Mapping[int, Comparison],
    baseline: int,
    most_p: float,
    *,
    lower_is_better: bool = False,
) -> list[Ranked]:
    """Rank set-ups, best first: by place, then by the ratio to the baseline over the curve.

    Indexes are the names. `most_p`: of `largest_p`; what is less certain is undecided. If set-ups were measured at
    different depths, the ratio is over the depths that all have; without any, set-ups that share fewer depths with the
    baseline come last. A set-up that shares none with it is left out.
    """
    kept = {key: _undecide(comparison, most_p) for key, comparison in pairs.items()}
    against = {name: _undecide(found, most_p) for name, found in against_baseline.items()}
    with_curve = {name: comparison for name, comparison in against.items() if comparison.curve}
    order, partly = _order_by_ratio(with_curve, baseline, -1 if lower_is_better else 1)
    better = {name: _count(kept, name, order, Conclusion.FASTER) for name in order}
    worse = {name: _count(kept, name, order, Conclusion.SLOWER) for name in order}
    return [
        Ranked(name, 1 + better[name], len(order) - worse[name], against.get(name))
        for name in sorted(order, key=lambda name: (name in partly, better[name]))
    ]


def _count(pairs: Pairs, name: int, among: Collection[int], what: Conclusion) -> int:
    """Number of set-ups that are `what` against this one."""
    opposite = {Conclusion.FASTER: Conclusion.SLOWER, Conclusion.SLOWER: Conclusion.FASTER}[what]
    number = 0
    for (first, second), comparison in pairs.items():
        if comparison.curve is None or not {first, second} <= set(among):
            continue
        said = comparison.curve.conclusion
        number += said == (what if first == name else opposite) and name in (first, second)
    return number


def _undecide(comparison: Comparison, most_p: float) -> Comparison:
    curve = comparison.curve
    if curve is None or curve.conclusion not in DECIDED or curve.p <= most_p:
        return comparison
    small = curve.within is not None
    return replace(
        comparison,
        curve=replace(
            curve,
            conclusion=Conclusion.SMALL if small else Conclusion.UNKNOWN,
            reason="among so many comparisons one like this is to be expected by chance",
        ),
    )


def _order_by_ratio(
    against: Mapping[int, Comparison], baseline: int, sign: int
) -> tuple[list[int], set[int]]:
    """(names, best first; those that share fewer depths with the baseline, if there is no depth that all have).

    Ratios over different depths cannot be compared.
    """
    shared = {name: frozenset(comparison.points) for name, comparison in against.items()}
    every = frozenset.intersection(*shared.values()) if shared else frozenset()
    most = max(map(len, shared.values()), default=0)
    partly = {name for name, depths in shared.items() if not every and len(depths) < most}

    def sort_key(name: int) -> float:
        if name == baseline:
            return 0.0
        return -sign * log(_ratio_over(against[name], every or shared[name]))

    return sorted([baseline, *against], key=sort_key), partly


def _ratio_over(comparison: Comparison, depths: Collection[int]) -> float:
    """Ratio over these depths: that of the curve if it covers exactly these, else the points' geometric mean."""
    if comparison.curve is not None and len(depths) == len(comparison.points):
        return comparison.curve.ratio
    return exp(mean(log(comparison.points[depth].ratio) for depth in depths))
