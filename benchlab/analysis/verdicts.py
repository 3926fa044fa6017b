# SPDX-License-Identifier: Apache-2.0
"""Faster, slower, no difference worth naming, or not enough data: of two set-ups, at each depth and over the curve.

Each with its ratio, a 95 % interval, the repeats and the reason in words. How it is decided, and how often that errs:
benchlab.analysis.differences and stalls, docs/analysis.md section 1. Values are rates or latencies in base units, above
0. benchlab.analysis.rankings puts several set-ups in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from benchlab.analysis.designs import NOT_DECIDABLE, Design
from benchlab.analysis.differences import (
    ENOUGH_DEPTHS,
    LEAST,
    ONE_SIDED,
    TWO_SIDED,
    Estimates,
    Luck,
    compare_pairs,
    half_width,
    luck_of_builds,
    sound_depths,
)
from benchlab.analysis.fits import Array, Fit
from benchlab.analysis.formats import join_names, ratio_range
from benchlab.analysis.repeats import WORST, repeats_to_decide, single_run_error
from benchlab.analysis.stalls import Means, counts_by_means, decide, plain_means

# An interval beyond this is useless.
WIDEST = log(1000)
# p below which a worst case of noise decides: it is a judgement, so it has to be more certain than a measured one.
CERTAIN = 0.01
# Repeats that show noise.
ENOUGH = 2
LONE_DEPTH = "a single depth makes the difference, so more repeats would not decide"
# outstanding I/Os -> block -> value
Sweep = Mapping[int, Mapping[int, float]]


class Conclusion(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    NONE = "no difference worth naming"
    # a difference of at most 10 or 20 %, whatever it is
    SMALL = "no large difference"
    UNKNOWN = "not enough data"
    # verdict on a curve: ahead at some depths, behind at others
    OVERTAKES = "overtakes"


# Ratios within which set-ups may be called alike, with the words for them.
WITHIN = {1.05: "5 %", 1.10: "10 %", 1.20: "20 %"}


@dataclass(frozen=True, slots=True)
class Stalled:
    """Runs of a set-up that stalled: `runs` of `all_runs`, at `level` times a typical run's value (None: no runs)."""

    runs: int
    all_runs: int
    level: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the second set-up against the first. `ratio`: second / first, of robust means over the repeats.

    `low` to `high`: 95 %, None if the error is unknown. `repeats`: fewest and most of a point's. `values`: both means,
    whose ratio this is; None over a curve. `more_repeats`: repeats of each, in all, that would decide; None if it is
    decided, or if no reasonable number does. `bound`: they differ by at most this ratio (95 %), None if unknown. `p`:
    two-sided, 1 where nothing can be said. `stalled`: of both, where one stalls more than the other. `typical`: the
    ratio of typical runs where `ratio` is that of the plain means for it, else None. `assumed`: the noise is not
    measured, but a worst case.
    """

    conclusion: Conclusion
    ratio: float
    low: float | None
    high: float | None
    repeats: tuple[int, int]
    reason: str
    values: tuple[float, float] | None = None
    more_repeats: int | None = None
    bound: float | None = None
    p: float = 1.0
    stalled: tuple[Stalled, Stalled] | None = None
    typical: float | None = None
    assumed: bool = False

    @property
    def decided(self) -> bool:
        return self.conclusion != Conclusion.UNKNOWN

    @property
    def within(self) -> str | None:
        """ "10 %": the smallest of the named bounds that holds; None if none does."""
        if self.bound is None:
            return None
        return next((words for most, words in WITHIN.items() if self.bound <= most), None)


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
    return _compare_frozen(freeze_sweep(first), freeze_sweep(second), design, lower_is_better)


Frozen = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]


def freeze_sweep(sweep: Sweep) -> Frozen:
    return tuple((depth, tuple(sorted(cell.items()))) for depth, cell in sorted(sweep.items()))


# It takes a few ms, and pages ask for the same comparisons again and again.
@lru_cache(maxsize=4096)
def _compare_frozen(
    first_cells: Frozen, second_cells: Frozen, design: Design, lower_is_better: bool
) -> Comparison:
    first, second = (
        {depth: dict(cell) for depth, cell in cells} for cells in (first_cells, second_cells)
    )
    depths = common_depths(first, second)
    left_out = tuple(sorted((first.keys() | second.keys()) - set(depths)))
    if not depths:
        return Comparison({}, None, design, left_out=left_out)
    logs, blocks = sweep_logs((first, second), depths)
    visits = visit_numbers(design, blocks)
    pair = _fit_pair(logs, design, visits, lower_is_better=lower_is_better)
    sign = -1 if lower_is_better else 1
    curve = pair.over_curve(sign)
    if len(depths) == 1:
        return Comparison({depths[0]: curve}, curve, design, (), left_out)
    points = {depth: pair.at_depth(index, sign) for index, depth in enumerate(depths)}
    crossings = _crossings({d: int(pair.points.sign[0, i]) for i, d in enumerate(depths)})
    if lead := _lead(points, crossings):
        curve = replace(curve, conclusion=Conclusion.OVERTAKES, reason=lead, more_repeats=None)
    return Comparison(points, curve, design, crossings, left_out)


def decide_pairs(
    logs: Array, design: Design, visits: NDArray[np.int64] | None, *, lower_is_better: bool = False
) -> tuple[Array, Array]:
    """(1 where the second set-up is faster, -1 where it is slower, else 0; p) of many pairs, as by `compare_sweeps`.

    `logs`: as benchlab.analysis.fits takes them.
    """
    pair = _fit_pair(logs, design, visits, lower_is_better=lower_is_better)
    sign, _ = decide(pair.curve, pair.means)
    p = np.where(counts_by_means(pair.curve, pair.means), pair.means.p, pair.curve.p)
    unknown = (pair.curve.df == 0) & (pair.fit.counts.min(axis=(1, 2)) < ENOUGH)
    for index in np.flatnonzero(unknown):
        estimate = _assume_noise(_at(pair.curve, (int(index),)), logs.shape[2], design)
        sign[index], p[index] = estimate.sign, estimate.p
    overtakes = (pair.points.sign > 0).any(axis=1) & (pair.points.sign < 0).any(axis=1)
    undecided = overtakes & (logs.shape[2] > 1)
    return np.where(undecided, 0, -sign if lower_is_better else sign), p


def common_depths(first: Sweep, second: Sweep) -> list[int]:
    """Depths at which both have values, all of them above 0."""
    both = sorted(first.keys() & second.keys())
    return [d for d in both if is_above_zero(first[d]) and is_above_zero(second[d])]


def is_above_zero(cell: Mapping[int, float]) -> bool:
    return bool(cell) and all(0 < value < inf for value in cell.values())


def sweep_logs(sweeps: Sequence[Sweep], depths: Sequence[int]) -> tuple[Array, list[int]]:
    """(logarithms as benchlab.analysis.fits takes them, blocks)."""
    blocks = sorted({block for sweep in sweeps for depth in depths for block in sweep[depth]})
    logs = np.full((1, len(sweeps), len(depths), len(blocks)), np.nan)
    for which, sweep in enumerate(sweeps):
        for row, depth in enumerate(depths):
            for block, value in sweep[depth].items():
                logs[0, which, row, blocks.index(block)] = log(value)
    return logs, blocks


def visit_numbers(design: Design, blocks: Sequence[int]) -> NDArray[np.int64] | None:
    """(2, blocks); a block of which it is not known has a visit of its own."""
    if design.visits is None:
        return None
    return np.array(
        [[dict(visits).get(block, -1 - block) for block in blocks] for visits in design.visits]
    )


@dataclass(frozen=True, slots=True)
class _Estimate:
    """One estimate of a pair, ln(second / first). `bound`: its largest size (95 %), infinite if unknown."""

    est: float
    se: float
    df: float
    sign: int
    equal: bool
    p: float
    bound: float


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is estimated of one pair, and its verdicts. `sign` of the methods: -1 if lower is better.

    `luck`: of builds, as far as this pair's own visits show it, and at least that of the design.
    """

    fit: Fit
    points: Estimates
    curve: Estimates
    means: Means
    design: Design
    luck: Luck

    def at_depth(self, index: int, sign: int) -> Verdict:
        """Verdict on the typical runs of one depth."""
        estimate = _at(self.points, (0, index))
        found = self._verdict(
            estimate,
            self.fit.counts[0, :, index],
            1,
            sign,
            disagree=self._disagree(index),
            depth=index,
        )
        return replace(found, values=_values(self.fit.means[0, :, index]))

    def over_curve(self, sign: int) -> Verdict:
        """Verdict over all depths, on typical runs and plain means; it has the ratio of the one that decides."""
        signs, equal = decide(self.curve, self.means)
        typical, mean = (_at(part, (0,)) for part in (self.curve, self.means))
        by_means = bool(counts_by_means(self.curve, self.means)[0])
        estimate = replace(
            mean if by_means else typical,
            sign=int(signs[0]),
            equal=bool(equal[0]),
            bound=max(typical.bound, mean.bound),
        )
        depths = self.fit.est.shape[1]
        single = depths == 1
        disagree = single and self._disagree(0)
        by_spread = (
            not by_means
            and mean.df > 0
            and _smallest_within(mean.bound) > _smallest_within(typical.bound)
        )
        found = self._verdict(
            estimate,
            self.fit.counts[0],
            depths,
            sign,
            disagree=disagree,
            limit=mean if by_spread else estimate,
            lone_depth=not by_means and _is_lone(typical, depths),
        )
        if single:
            found = replace(
                found, values=_values((self.means.logs if by_means else self.fit.means)[0, :, 0])
            )
        if not self.means.proven[0]:
            return found
        return replace(
            found, stalled=self._stalled(), typical=exp(typical.est) if by_means else None
        )

    def _disagree(self, index: int) -> bool:
        """Whether half of a cell's runs are far off, or so few runs hold one that is very far off."""
        counts = self.fit.counts[0, :, index]
        apart = (self.fit.clipped[0, :, index] * 2 >= counts).any() and counts.min() > 1
        return bool(apart or not sound_depths(self.fit)[0, index])

    def _span(self, index: int, est: float, half: float) -> tuple[float | None, float | None]:
        """The interval of a point with a run that is very far off: never narrower than the ratios of its runs."""
        low, high = self.fit.lowest[0, :, index], self.fit.highest[0, :, index]
        least, most = float(low[1] - high[0]), float(high[1] - low[0])
        if max(half, most - est, est - least) >= WIDEST:
            return None, None
        return exp(min(est - half, least)), exp(max(est + half, most))

    def _stalled(self) -> tuple[Stalled, Stalled]:
        means = self.means
        first, second = (
            Stalled(int(runs), int(of), None if np.isnan(level) else float(level))
            for runs, of, level in zip(means.stalled[0], means.runs[0], means.level[0], strict=True)
        )
        return first, second

    def _verdict(
        self,
        estimate: _Estimate,
        counts: Array,
        depths: int,
        sign: int,
        *,
        disagree: bool,
        depth: int = 0,
        limit: _Estimate | None = None,
        lone_depth: bool = False,
    ) -> Verdict:
        """`limit`: the estimate that leaves most open; `lone_depth`: a single depth bears the whole difference.

        `depth`: index of the point whose repeats `disagree`.
        """
        repeats = int(counts.min()), int(counts.max())
        assumed = estimate.df == 0 and repeats[0] < ENOUGH
        if assumed:
            estimate = _assume_noise(estimate, depths, self.design)
        half = _half(estimate)
        bound = None if assumed or disagree or estimate.bound >= WIDEST else exp(estimate.bound)
        conclusion = _conclude(estimate, bound, sign)
        undecided, more = conclusion in (Conclusion.UNKNOWN, Conclusion.SMALL), None
        if undecided and assumed:
            estimate, half = replace(estimate, df=0.0), inf
        limit = estimate if assumed or limit is None else limit
        luck = float(self.luck.variance[0])
        if undecided and not lone_depth:
            more = repeats_to_decide(limit.est, limit.se, limit.df, repeats[0], sqrt(luck))
        return Verdict(
            conclusion,
            exp(estimate.est),
            *(self._span(depth, estimate.est, half) if disagree else _interval(estimate.est, half)),
            repeats,
            _reason(
                conclusion,
                estimate,
                limit,
                half,
                repeats,
                self.design,
                more,
                luck,
                disagree=disagree,
                assumed=assumed,
                lone_depth=lone_depth,
            ),
            None,
            more,
            bound,
            estimate.p,
            assumed=assumed and not undecided,
        )


