# SPDX-License-Identifier: Apache-2.0
"""Two set-ups over one sweep: differences at each depth and over the curve (docs/analysis.md, section 1).

Shapes are those of benchlab.analysis.fits. A difference counts from 5 % on (`LEAST`). Each set-up has a standard error
of its own; the degrees of freedom of the two together are Welch's and Satterthwaite's. What no number of repeats takes
away, the luck of a build, is a third part of every error (benchlab.analysis.designs). How often all this errs was
measured: docs/analysis.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, stdtr, stdtrit

from benchlab.analysis.designs import Design, Order
from benchlab.analysis.fits import FEWEST_BLOCKS, Array, Fit, Mask, fit

LEAST = float(np.log(1.05))
# Level of Benjamini and Hochberg's rule over many comparisons.
FALSE_DISCOVERIES = 0.05
# The same over the depths of a sweep, by the fewest repeats of a cell (tried with 1 to 12 depths and unlike noise).
LEVELS = ((2, 0.0375), (3, 0.03))
LEVEL = 0.045
# "No difference" is two one-sided tests of 5 % each. Alone they err in up to 12 % of sweeps of which 5 % is true.
NONE_DISCOVERIES = 0.15
ONE_SIDED, TWO_SIDED = 0.95, 0.975
# Among fewer repeats a run that is very far off cannot be outvoted, so its depth tells nothing.
OUTVOTES = 5
# The sign of a curve must show without the depth that bears most of it; with fewer depths there is no such test.
ENOUGH_DEPTHS, WITHOUT_ONE = 4, 0.90
# Degrees of freedom of the luck of a build where nothing was learned: a pair in turns has two visits to learn from.
TAU_DF, PRIOR_DF = 12.0, 2.0
# What a lab's other campaigns taught is worth at most so many: this one may drift more than they did.
MOST_PRIOR_DF = 6.0


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates for each pair (and depth): `est` = ln(second / first), its standard error and degrees of freedom.

    `df` is 0 where the error is unknown. `p`: two-sided; 1 where nothing may be said. `sign`: 1 if the second is
    larger, -1 if smaller, 0 if neither. `equal`: no difference worth naming.
    """

    est: Array
    se: Array
    df: Array
    p: Array
    sign: NDArray[np.int64]
    equal: Mask

    def half(self, share: float = TWO_SIDED) -> Array:
        """Half the width of an interval, by default of 95 %; infinite if the error is unknown."""
        return half_width(self.se, self.df, share)


@dataclass(frozen=True, slots=True)
class Luck:
    """Variance of ln(second / first) by the luck of builds, and its degrees of freedom, of each pair."""

    variance: Array
    df: Array


def half_width(se: Array, df: Array, share: float = TWO_SIDED) -> Array:
    """Half the width of an interval: of 95 % if `share` is 0.975; infinite where `df` is 0."""
    known = df > 0
    return np.where(known, stdtrit(np.where(known, np.maximum(df, 0.5), 1), share) * se, np.inf)


def welch(parts: tuple[Array, Array], df: tuple[Array, Array], luck: Luck) -> tuple[Array, Array]:
    """(standard error, degrees of freedom) of the sum of both set-ups' variances and the luck of builds.

    The degrees are 0 where those of a set-up are. Satterthwaite (1946).
    """
    variance = parts[0] + parts[1] + luck.variance
    squares = luck.variance**2 / luck.df
    for part, freedom in zip(parts, df, strict=True):
        squares = squares + part**2 / np.maximum(freedom, 1e-9)
    known = (df[0] > 0) & (df[1] > 0)
    return np.sqrt(variance), np.where(known, variance**2 / np.maximum(squares, 1e-300), 0.0)


