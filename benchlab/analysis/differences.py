# SPDX-License-Identifier: Apache-2.0
"""Two set-ups over one sweep: a robust fit, and differences at each depth and over the curve (docs/analysis.md, 1).

Everything is done for many pairs at once, so that what a page shows and what thousands of simulated pairs try is the
same code. An array of pairs has the shape (pairs, 2 set-ups, depths, blocks); a run that is missing is not a number, so
cells may have unlike numbers of repeats. A depth needs at least one run of each set-up. A difference counts from 5 % on
(`LEAST`). What no number of repeats takes away is in every standard error (benchlab.analysis.designs).

Huber, Robust Statistics, chapter 7: pseudo-values. Smyth, Linear Models and Empirical Bayes Methods (2004), section 6:
the noise of a depth shrunk towards that of the sweep. Unlike docs/analysis.md, what blocks share is taken away only as
far as it shows above the noise (a random effect): as sure with three repeats, and it pays with two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma, psi, stdtr, stdtrit

from benchlab.analysis.designs import Design

LEAST = float(np.log(1.05))
# Benjamini-Hochberg over a sweep. With up to three repeats a level of 0.05 errs in 5.3 % of sweeps of seven depths.
FALSE_DISCOVERIES, OF_FEW, FEW, DEPTHS = 0.05, 0.0375, 3, 7
# "No difference" is two one-sided tests of 5 % each. Alone they err in up to 12 % of sweeps of which 5 % is true.
NONE_DISCOVERIES = 0.15
ONE_SIDED, TWO_SIDED = 0.95, 0.975


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates for each pair (and depth): `est` = ln(second / first), its standard error and degrees of freedom.

    `df` is 0 where the error is unknown. `sign`: 1 if the second is larger, -1 if smaller, 0 if neither. `equal`: no
    difference worth naming. Neither a sign nor `equal`: not enough data.
    """

    est: Array
    se: Array
    df: Array
    sign: NDArray[np.int64]
    equal: Mask

    def half(self, share: float = TWO_SIDED) -> Array:
        """Half the width of an interval, by default of 95 %; infinite if the error is unknown."""
        has_error = self.df > 0
        return np.where(
            has_error, stdtrit(np.where(has_error, self.df, 1), share) * self.se, np.inf
        )


def estimate_points(fit: Fit, design: Design) -> Estimates:
    """Estimate the difference at each depth.

    A depth needs two repeats of each set-up, and in each cell less than half of the runs may be far off.
    """
    se = np.sqrt(fit.variance + design.tau**2)
    enough = (fit.df > 0) & (fit.counts >= 2).all(axis=1)
    enough &= (fit.clipped * 2 < fit.counts).all(axis=1)
    df = np.where(fit.df > 0, fit.df, 1)
    size = np.abs(fit.est)
    luck = discoveries(np.where(enough, 2 * stdtr(df, -size / se), np.nan))
    differ = (luck <= _false_discovery_level(fit)[:, None]) & (size >= LEAST)
    inside = np.where(enough, stdtr(df, (size - LEAST) / se), np.nan)
    alike = (inside <= 1 - ONE_SIDED) & (discoveries(inside) <= NONE_DISCOVERIES)
    more = np.where(differ, np.sign(fit.est), 0).astype(np.int64)
    return Estimates(fit.est, se, df, more, alike & (more == 0) & design.may_say_none)


def _false_discovery_level(fit: Fit) -> Array:
    """Level of the false discovery rate for each pair.

    Few repeats of many depths err more often than their level says (tried with 1 to 12), so they have a lower one.
    """
    few = OF_FEW * min(1.0, DEPTHS / fit.est.shape[1])
    return np.where(fit.counts.min(axis=(1, 2)) <= FEW, few, FALSE_DISCOVERIES)


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


