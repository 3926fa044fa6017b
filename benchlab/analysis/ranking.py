# SPDX-License-Identifier: Apache-2.0
"""Set-ups in order, best first. Set-ups that cannot be distinguished from the best of their place share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import mean

from benchlab.analysis.designs import Design
from benchlab.analysis.verdicts import Comparison, Conclusion, Sweep, compare_sweeps


@dataclass(frozen=True, slots=True)
class Ranked:
    """`place`: from 1. `against`: the comparison with the baseline, None for the baseline itself."""

    name: int
    place: int
    against: Comparison | None


def rank_set_ups(
    sweeps: Sequence[Sweep],
    baseline: int,
    designs: Mapping[tuple[int, int], Design],
    *,
    lower_is_better: bool = False,
) -> list[Ranked]:
    """Rank set-ups by the ratio to the baseline over the curve; `designs` by (smaller, larger) index.

    Indexes are the names. If set-ups were measured at different depths, the ratio is over the depths that all have;
    without any, set-ups that share fewer depths with the baseline come last. A set-up that shares none with it is left
    out.
    """

    def compared(first: int, second: int) -> Comparison:
        design = designs[min(first, second), max(first, second)]
        return compare_sweeps(
            sweeps[first], sweeps[second], design, lower_is_better=lower_is_better
        )

    against = {i: compared(baseline, i) for i in range(len(sweeps)) if i != baseline}
    with_curve = {i: comparison for i, comparison in against.items() if comparison.curve}
    order = _order_by_ratio(with_curve, baseline, -1 if lower_is_better else 1)
    ranking: list[Ranked] = []
    leader, place = order[0], 1
    for number, name in enumerate(order, 1):
        behind = compared(leader, name).curve if name != leader else None
        if behind is not None and behind.conclusion == Conclusion.SLOWER:
            leader, place = name, number
        ranking.append(Ranked(name, place, against.get(name)))
    return ranking


def _order_by_ratio(against: Mapping[int, Comparison], baseline: int, sign: int) -> list[int]:
    """Names, best first; ratios over different depths cannot be compared."""
    shared = {i: frozenset(comparison.points) for i, comparison in against.items()}
    every = frozenset.intersection(*shared.values()) if shared else frozenset()
    most = max(map(len, shared.values()), default=0)

    def sort_key(name: int) -> tuple[bool, float]:
        if name == baseline:
            return False, 0.0
        partly = not every and len(shared[name]) < most
        return partly, -sign * log(_ratio_over(against[name], every or shared[name]))

    return sorted([baseline, *against], key=sort_key)


def _ratio_over(comparison: Comparison, depths: Collection[int]) -> float:
    """Ratio over these depths: that of the curve if it covers exactly these, else the points' geometric mean."""
    if comparison.curve is not None and len(depths) == len(comparison.points):
        return comparison.curve.ratio
    return exp(mean(log(comparison.points[depth].ratio) for depth in depths))