def luck_of_builds(fit: Fit, design: Design, visits: NDArray[np.int64] | None) -> Luck:
    """The design's tau; in turns it grows where the set-ups' own visits differ by more than it and their runs explain.

    `visits`: (2, blocks), the number of the visit in which each set-up's block was measured.
    """
    pairs = len(fit.counts)
    if design.order == Order.INTERLEAVED:
        return Luck(np.zeros(pairs), np.full(pairs, np.inf))
    if design.order != Order.ABBA or visits is None:
        df = PRIOR_DF + design.learned if design.learned else TAU_DF
        return Luck(np.full(pairs, design.tau**2), np.full(pairs, df))
    prior = min(PRIOR_DF + design.learned, MOST_PRIOR_DF)
    squares: Array = np.full(pairs, prior * design.tau**2)
    degrees: Array = np.full(pairs, prior)
    means = _block_means(fit, np.ones(fit.est.shape, bool))[0]
    for which in (0, 1):
        more, known = _visit_variance(means[:, which], visits[which])
        squares, degrees = squares + known * np.maximum(more, 0), degrees + known
    return Luck(np.maximum(design.tau**2, squares / degrees), degrees)


def _visit_variance(means: Array, visits: NDArray[np.int64]) -> tuple[Array, Array]:
    """(variance of ln ratio by what a set-up's visits differ beyond what its blocks explain, degrees of freedom).

    `means`: (pairs, blocks), NaN where a block lacks. Both set-ups count as visited equally often.
    """
    known = ~np.isnan(means)
    member = (visits == np.unique(visits)[:, None]).T.astype(float)
    counts = known @ member
    there = np.maximum((counts > 0).sum(axis=1), 1)
    centres = np.where(known, means, 0) @ member / np.maximum(counts, 1)
    away = np.where(known, means - centres @ member.T, 0)
    within = (away**2).sum(axis=1) / np.maximum(counts.sum(axis=1) - there, 1)
    between, _ = _variance_and_count(np.where(counts > 0, centres, np.nan))
    share = np.where(counts > 0, 1 / np.maximum(counts, 1), 0).mean(axis=1) * counts.shape[1]
    own = between - within * share / there
    return own * 2 / np.maximum(there, 2), there - 1.0


def estimate_points(fit: Fit, design: Design, luck: Luck) -> Estimates:
    """Estimate the difference at each depth.

    A depth needs two repeats of each set-up, and in each cell less than half of the runs may be far off. Elsewhere the
    ranks of the runs decide alone: all of one are above all of the other, by more than `LEAST` and the luck of a build.
    """
    each = fit.noise / fit.counts
    one = Luck(luck.variance[:, None], luck.df[:, None])
    se, df = welch((each[:, 0], each[:, 1]), (fit.df[:, 0], fit.df[:, 1]), one)
    enough = (df > 0) & (fit.counts >= 2).all(axis=1) & sound_depths(fit)
    enough &= (fit.clipped * 2 < fit.counts).all(axis=1)
    size = np.abs(fit.est)
    degrees = np.maximum(df, 0.5)
    ranked = np.where(_gaps(fit) > LEAST + _luck_of_one(luck), _chance_of_gap(fit), np.nan)
    p = np.where(enough, 2 * stdtr(degrees, -size / se), ranked)
    differ = (discoveries(p) <= _false_discovery_level(fit)[:, None]) & (size >= LEAST)
    inside = np.where(enough, stdtr(degrees, (size - LEAST) / se), np.nan)
    alike = (inside <= 1 - ONE_SIDED) & (discoveries(inside) <= NONE_DISCOVERIES)
    more = np.where(differ, np.sign(fit.est), 0).astype(np.int64)
    equal = alike & (more == 0) & design.may_say_none
    return Estimates(fit.est, se, df, np.where(np.isnan(p), 1.0, p), more, equal)


def _gaps(fit: Fit) -> Array:
    """(pairs, depths): ln of the ratio between the closest runs of both set-ups; below 0 where they overlap."""
    low, high = fit.lowest, fit.highest
    return np.maximum(low[:, 1] - high[:, 0], low[:, 0] - high[:, 1])


def _luck_of_one(luck: Luck) -> Array:
    """(pairs, 1): what the luck of one build may make of equals, two-sided 95 %."""
    return half_width(np.sqrt(luck.variance), luck.df)[:, None]


