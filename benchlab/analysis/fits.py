# SPDX-License-Identifier: Apache-2.0
"""Two set-ups over one sweep: robust means of the logarithms, and how sure each difference is (docs/analysis.md, 1).

Everything is done for many pairs at once, so that what a page shows and what thousands of simulated pairs try is the
same code. An array of pairs has the shape (pairs, 2 set-ups, depths, blocks); a run that is missing is not a number, so
cells may have unlike numbers of repeats. A depth needs at least one run of each set-up.

Huber, Robust Statistics, chapter 7: pseudo-values. Smyth, Linear Models and Empirical Bayes Methods (2004), section 6:
the noise of a depth shrunk towards that of the sweep. Unlike docs/analysis.md, what blocks share is taken away only as
far as it shows above the noise (a random effect): as sure with three repeats, and it pays with two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma, psi

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
