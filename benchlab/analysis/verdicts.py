# SPDX-License-Identifier: Apache-2.0
"""Faster, slower, no difference worth naming, or not enough data: of two set-ups, at each depth and over the curve.

Each with its ratio, a 95 % interval, the repeats and the reason in words. How it is decided, and how often that errs:
benchlab.analysis.differences, docs/analysis.md section 1. Set-ups are also put in order, best first; those that cannot
be distinguished from the best of their place share it. Values are rates or latencies in base units, above 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import exp, inf, log
from statistics import mean

import numpy as np

from benchlab.analysis.designs import NOT_DECIDABLE, Design
from benchlab.analysis.differences import Array, Estimates, Fit, compare_pairs
from benchlab.analysis.repeats import repeats_to_decide

# An interval beyond this is useless.
WIDEST = log(1000)
# outstanding I/Os -> block -> value
Sweep = Mapping[int, Mapping[int, float]]


class Conclusion(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    NONE = "no difference worth naming"
    UNKNOWN = "not enough data"
    # verdict on a curve: ahead at some depths, behind at others
    OVERTAKES = "overtakes"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the second set-up against the first. `ratio`: second / first, of robust means over the repeats.

    `low` to `high`: 95 %, None if the error is unknown. `repeats`: fewest and most of a point's. `values`: both means,
    whose ratio this is; None over a curve. `more_repeats`: repeats of each, in all, that would decide; None if it is
    decided, or if no reasonable number does.
    """

    conclusion: Conclusion
    ratio: float
    low: float | None
    high: float | None
    repeats: tuple[int, int]
    reason: str
    values: tuple[float, float] | None = None
    more_repeats: int | None = None

    @property
    def decided(self) -> bool:
        return self.conclusion != Conclusion.UNKNOWN


@dataclass(frozen=True, slots=True)
class Comparison:
    """Verdicts on one set-up against another.

    `points`: by depth, where both have values above 0. `curve`: over all points, None without any; a single point is
    the curve. `crossings`: depths from which the lead has changed. `left_out`: all other depths.
    """

    points: Mapping[int, Verdict]
    curve: Verdict | None
    design: Design
    crossings: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()

    @property
    def unlike(self) -> dict[int, Verdict]:
        """Points that are decided otherwise than the curve.

        Empty if the curve itself says that it depends on the depth.
        """
        curve = self.curve
        if curve is None or curve.conclusion == Conclusion.OVERTAKES or len(self.points) == 1:
            return {}
        decided = (Conclusion.FASTER, Conclusion.SLOWER)
        return {
            depth: point
            for depth, point in self.points.items()
            if depth and point.conclusion in decided and point.conclusion != curve.conclusion
        }


def compare_sweeps(
    first: Sweep, second: Sweep, design: Design, *, lower_is_better: bool = False
) -> Comparison:
    """Compare two sweeps at the depths that both have.

    A depth without a value above 0 in each run cannot be compared as a ratio.
    """
    return _compare_frozen(_freeze_sorted(first), _freeze_sorted(second), design, lower_is_better)


Frozen = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]


def _freeze_sorted(sweep: Sweep) -> Frozen:
    return tuple((depth, tuple(sorted(cell.items()))) for depth, cell in sorted(sweep.items()))


# It takes a few ms, and pages ask for the same comparisons again and again.
@lru_cache(maxsize=4096)
def _compare_frozen(
    first_cells: Frozen, second_cells: Frozen, design: Design, lower_is_better: bool
) -> Comparison:
    first, second = (
        {depth: dict(cell) for depth, cell in cells} for cells in (first_cells, second_cells)
    )
    both = sorted(first.keys() & second.keys())
    depths = [d for d in both if all(_above_zero(sweep[d]) for sweep in (first, second))]
    left_out = tuple(sorted((first.keys() | second.keys()) - set(depths)))
    if not depths:
        return Comparison({}, None, design, left_out=left_out)
    estimates, at, over = compare_pairs(_logs((first, second), depths), design)
    sign = -1 if lower_is_better else 1
    points = {
        depth: _point_verdict(estimates, at, index, design, sign)
        for index, depth in enumerate(depths)
    }
    crossings = _crossings({d: int(at.sign[0, i]) for i, d in enumerate(depths)})
    if len(depths) == 1:
        return Comparison(points, points[depths[0]], design, (), left_out)
    curve = _curve_verdict(estimates, over, design, sign, _lead(points, crossings))
    return Comparison(points, curve, design, crossings, left_out)


def _above_zero(cell: Mapping[int, float]) -> bool:
    return bool(cell) and all(0 < value < inf for value in cell.values())


def _logs(sweeps: tuple[Sweep, Sweep], depths: Sequence[int]) -> Array:
    blocks = sorted({block for sweep in sweeps for depth in depths for block in sweep[depth]})
    logs = np.full((1, 2, len(depths), len(blocks)), np.nan)
    for which, sweep in enumerate(sweeps):
        for row, depth in enumerate(depths):
            for block, value in sweep[depth].items():
                logs[0, which, row, blocks.index(block)] = log(value)
    return logs