def _chance_of_gap(fit: Fit) -> Array:
    """(pairs, depths): probability that all runs of one of two equals are above all runs of the other, by ranks alone.

    It needs no noise to be known, so it speaks where a run that is far off hides it (Wilcoxon 1945).
    """
    first, second = fit.counts[:, 0], fit.counts[:, 1]
    ways = gammaln(first + second + 1) - gammaln(first + 1) - gammaln(second + 1)
    return np.asarray(np.minimum(2 * np.exp(-ways), 1.0))


def sound_depths(fit: Fit) -> Mask:
    """(pairs, depths): whether no run is very far off, or there are enough repeats to outvote it."""
    return np.asarray(~((fit.counts < OUTVOTES) & (fit.wild > 0)).any(axis=1))


def _false_discovery_level(fit: Fit) -> Array:
    """Level of the false discovery rate for each pair."""
    fewest = fit.counts.min(axis=(1, 2))
    found = np.full(len(fewest), LEVEL)
    for most, level in reversed(LEVELS):
        found = np.where(fewest <= most, level, found)
    return found


def discoveries(p: Array) -> Array:
    """Benjamini and Hochberg's q along the last axis; NaN values do not count, and stay NaN."""
    # NaN sorts last.
    ranks = np.argsort(p, axis=-1)
    count = (~np.isnan(p)).sum(axis=-1, keepdims=True)
    rising = np.take_along_axis(p, ranks, axis=-1) * count / np.arange(1, p.shape[-1] + 1)
    rising = np.where(np.isnan(rising), np.inf, rising)
    least = np.minimum.accumulate(rising[..., ::-1], axis=-1)[..., ::-1]
    q = np.empty_like(p)
    np.put_along_axis(q, ranks, least, axis=-1)
    return np.where(np.isnan(p), np.nan, np.minimum(q, 1))


def estimate_curve(fit: Fit, design: Design, luck: Luck) -> Estimates:
    """Estimate the geometric mean of the ratios over the depths that are sound (`curve_depths`)."""
    used = curve_depths(fit)
    est, se, df = _over_depths(fit, used, design, luck)
    p = np.where(df > 0, 2 * stdtr(np.maximum(df, 0.5), -np.abs(est) / se), 1.0)
    if fit.est.shape[1] >= ENOUGH_DEPTHS:
        p = np.where(_holds_without_one(fit, used, est, design, luck), p, 1.0)
    size = np.abs(est)
    more = np.where((p < 2 * (1 - TWO_SIDED)) & (size >= LEAST), np.sign(est), 0).astype(np.int64)
    inside = size + half_width(se, df, ONE_SIDED) <= LEAST
    return Estimates(est, se, df, p, more, inside & (more == 0) & design.may_say_none)


def curve_depths(fit: Fit) -> Mask:
    """(pairs, depths) that a curve is made of.

    Those of two repeats and more where there are any; of these the sound ones, unless that leaves less than half.
    """
    often = np.all(fit.counts >= 2, axis=1)
    often = often | ~np.any(often, axis=1, keepdims=True)
    sound = sound_depths(fit) & often
    most = (2 * sound.sum(axis=1) > fit.est.shape[1])[:, None]
    return np.asarray(np.where(most, sound, often))


def _holds_without_one(fit: Fit, used: Mask, est: Array, design: Design, luck: Luck) -> Mask:
    """Whether the sign shows without the depth that bears most of it."""
    bears = np.where(used, fit.est * np.sign(est)[:, None], -np.inf)
    others = used.copy()
    others[np.arange(len(used)), bears.argmax(axis=1)] = False
    without, se, df = _over_depths(fit, others, design, luck)
    shows = np.abs(without) > half_width(se, df, WITHOUT_ONE)
    return np.asarray((np.sign(without) == np.sign(est)) & shows)


