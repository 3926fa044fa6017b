# SPDX-License-Identifier: Apache-2.0
"""Several set-ups in order, and how sure that order is (docs/analysis.md, section 1).

All pairs of set-ups of all answers of a page are one family: Benjamini and Hochberg's rule over all of them keeps the
share of false "faster" and "slower" at 5 %, however many there are. The place of a set-up is 1 + the number of set-ups
that are better beyond doubt, so the set-ups in place 1 are those that cannot be told from the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, product
from math import exp, log
from statistics import mean

import numpy as np

from benchlab.analysis.designs import Design
from benchlab.analysis.differences import FALSE_DISCOVERIES
from benchlab.analysis.verdicts import (
    Comparison,
    Conclusion,
    Frozen,
    Sweep,
    common_depths,
    compare_sweeps,
    decide_pairs,
    freeze_sweep,
    visit_numbers,
)

BY_CHANCE = "among so many comparisons one like this is to be expected by chance"
DECIDED = (Conclusion.FASTER, Conclusion.SLOWER)
# With more set-ups each is compared with the baseline only. 200 have 19,900 pairs, which take 1.5 s and 100 MB.
MOST_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """`sign`: 1 if the second set-up is faster, -1 if slower, else 0; `p`: two-sided."""

    sign: int
    p: float


# (first, second), first < second: indexes of set-ups
Decisions = Mapping[tuple[int, int], Decision]


@dataclass(frozen=True, slots=True)
class Ranked:
    """`place` to `worst_place`: where it may stand, from 1. `against`: compared with the baseline, None for itself."""

    name: int
    place: int
    worst_place: int
    against: Comparison | None


def compared_pairs(number: int, baseline: int) -> list[tuple[int, int]]:
    """Pairs of so many set-ups that are compared: all, or of more than MOST_COMPARED those with the baseline."""
    if number > MOST_COMPARED:
        return [
            (min(baseline, other), max(baseline, other))
            for other in range(number)
            if other != baseline
        ]
    return list(combinations(range(number), 2))


def decide_all(
    sweeps: Sequence[Sweep],
    baseline: int,
    designs: Mapping[tuple[int, int], Design],
    *,
    lower_is_better: bool = False,
) -> Decisions:
    """Decide each of the `compared_pairs` that share a depth; `designs` by (smaller, larger) index."""
    frozen = tuple(freeze_sweep(sweep) for sweep in sweeps)
    pairs = compared_pairs(len(sweeps), baseline)
    return _decide_frozen(frozen, tuple((pair, designs[pair]) for pair in pairs), lower_is_better)


# A page asks for the same ones whenever it is looked at.
@lru_cache(maxsize=256)
def _decide_frozen(
    frozen: tuple[Frozen, ...],
    designs: tuple[tuple[tuple[int, int], Design], ...],
    lower_is_better: bool,
) -> Decisions:
    sweeps = [{depth: dict(cell) for depth, cell in sweep} for sweep in frozen]
    alike: dict[_Shape, list[tuple[int, int]]] = {}
    for pair, design in designs:
        first, second = (sweeps[index] for index in pair)
        if depths := common_depths(first, second):
            blocks = {block for sweep in (first, second) for d in depths for block in sweep[d]}
            shape = (design, tuple(depths), tuple(sorted(blocks)))
            alike.setdefault(shape, []).append(pair)
    found: dict[tuple[int, int], Decision] = {}
    for shape, pairs in alike.items():
        found |= zip(pairs, _decide_alike(sweeps, shape, pairs, lower_is_better), strict=True)
    return found


# design, depths and blocks of pairs that can be fitted together
_Shape = tuple[Design, tuple[int, ...], tuple[int, ...]]


def _decide_alike(
    sweeps: Sequence[Sweep],
    shape: _Shape,
    pairs: Sequence[tuple[int, int]],
    lower_is_better: bool,
) -> Iterator[Decision]:
    design, depths, blocks = shape
    of_each = {
        index: np.log(
            [[sweeps[index][depth].get(block, np.nan) for block in blocks] for depth in depths]
        )
        for index in {index for pair in pairs for index in pair}
    }
    logs = np.array([[of_each[first], of_each[second]] for first, second in pairs])
    visits = visit_numbers(design, blocks)
    signs, ps = decide_pairs(logs, design, visits, lower_is_better=lower_is_better)
    return (Decision(int(sign), float(p)) for sign, p in zip(signs, ps, strict=True))


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


def largest_p(families: Iterable[Decisions]) -> float:
    """The largest p that Benjamini and Hochberg's rule lets decide, over all pairs of these; 0 if it lets none."""
    every = np.sort([one.p if one.sign else 1.0 for some in families for one in some.values()])
    passed = every <= FALSE_DISCOVERIES * np.arange(1, len(every) + 1) / max(len(every), 1)
    return float(every[np.flatnonzero(passed)[-1]]) if passed.any() else 0.0


def rank_set_ups(
    decisions: Decisions,
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
    against = {
        name: found if _is_decided(decisions, (baseline, name), most_p) else _undecide(found)
        for name, found in against_baseline.items()
    }
    with_curve = {name: comparison for name, comparison in against.items() if comparison.curve}
    order, partly = _order_by_ratio(with_curve, baseline, -1 if lower_is_better else 1)
    # how many are better, and worse, than each
    better, worse = Counter[int](), Counter[int]()
    for winner, loser in _wins(decisions, set(order), baseline, most_p):
        better[loser] += 1
        worse[winner] += 1
    # Over unlike depths each may be worse than another: then the first place is of those to whom the fewest are better.
    fewest = min(better[name] for name in order)
    return [
        Ranked(name, 1 + better[name] - fewest, len(order) - worse[name], against.get(name))
        for name in sorted(order, key=lambda name: (name in partly, better[name]))
    ]


def _wins(
    decisions: Decisions, ranked: set[int], baseline: int, most_p: float
) -> set[tuple[int, int]]:
    """(winner, loser) of each pair that is decided.

    Set-ups that were not compared with each other are decided where the baseline stands between them.
    """
    wins = {
        (second, first) if decision.sign > 0 else (first, second)
        for (first, second), decision in decisions.items()
        if decision.sign and decision.p <= most_p and {first, second} <= ranked
    }
    if len(ranked) <= MOST_COMPARED:
        return wins
    above = [winner for winner, loser in wins if loser == baseline]
    below = [loser for winner, loser in wins if winner == baseline]
    return wins | set(product(above, below))


def _is_decided(decisions: Decisions, pair: tuple[int, int], most_p: float) -> bool:
    """True if places count this pair as decided: its verdict must not depend on how its p was rounded."""
    decision = decisions.get((min(pair), max(pair)))
    return decision is not None and decision.sign != 0 and decision.p <= most_p


def _undecide(comparison: Comparison) -> Comparison:
    """The comparison without the conclusion over its curve, if that is "faster" or "slower"."""
    curve = comparison.curve
    if curve is None or curve.conclusion not in DECIDED:
        return comparison
    conclusion, reason = Conclusion.UNKNOWN, BY_CHANCE
    if curve.within is not None:
        conclusion = Conclusion.SMALL
        order = comparison.design.order_text
        reason = f"{order}, at most {curve.within} apart (95 %); {BY_CHANCE}"
    undecided = replace(curve, conclusion=conclusion, reason=reason)
    single = len(comparison.points) == 1
    points = dict.fromkeys(comparison.points, undecided) if single else comparison.points
    return replace(comparison, points=points, curve=undecided)


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