def estimate_curve(fit: Fit, design: Design) -> Estimates:
    """Estimate the geometric mean of the ratios over the depths.

    If the set-ups are not interleaved, a single repeat stands for one visit: such depths are left out if others have
    more.
    """
    used = _all_depths(fit)
    if not design.interleaved:
        often = fit.counts.min(axis=1) >= 2
        used = often | ~often.any(axis=1, keepdims=True)
    fit = replace(fit, rest=np.where(used[:, None, :, None], fit.rest, np.nan))
    est = _mean_over_depths(fit.est, used)
    if design.interleaved:
        se, df = _interleaved_error(fit)
    else:
        se, df = _sequential_error(fit, design, used)
    estimates = Estimates(est, se, df, np.zeros(len(est), np.int64), np.zeros(len(est), bool))
    size = np.abs(est)
    more = np.where((size > estimates.half()) & (size >= LEAST), np.sign(est), 0).astype(np.int64)
    none = (size + estimates.half(ONE_SIDED) <= LEAST) & (more == 0) & design.may_say_none
    return replace(estimates, sign=more, equal=none)


def _all_depths(fit: Fit) -> Mask:
    return np.ones(fit.est.shape, bool)


def _mean_over_depths(values: Array, used: Mask) -> Array:
    """The mean over the depths in use."""
    return np.asarray(np.where(used, values, 0).sum(axis=1) / used.sum(axis=1))


def _pooled_error(fit: Fit, used: Mask) -> tuple[Array, Array]:
    mean = _mean_over_depths(fit.variance, used) / used.sum(axis=1)
    return np.sqrt(mean), np.where(used, fit.df, 0).sum(axis=1)


def _interleaved_error(fit: Fit) -> tuple[Array, Array]:
    """The larger of the errors that runs and blocks show; with fewer than three repeats, the one that depths show."""
    se, df = _pooled_error(fit, _all_depths(fit))
    of_blocks, blocks = _block_error(fit)
    depths = fit.est.shape[1]
    if depths > 1:
        of_depths, free = fit.est.std(axis=1, ddof=1) / np.sqrt(depths), depths - 1.0
    else:
        of_depths, free = se, df
    few = (fit.counts.min(axis=(1, 2)) < 3) | (blocks < 3)
    return np.where(few, of_depths, np.maximum(se, of_blocks)), np.where(few, free, df)


def _block_error(fit: Fit) -> tuple[Array, Array]:
    """(standard error of the mean difference, from block to block; how many blocks have both)."""
    means, weights = _block_means(fit, _all_depths(fit))
    square, count = _variance_and_count(means[:, 1] - means[:, 0])
    return np.sqrt(square * (weights**2).sum(axis=2).max(axis=1)), count


def _block_means(fit: Fit, used: Mask) -> tuple[Array, Array]:
    """(pairs, 2, blocks) each: from the set-up's mean over the depths that the block has; its share of that mean."""
    present = ~np.isnan(fit.rest)
    count = present.sum(axis=2)
    total = np.where(present, fit.rest, 0).sum(axis=2)
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    shares = (present / fit.counts[..., None]).sum(axis=2) / used.sum(axis=1)[:, None, None]
    return means, shares


