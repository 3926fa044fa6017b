# SPDX-License-Identifier: Apache-2.0
"""A robust fit of two set-ups over one sweep, each with a noise of its own (docs/analysis.md, section 1).

Everything is done for many pairs at once, so that what a page shows and what thousands of simulated pairs try is the
same code. An array of pairs has the shape (pairs, 2 set-ups, depths, blocks); values are natural logarithms; a run that
is missing is not a number, so cells may have unlike numbers of repeats. A depth needs at least one run of each set-up.

Huber, Robust Statistics, chapter 7: pseudo-values. Smyth, Linear Models and Empirical Bayes Methods (2004), section 6:
the noise of a depth moderated towards that of the sweep. Each set-up is scaled, clipped and moderated alone: a quiet
stripe must not lend its certainty to a noisy cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi, zeta

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLIP, ROUNDS = 2.5, 12
# A run this many scales from its cell's mean is no noise of the others: it stalled, or did what the others did not.
WILD = 5.0
# Repeats that differ by less than 10 % do not disagree, however quiet the others are: a tool may have rounded them.
LEAST_WILD = float(np.log(1.10)) / 2
# Degrees of freedom that the term of a block costs if all of it is taken away: the term, and its share, are estimated.
BLOCK_COST = 1.5
# With fewer blocks that hold both set-ups, what a block shares cannot be told from noise.
FEWEST_BLOCKS = 3
# Tools round what they print, so equal repeats do not prove that there is no noise.
LEAST_NOISE = 0.001
# Most degrees of freedom that a depth borrows from the others: their noise may differ fourfold.
MOST_BORROWED = 8.0
# A depth with less than this of a degree of freedom has no noise of its own.
LEAST_FREEDOM = 0.25
# Two repeats leave one degree a depth, too few to moderate: their noise is that of the whole sweep.
OF_TWO_REPEATS = 1.01


@dataclass(frozen=True, slots=True)
class Fit:
    """Each pair's cells. Arrays are (pairs, 2, depths) unless stated.

    `means`: robust means. `noise`: variance of one run, with its degrees of freedom `df`; `own_df`: those of the cell
    itself, before moderation. `counts`: runs; `clipped`, `wild`: how many of them were far, or very far, off. `rest`:
    (pairs, 2, depths, blocks), from the cell's mean, with outliers drawn in and the block's part left in; `raw`: the
    same with outliers as they are. `scale`: (pairs, 2), robust standard deviation of a run.
    """

    means: Array
    noise: Array
    df: Array
    own_df: Array
    counts: Array
    clipped: Array
    wild: Array
    rest: Array
    raw: Array
    scale: Array

    @property
    def est(self) -> Array:
        """(pairs, depths): ln(second / first)."""
        return np.asarray(self.means[:, 1] - self.means[:, 0])

    @property
    def lowest(self) -> Array:
        """ln of each cell's lowest run."""
        return np.asarray(self.means + np.where(self.measured, self.raw, np.inf).min(axis=3))

    @property
    def highest(self) -> Array:
        """ln of each cell's highest run."""
        return np.asarray(self.means + np.where(self.measured, self.raw, -np.inf).max(axis=3))

    @property
    def measured(self) -> Mask:
        return ~np.isnan(self.raw)


def fit(logs: Array, *, blocks: bool) -> Fit:
    """`blocks`: what a block shares by both set-ups is taken away, as far as it shows above the noise."""
    measured = ~np.isnan(logs)
    counts = measured.sum(axis=3).astype(float)
    depths = counts.shape[2]
    in_block = _runs_of_shared_blocks(measured) & blocks
    free = np.maximum(np.any(in_block, axis=(1, 2)).sum(axis=1) - 1.0, 0)
    means = _medians(logs, (3,))
    parts = _centred(_medians(np.where(in_block, logs - means, np.nan), (1, 2)), in_block)
    scale = _scales(logs - means - parts, (depths + free / 2)[:, None])
    limit = CLIP * scale[:, :, None, None]
    effects = np.zeros(len(logs))
    for _ in range(ROUNDS):
        means = means + _mean(np.clip(logs - means - parts, -limit, limit), measured, (3,))
        if blocks:
            parts, effects = _blocks(logs - means, parts, scale, in_block, free)
    raw = logs - means
    size, drawn = np.abs(raw - parts), np.clip(raw - parts, -limit, limit)
    far = measured & (size > limit)
    share = far.sum(axis=(2, 3)) / counts.sum(axis=2)
    cost = (BLOCK_COST * effects * free / depths)[:, None] * _precisions(scale)
    own_df = np.maximum(counts - 1 - cost[:, :, None], 0)
    noise, df = moderated(np.nansum(drawn**2, axis=3) / ((1 - share) ** 2)[:, :, None], own_df)
    wild = measured & (size > np.maximum(WILD * scale, LEAST_WILD)[:, :, None, None])
    return Fit(
        means=means[..., 0],
        noise=noise,
        df=df,
        own_df=own_df,
        counts=counts,
        clipped=far.sum(axis=3).astype(float),
        wild=wild.sum(axis=3).astype(float),
        rest=parts + drawn,
        raw=raw,
        scale=scale,
    )


def _runs_of_shared_blocks(measured: Mask) -> Mask:
    """Runs in blocks that hold both set-ups, where there are enough of them."""
    both = np.all(np.any(measured, axis=2), axis=1)
    both &= (both.sum(axis=1) >= FEWEST_BLOCKS)[:, None]
    return np.asarray(measured & both[:, None, None, :])


def _precisions(scale: Array) -> Array:
    """Each set-up's share of the precision, (pairs, 2)."""
    precision = 1 / scale**2
    return np.asarray(precision / precision.sum(axis=1, keepdims=True))