def _values(logs: Array) -> tuple[float, float]:
    first, second = (exp(float(log_value)) for log_value in logs)
    return first, second


def _fit_pair(
    logs: Array, design: Design, visits: NDArray[np.int64] | None, *, lower_is_better: bool
) -> _Pair:
    fit, points, curve = compare_pairs(logs, design, visits)
    luck = luck_of_builds(fit, design, visits)
    means = plain_means(fit, luck, lower_is_better=lower_is_better)
    return _Pair(fit, points, curve, means, design, luck)


def _at(part: Estimates | Means, index: tuple[int, ...]) -> _Estimate:
    est, se, df, p = (float(values[index]) for values in (part.est, part.se, part.df, part.p))
    bound = abs(est) + float(half_width(part.se, part.df, ONE_SIDED)[index])
    sign, equal = (
        (int(part.sign[index]), bool(part.equal[index]))
        if isinstance(part, Estimates)
        else (0, False)
    )
    return _Estimate(est, se, df, sign, equal, p, bound)


def _half(estimate: _Estimate) -> float:
    return float(half_width(np.array(estimate.se), np.array(estimate.df), TWO_SIDED))


def _assume_noise(estimate: _Estimate, depths: int, design: Design) -> _Estimate:
    """The same with this lab's noise, or the worst that is known, instead of one that nobody measured."""
    se, df = single_run_error(depths, design.noise or WORST, design.tau if design.noise else 0.0)
    p = float(2 * stdtr(df, -abs(estimate.est) / se))
    decides = p <= CERTAIN and abs(estimate.est) >= LEAST
    sign = (1 if estimate.est > 0 else -1) if decides else 0
    return replace(estimate, se=se, df=df, p=p, sign=sign)