def _point_verdict(
    fit: Fit,
    estimates: Estimates,
    index: int,
    design: Design,
    sign: int,
) -> Verdict:
    counts = fit.counts[0, :, index]
    repeats = int(counts.min()), int(counts.max())
    est, half = float(estimates.est[0, index]), float(estimates.half()[0, index])
    if repeats[0] < 2:
        half = inf
    conclusion = _conclude(int(estimates.sign[0, index]), bool(estimates.equal[0, index]), sign)
    apart = bool((fit.clipped[0, :, index] * 2 >= counts).any()) and repeats[0] > 1
    se, df = float(estimates.se[0, index]), float(estimates.df[0, index])
    more = (
        None
        if conclusion != Conclusion.UNKNOWN
        else repeats_to_decide(est, se, df, repeats[0], design.tau)
    )
    return Verdict(
        conclusion,
        exp(est),
        *_interval(est, half),
        repeats,
        _reason(conclusion, est, half, repeats[0], design, more, disagree=apart),
        (exp(float(fit.means[0, 0, index])), exp(float(fit.means[0, 1, index]))),
        more,
    )


def _curve_verdict(fit: Fit, estimates: Estimates, design: Design, sign: int, lead: str) -> Verdict:
    counts = fit.counts[0]
    repeats = int(counts.min()), int(counts.max())
    est, half = float(estimates.est[0]), float(estimates.half()[0])
    conclusion = _conclude(int(estimates.sign[0]), bool(estimates.equal[0]), sign)
    if lead:
        return Verdict(Conclusion.OVERTAKES, exp(est), *_interval(est, half), repeats, lead)
    se, df = float(estimates.se[0]), float(estimates.df[0])
    more = (
        None
        if conclusion != Conclusion.UNKNOWN
        else repeats_to_decide(est, se, df, repeats[0], design.tau)
    )
    reason = _reason(conclusion, est, half, repeats[0], design, more)
    return Verdict(conclusion, exp(est), *_interval(est, half), repeats, reason, None, more)


def _conclude(more: int, none: bool, sign: int) -> Conclusion:
    if more:
        return Conclusion.FASTER if more * sign > 0 else Conclusion.SLOWER
    return Conclusion.NONE if none else Conclusion.UNKNOWN


def _interval(est: float, half: float) -> tuple[float | None, float | None]:
    return (exp(est - half), exp(est + half)) if half < WIDEST else (None, None)


def _reason(
    conclusion: Conclusion,
    est: float,
    half: float,
    repeats: int,
    design: Design,
    more: int | None,
    *,
    disagree: bool = False,
) -> str:
    if conclusion in (Conclusion.FASTER, Conclusion.SLOWER):
        return "the 95 % interval is on one side of 1, and the difference is 5 % or more"
    if conclusion == Conclusion.NONE:
        return "the 90 % interval lies within 5 %"
    after = _what_would(more, design)
    if half == inf:
        many = "one repeat" if repeats == 1 else f"{repeats} repeats"
        return f"{many}, {design.order_text}, so nothing tells the noise; at least {more} of each are needed"
    if disagree:
        return f"repeats disagree{after}"
    if not design.may_say_none and abs(est) <= half:
        return f"{design.order_text}, and so small a difference may be the builds'{after}"
    if abs(est) > half:
        return f"the interval does not tell it from a difference below 5 %{after}"
    return f"the 95 % interval holds 1 and reaches beyond 5 %{after}"


def _what_would(more: int | None, design: Design) -> str:
    if more:
        return f"; {more} repeats of each would probably decide"
    if not design.may_say_none:
        return "; more repeats cannot tell, builds that take turns (ABBA) can"
    return f"; {NOT_DECIDABLE}{', or build in more visits' if design.tau else ''}"


def _crossings(signs: Mapping[int, int]) -> tuple[int, ...]:
    signed = [(depth, sign) for depth, sign in signs.items() if sign]
    return tuple(depth for (_, a), (depth, b) in pairwise(signed) if a != b)


def _lead(points: Mapping[int, Verdict], crossings: Sequence[int]) -> str:
    """Describe who is ahead at which depths, if it is not the same one everywhere."""
    if not crossings:
        return ""
    ahead = points[crossings[0]].conclusion == Conclusion.FASTER
    if len(crossings) == 1:
        return f"{'overtakes' if ahead else 'is overtaken'} at depth {crossings[0]}"
    by = {
        conclusion: ", ".join(
            str(d) for d, point in points.items() if point.conclusion == conclusion
        )
        for conclusion in (Conclusion.FASTER, Conclusion.SLOWER)
    }
    return f"faster at {by[Conclusion.FASTER]}, slower at {by[Conclusion.SLOWER]}"


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