def _blocks(
    rest: Array, parts: Array, scale: Array, in_block: Mask, free: Array
) -> tuple[Array, Array]:
    """(what each block shares, which share of it shows above the noise: a number for each pair).

    A noisy set-up must not write its noise into the quiet one's blocks, so each weighs by its precision.
    """
    limit = CLIP * scale[:, :, None, None]
    weights = np.where(in_block, _precisions(scale)[:, :, None, None], 0)
    drawn = np.where(in_block, np.clip(rest - parts, -limit, limit), 0)
    total = np.maximum(weights.sum(axis=(1, 2), keepdims=True), 1e-12)
    whole = _centred(parts + (drawn * weights).sum(axis=(1, 2), keepdims=True) / total, in_block)
    squares = (weights**2 * (scale**2)[:, :, None, None]).sum(axis=(1, 2, 3))
    all_weights = np.maximum(weights.sum(axis=(1, 2, 3)), 1e-12)
    noise = squares / all_weights**2 * (free + 1)
    between = (whole**2).sum(axis=(1, 2, 3)) / np.maximum(free, 1)
    shrinkage = np.clip(1 - noise / np.maximum(between, 1e-12), 0, 1) * (free > 0)
    return whole * shrinkage[:, None, None, None], shrinkage


def moderated(squares: Array, freedom: Array) -> tuple[Array, Array]:
    """(variance of a run, its degrees of freedom), from sums of squares and their own degrees: (pairs, 2, depths) each.

    Each set-up has a level of its own; how much its depths differ from that is estimated over both. A depth without any
    degrees has its set-up's level; where none has any, the degrees are 0.
    """
    own = freedom > LEAST_FREEDOM
    freedom = np.where(own, freedom, 0.0)
    half = np.where(own, freedom, 1.0) / 2
    plain = np.maximum(squares / (2 * half), LEAST_NOISE**2)
    total = freedom.sum(axis=2, keepdims=True)
    pooled = np.where(own, squares, 0).sum(axis=2, keepdims=True) / np.maximum(total, 1e-9)
    pooled = np.maximum(pooled, LEAST_NOISE**2)
    prior, level = _prior(np.where(own, np.log(plain) - psi(half) + np.log(half), np.nan), half)
    level = np.where(np.isnan(level), pooled, level)
    weighed = (prior * level + freedom * plain) / (prior + freedom)
    few = freedom.max(axis=2, keepdims=True) <= OF_TWO_REPEATS
    variance = np.where(few, pooled, weighed)
    return variance, np.where(few, total, np.minimum(prior + freedom, total))


def _prior(spread: Array, half: Array) -> tuple[Array, Array]:
    """(degrees of freedom, variance: NaN where depths do not differ beyond chance) that depths have in common.

    `spread`: logarithms of variances, NaN where there is none; `half`: half their degrees of freedom.
    """
    own = ~np.isnan(spread)
    count = own.sum(axis=2, keepdims=True)
    middle = np.where(own, spread, 0).sum(axis=2, keepdims=True) / np.maximum(count, 1)
    away = np.where(own, (spread - middle) ** 2, 0).sum(axis=(1, 2))
    number = np.maximum(own.sum(axis=(1, 2)), 1)
    expected = np.where(own, zeta(2, half), 0).sum(axis=(1, 2)) / number
    more = away / np.maximum(np.maximum(count - 1, 0).sum(axis=(1, 2)), 1) - expected
    differ = (more > 0)[:, None, None]
    inverse = 2 * _trigamma_inverse(np.where(more > 0, more, 1.0))[:, None, None]
    prior = np.where(differ, np.minimum(inverse, MOST_BORROWED), MOST_BORROWED)
    level = np.exp(np.minimum(middle + psi(prior / 2) - np.log(prior / 2), 50))
    return prior, np.where(differ & (count > 0), level, np.nan)


def _trigamma_inverse(values: Array) -> Array:
    """Newton on 1 / trigamma, which is nearly straight (Smyth, appendix).

    Trigamma is Hurwitz's zeta(2, x), and its derivative -2 zeta(3, x): polygamma takes four times as long.
    """
    estimate = 0.5 + 1 / values
    for _ in range(20):
        now = zeta(2, estimate)
        estimate = estimate - now * (1 - now / values) / (2 * zeta(3, estimate))
    return np.asarray(estimate)


def _scales(rest: Array, terms: Array) -> Array:
    """(pairs, 2): 1.4826 x median of the residuals' sizes without as many of the smallest as `terms` were fitted."""
    sizes = np.sort(np.abs(rest).reshape(*rest.shape[:2], -1), axis=2)
    counts = (~np.isnan(sizes)).sum(axis=2)
    first = np.minimum(terms.astype(int), np.maximum(counts - 1, 0))
    low = first + np.maximum(counts - first - 1, 0) // 2
    high = np.minimum(first + (counts - first) // 2, np.maximum(counts - 1, 0))
    middle = [np.take_along_axis(sizes, at[..., None], axis=2)[..., 0] for at in (low, high)]
    return np.asarray(np.maximum(1.4826 * (middle[0] + middle[1]) / 2, LEAST_NOISE))


def _centred(parts: Array, measured: Mask) -> Array:
    """`parts` with a sum of 0 over the blocks with a run, and 0 in the others."""
    any_measured = measured.any(axis=(1, 2), keepdims=True)
    total = np.where(any_measured, parts, 0).sum(axis=3, keepdims=True)
    count = np.maximum(any_measured.sum(axis=3, keepdims=True), 1)
    return np.where(any_measured, parts - total / count, 0.0)


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