def _conclude(estimate: _Estimate, bound: float | None, sign: int) -> Conclusion:
    if estimate.sign:
        return Conclusion.FASTER if estimate.sign * sign > 0 else Conclusion.SLOWER
    if estimate.equal:
        return Conclusion.NONE
    return Conclusion.SMALL if bound is not None and bound <= max(WITHIN) else Conclusion.UNKNOWN


def _interval(est: float, half: float) -> tuple[float | None, float | None]:
    return (exp(est - half), exp(est + half)) if half < WIDEST else (None, None)


def _reason(
    conclusion: Conclusion,
    estimate: _Estimate,
    limit: _Estimate,
    half: float,
    repeats: tuple[int, int],
    design: Design,
    more: int | None,
    luck: float,
    *,
    disagree: bool,
    assumed: bool,
    lone_depth: bool,
) -> str:
    """Reason in words. `limit`: as for `_verdict`. `luck`: variance of ln ratio by the luck of builds."""
    runs = "one run each" if repeats == (1, 1) else "a single run on one side"
    if conclusion in (Conclusion.FASTER, Conclusion.SLOWER):
        if assumed:
            noise = "this lab's other runs" if design.noise else "the worst public repeats"
            return f"{runs}: the direction is certain unless runs vary more than {noise}; the size is not"
        if disagree:
            return "every run of one is above every run of the other, but a run far off leaves the size open"
        return "the 95 % interval excludes 1, and the estimated difference is 5 % or more"
    if conclusion == Conclusion.NONE:
        return "the 90 % interval lies within 5 % of equal"
    by_luck = 2 * luck > limit.se**2
    after = f"; {LONE_DEPTH}" if lone_depth else _what_would(more, design, by_luck=by_luck)
    if half == inf:
        many = f"{repeats[0]} repeats do" if repeats[0] >= ENOUGH else f"{runs} does"
        return f"{many} not show how much runs vary ({design.order_text}); measure {more} of each"
    if conclusion == Conclusion.SMALL:
        return f"{design.order_text}: at most {_within(estimate.bound)} apart (95 %){after}"
    if disagree:
        return f"repeats disagree{after}"
    if lone_depth:
        return LONE_DEPTH
    if limit is not estimate:
        half = _half(limit)
        low, high = exp(limit.est - half), exp(limit.est + half)
        return f"plain means leave anything from {ratio_range(low, high)} times possible{after}"
    if abs(estimate.est) > half:
        if abs(estimate.est) < LEAST:
            return f"the 95 % interval excludes 1, but the estimated difference is below 5 %{after}"
        return f"the 95 % interval excludes 1, but not clearly enough to decide{after}"
    if not design.may_say_none and by_luck:
        return f"{design.order_text}: two builds of one layout may differ as much{after}"
    low, high = exp(estimate.est - half), exp(estimate.est + half)
    leave = "one repeat leaves" if repeats[0] == 1 else f"{repeats[0]} repeats leave"
    return f"{leave} anything from {ratio_range(low, high)} times possible{after}"