def _variance_and_count(values: Array) -> tuple[Array, Array]:
    """(variance, number) of the known values along the last axis."""
    present = ~np.isnan(values)
    count = present.sum(axis=-1)
    middle = np.where(present, values, 0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(present, (values - middle[..., None]) ** 2, 0).sum(axis=-1)
    return squares / np.maximum(count - 1, 1), count


def _sequential_error(fit: Fit, design: Design, used: Mask) -> tuple[Array, Array]:
    """Standard error and degrees of freedom, from the differences between the blocks of each set-up.

    If the set-ups were measured one after the other, the error is at least what the runs show.
    """
    means, weights = _block_means(fit, used)
    variance, count = _variance_and_count(means)
    square = (variance * (weights**2).sum(axis=2)).sum(axis=1)
    free = np.where((count >= 2).all(axis=1), (count - 1).sum(axis=1), 0).astype(float)
    if not design.may_say_none:
        pooled, df = _pooled_error(fit, used)
        larger = (pooled**2 > square) & (free > 0)
        square, free = np.where(larger, pooled**2, square), np.where(larger, df, free)
        # Satterthwaite: tau is not estimated from these runs.
        free = free * ((square + design.tau**2) / np.maximum(square, LEAST_NOISE**4)) ** 2
    return np.sqrt(square + design.tau**2), free


def compare_pairs(logs: Array, design: Design) -> tuple[Fit, Estimates, Estimates]:
    """(the fit, at each depth, over the curve) of pairs of set-ups."""
    fitted = fit(logs, blocks=design.interleaved)
    return fitted, estimate_points(fitted, design), estimate_curve(fitted, design)


Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLIP, ROUNDS = 2.5, 12
# Degrees of freedom that the term of a block costs if all of it is taken away: the term, and its share, are estimated.
BLOCK_COST = 1.5
# Tools round what they print, so equal repeats do not prove that there is no noise.
LEAST_NOISE = 0.001


@dataclass(frozen=True, slots=True)
class Fit:
    """Differences of each pair at each depth: `est` = ln(second / first), its `variance` and degrees of freedom `df`.

    `df` is 0 where there are none. `counts`: runs, (pairs, 2, depths); `clipped`: how many of them were far off.
    `rest`: (pairs, 2, depths, blocks), from the cell's mean, with outliers drawn in and the block's part left in.
    `means`: (pairs, 2, depths), logarithms.
    """

    means: Array
    est: Array
    variance: Array
    df: Array
    counts: Array
    clipped: Array
    rest: Array


def fit(logs: Array, *, blocks: bool) -> Fit:
    """`blocks`: both set-ups stand in every block, so that what a block shares cancels."""
    measured = ~np.isnan(logs)
    counts = measured.sum(axis=3).astype(float)
    depths = counts.shape[2]
    means = _medians(logs, (3,))
    free = (measured.any(axis=(1, 2)).sum(axis=1) - 1.0) * blocks
    parts = _centred(_medians(logs - means, (1, 2)), measured) * blocks
    limit = _limit(logs - means - parts, 2 * depths + free)
    effects = np.zeros(len(logs))
    for _ in range(ROUNDS):
        means = means + _mean(np.clip(logs - means - parts, -limit, limit), measured, (3,))
        if blocks:
            parts, effects = _blocks(logs - means, parts, limit, measured, free)
    residuals = logs - means - parts
    far, drawn = measured & (np.abs(residuals) > limit), np.clip(residuals, -limit, limit)
    share = far.sum(axis=(1, 2, 3)) / counts.sum(axis=(1, 2))
    cost = BLOCK_COST * effects * free / depths
    freedom = np.maximum((counts - 1).sum(axis=1) - cost[:, None], 0)
    squares = np.nansum(drawn**2, axis=(1, 3)) / ((1 - share) ** 2)[:, None]
    noise, df = shrunk(squares, freedom)
    return Fit(
        means=means[..., 0],
        est=(means[:, 1] - means[:, 0])[..., 0],
        variance=noise * (1 / counts).sum(axis=1),
        df=df,
        counts=counts,
        clipped=far.sum(axis=3).astype(float),
        rest=parts + drawn,
    )


def _blocks(
    rest: Array, parts: Array, limit: Array, measured: Mask, free: Array
) -> tuple[Array, Array]:
    """(what each block shares, which share of it shows above the noise: a number for each pair)."""
    whole = parts + _mean(np.clip(rest - parts, -limit, limit), measured, (1, 2))
    whole = _centred(whole, measured)
    runs = measured.sum(axis=(1, 2, 3))
    cells = measured.any(axis=3).sum(axis=(1, 2))
    squares = np.where(measured, np.clip(rest - whole, -limit, limit), 0) ** 2
    noise = squares.sum(axis=(1, 2, 3)) / np.maximum(runs - cells - free, 1)
    between = (whole**2).sum(axis=(1, 2, 3)) / np.maximum(free, 1)
    per_block = runs / (free + 1)
    shrinkage = np.clip(1 - noise / per_block / np.maximum(between, LEAST_NOISE**4), 0, 1)
    return whole * shrinkage[:, None, None, None], shrinkage


def shrunk(squares: Array, freedom: Array) -> tuple[Array, Array]:
    """(variance, degrees of freedom) of each depth, from its sum of squares and its own degrees: (pairs, depths) each.

    A depth without any has what the others have in common; where none has any, the degrees are 0.
    """
    own = freedom > 0
    half = np.where(own, freedom, 1.0) / 2
    plain = np.maximum(squares / (2 * half), LEAST_NOISE**2)
    spread = np.where(own, np.log(plain) - psi(half) + np.log(half), 0.0)
    number = np.maximum(own.sum(axis=1), 1)
    middle = spread.sum(axis=1) / number
    away = np.where(own, (spread - middle[:, None]) ** 2, 0.0).sum(axis=1)
    expected = np.where(own, polygamma(1, half), 0.0).sum(axis=1) / number
    more = away / np.maximum(number - 1, 1) - expected
    differ = more > 0
    prior = np.where(differ, 2 * _trigamma_inverse(np.where(differ, more, 1.0)), np.inf)
    finite = np.where(differ, prior, 2.0)
    total = np.maximum(freedom.sum(axis=1), 1e-9)
    pooled = np.maximum(np.where(own, squares, 0.0).sum(axis=1) / total, LEAST_NOISE**2)
    common = np.where(differ, np.exp(middle + psi(finite / 2) - np.log(finite / 2)), pooled)
    weighed = ((finite * common)[:, None] + freedom * plain) / (finite[:, None] + freedom)
    variance = np.where(differ[:, None], weighed, common[:, None])
    df = np.minimum(prior[:, None] + freedom, freedom.sum(axis=1)[:, None])
    return variance, df


def _trigamma_inverse(values: Array) -> Array:
    """Newton on 1 / trigamma, which is nearly straight (Smyth, appendix)."""
    estimate = 0.5 + 1 / values
    for _ in range(20):
        now = polygamma(1, estimate)
        estimate = estimate + now * (1 - now / values) / polygamma(2, estimate)
    return np.asarray(estimate)


def _limit(rest: Array, terms: Array) -> Array:
    """2.5 S, S = 1.4826 x median of the residuals' sizes without as many of the smallest as terms were fitted."""
    sizes = np.sort(np.abs(rest).reshape(len(rest), -1), axis=1)
    counts = (~np.isnan(sizes)).sum(axis=1)
    first = np.minimum(terms.astype(int), counts - 1)
    low, high = first + (counts - first - 1) // 2, first + (counts - first) // 2
    pairs = np.arange(len(rest))
    scale = 1.4826 * (sizes[pairs, low] + sizes[pairs, high]) / 2
    return np.asarray(CLIP * np.maximum(scale, LEAST_NOISE))[:, None, None, None]


def _centred(parts: Array, measured: Mask) -> Array:
    """Their sum over the blocks that there are is 0."""
    any_measured = measured.any(axis=(1, 2), keepdims=True)
    total = np.where(any_measured, parts, 0).sum(axis=3, keepdims=True)
    return np.where(any_measured, parts - total / any_measured.sum(axis=3, keepdims=True), 0.0)


def _mean(values: Array, measured: Mask, axes: tuple[int, ...]) -> Array:
    total = np.where(measured, values, 0).sum(axis=axes, keepdims=True)
    return np.asarray(total / np.maximum(measured.sum(axis=axes, keepdims=True), 1))


def _medians(values: Array, axes: tuple[int, ...]) -> Array:
    """Medians of the known values along `axes`, which are kept; 0 where there are none (numpy would warn)."""
    moved = np.moveaxis(values, axes, range(-len(axes), 0))
    flat = np.sort(moved.reshape(*moved.shape[: -len(axes)], -1), axis=-1)
    counts = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    low = np.take_along_axis(flat, np.maximum(counts - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(flat, np.minimum(counts // 2, flat.shape[-1] - 1), axis=-1)
    middle = np.where(counts > 0, (low + high) / 2, 0.0)[..., 0]
    return np.asarray(np.expand_dims(middle, axes))