def _over_depths(fit: Fit, used: Mask, design: Design, luck: Luck) -> tuple[Array, Array, Array]:
    """(estimate, standard error, degrees of freedom) of the mean over the depths in use."""
    depths = np.maximum(used.sum(axis=1), 1)
    est = np.where(used, fit.est, 0).sum(axis=1) / depths
    of_runs = np.where(used[:, None], fit.noise / fit.counts, 0).sum(axis=2) / depths[:, None] ** 2
    own_df = np.where(used[:, None], fit.own_df, 0).sum(axis=2)
    if design.interleaved:
        se, df = _interleaved_error(fit, used, of_runs, own_df)
        return est, se, df
    means, weights = _block_means(fit, used)
    variance, count = _variance_and_count(means)
    free = np.maximum(count - 1.0, 0)
    # The runs' own noise stands for one block more, so that few blocks that happen to agree make nobody sure.
    of_blocks = (of_runs + free * variance * (weights**2).sum(axis=2)) / (1 + free)
    larger = (of_blocks > of_runs) & (free > 0)
    parts, df = np.where(larger, of_blocks, of_runs), np.where(larger, 1 + free, own_df)
    se, both = welch((parts[:, 0], parts[:, 1]), (df[:, 0], df[:, 1]), luck)
    repeated = np.any(np.all(fit.counts >= 2, axis=1), axis=1)
    return est, se, np.where(repeated, both, 0.0)


def _interleaved_error(fit: Fit, used: Mask, of_runs: Array, own_df: Array) -> tuple[Array, Array]:
    """The larger of the errors that runs and blocks show; with fewer blocks than three, the one that depths show."""
    nothing = Luck(np.zeros(len(used)), np.full(len(used), np.inf))
    se, df = welch((of_runs[:, 0], of_runs[:, 1]), (own_df[:, 0], own_df[:, 1]), nothing)
    means, weights = _block_means(fit, used)
    square, shared = _variance_and_count(means[:, 1] - means[:, 0])
    # The paired differences' variance, shared out by what each set-up's runs contribute to it.
    part = of_runs * (~np.isnan(means)).sum(axis=2)
    part = part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300)
    of_blocks = np.sqrt(square * (part * (weights**2).sum(axis=2)).sum(axis=1))
    error = np.where(shared >= FEWEST_BLOCKS, np.maximum(se, of_blocks), se)
    depths = used.sum(axis=1)
    away = np.where(used, fit.est - _masked_mean(fit.est, used)[:, None], 0)
    of_depths = np.sqrt((away**2).sum(axis=1) / np.maximum(depths - 1, 1) / np.maximum(depths, 1))
    few = (shared < FEWEST_BLOCKS) & (depths > 1) & (of_depths > se)
    return np.where(few, of_depths, error), np.where(few, depths - 1.0, df)


def _masked_mean(values: Array, used: Mask) -> Array:
    """Mean over the depths in use."""
    return np.asarray(np.where(used, values, 0).sum(axis=1) / np.maximum(used.sum(axis=1), 1))


def _block_means(fit: Fit, used: Mask) -> tuple[Array, Array]:
    """(pairs, 2, blocks) each: from the set-up's mean over the depths that the block has; its share of that mean."""
    present = fit.measured & used[:, None, :, None]
    count = present.sum(axis=2)
    total = np.where(present, fit.rest, 0).sum(axis=2)
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    depths = np.maximum(used.sum(axis=1), 1)[:, None, None]
    return means, (present / fit.counts[..., None]).sum(axis=2) / depths


def _variance_and_count(values: Array) -> tuple[Array, Array]:
    """(variance, number) of the known values along the last axis."""
    present = ~np.isnan(values)
    count = present.sum(axis=-1)
    middle = np.where(present, values, 0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(present, (values - middle[..., None]) ** 2, 0).sum(axis=-1)
    return squares / np.maximum(count - 1, 1), count


def compare_pairs(
    logs: Array, design: Design, visits: NDArray[np.int64] | None = None
) -> tuple[Fit, Estimates, Estimates]:
    """(the fit, at each depth, over the curve) of pairs of set-ups. `visits`: as for `luck_of_builds`."""
    fitted = fit(logs, blocks=design.interleaved)
    luck = luck_of_builds(fitted, design, visits)
    points, curve = estimate_points(fitted, design, luck), estimate_curve(fitted, design, luck)
    if fitted.est.shape[1] == 1:
        curve = replace(
            curve,
            p=points.p[:, 0],
            sign=points.sign[:, 0],
            equal=points.equal[:, 0],
            se=points.se[:, 0],
            df=points.df[:, 0],
        )
    return fitted, points, curve