def _smallest_within(bound: float) -> float:
    """The smallest of the named ratios that the bound, of ln ratio, lies within; infinite if there is none."""
    return next((most for most in WITHIN if bound <= log(most)), inf)


def _is_lone(curve: _Estimate, depths: int) -> bool:
    """True if a curve of several depths is undecided only because a single one bears the difference."""
    several = depths >= ENOUGH_DEPTHS and curve.sign == 0
    return several and abs(curve.est) >= LEAST and abs(curve.est) > _half(curve)


def _within(bound: float) -> str:
    return next(words for most, words in WITHIN.items() if exp(bound) <= most)


def _what_would(more: int | None, design: Design, *, by_luck: bool) -> str:
    """`by_luck`: most of the error is the luck of builds, which repeats do not lower."""
    if more:
        return f"; {more} repeats of each would probably decide"
    if not design.may_say_none and by_luck:
        return "; more repeats would not decide: build in turns (ABBA), which can show differences of 5 % or more"
    return f"; {NOT_DECIDABLE}{', or build in more visits' if by_luck else ''}"


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
        conclusion: join_names(
            tuple(str(d) for d, point in points.items() if point.conclusion == conclusion)
        )
        for conclusion in (Conclusion.FASTER, Conclusion.SLOWER)
    }
    return f"faster at {by[Conclusion.FASTER]} outstanding, slower at {by[Conclusion.SLOWER]}"
