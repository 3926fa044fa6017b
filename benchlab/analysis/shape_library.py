# SPDX-License-Identifier: Apache-2.0
"""Noise-free response curves, and how likely each is of what was measured (docs/analysis.md, section 2).

With u = ln depth - ln k: ln IOPS = -(b/p) ln(1 + exp(-p u)) + c max(0, log2(depth / k)), and b min(0, u) for its first
part where p is infinite. k is the corner, b the slope below it, p its softness, c what each doubling beyond brings or
costs. Some ten thousand of them, made once for each set of depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.curves import ENOUGH_REPEATS
from benchlab.analysis.repeats import Cells, robust_means

# A doubling of outstanding I/Os that gains less is past the knee.
KNEE_GAIN = 0.05
# probability that a point does not belong to the curve
OUTLYING = 0.02
OUTLIER_DENSITY = 1 / 1.5
# prior for the noise: as if three runs had shown 4 %
PRIOR_RUNS, PRIOR_NOISE = 3, 0.04
# label of curves that still gain at the last depth
NONE = -1

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Library:
    # ln IOPS, a row per curve, a column per depth
    curves: Array
    # index of the knee, or NONE
    labels: NDArray[np.int64]
    # ln of the prior: equal for each label that occurs, and within a label
    prior: Array
    # ln of the ratio of the peak to the last depth
    falls: Array


@lru_cache(maxsize=16)
def library(depths: tuple[int, ...]) -> Library:
    """Return the library of curves at these depths, which rise."""
    x = np.log2(np.array(depths, dtype=float) / depths[0])
    shapes = [
        shape
        for corner in np.arange(-2, x[-1] + 2 + 1e-9, 0.125)
        for soft in (1.5, 2.0, 3.0, 4.0, 8.0, inf)
        for slope in (1.0, 0.85, 0.7, 0.5)
        for shape in _shapes(x - corner, soft, slope)
    ]
    curves = np.array(shapes)
    labels = labels_of(curves, x)
    counts = {label: int((labels == label).sum()) for label in np.unique(labels)}
    prior = -np.log(np.array([counts[label] * len(counts) for label in labels], dtype=float))
    return Library(curves, labels, prior, curves.max(axis=1) - curves[:, -1])


def _shapes(x: Array, soft: float, slope: float) -> list[Array]:
    """One shape for each gain or loss per doubling beyond the corner; `x` in doublings from the corner."""
    u = x * log(2)
    rise = slope * np.minimum(0, u) if soft == inf else -slope / soft * np.logaddexp(0, -soft * u)
    return [rise + beyond * np.maximum(0, x) for beyond in (0.0, 0.02, -0.03, -0.08, -0.2)]


def labels_of(curves: Array, x: Array) -> NDArray[np.int64]:
    """The first depth behind which every step gains less than KNEE_GAIN a doubling; NONE if that is the last."""
    small = np.diff(curves, axis=1) / np.diff(x) < log(1 + KNEE_GAIN)
    after = np.flip(np.logical_and.accumulate(np.flip(small, axis=1), axis=1), axis=1)
    return np.where(after.any(axis=1), after.argmax(axis=1), NONE)


def posterior(depths: tuple[int, ...], cells: Sequence[Sequence[float]]) -> Array:
    """The probability of each curve of `library(depths)`, of a cell of repeats (op/s, above 0) for each depth."""
    shapes = library(depths)
    weights = shapes.prior + _likelihood(robust_means(cells, ENOUGH_REPEATS), shapes.curves)
    weights = np.exp(weights - weights.max())
    return np.asarray(weights / weights.sum())


def _likelihood(cells: Cells, curves: Array) -> Array:
    """ln, of each curve: its height and the noise integrated out, each point an outlier with a small probability."""
    rest = cells.means - curves
    weighed = rest * cells.counts
    squared = weighed * rest
    firsts, seconds = weighed.sum(axis=1), squared.sum(axis=1)
    outlying_share = min(OUTLYING, 0.5 / len(cells.means))
    every = np.ones(len(cells.means), dtype=bool)
    log_likelihood = log(1 - outlying_share * len(every)) + _point_likelihood(
        cells, every, firsts, seconds
    )
    for left_out in range(len(every)):
        points = every.copy()
        points[left_out] = False
        without = _point_likelihood(
            cells, points, firsts - weighed[:, left_out], seconds - squared[:, left_out]
        )
        log_likelihood = np.logaddexp(
            log_likelihood, log(outlying_share * OUTLIER_DENSITY) + without
        )
    return np.asarray(log_likelihood)


def _point_likelihood(
    cells: Cells, points: NDArray[np.bool_], firsts: Array, seconds: Array
) -> Array:
    """Log likelihood of these points alone.

    `firsts` and `seconds`: weighted sums of what a curve leaves of the points, and of its squares.
    """
    counts = cells.counts[points]
    count, runs = len(counts), float(counts.sum())
    q = cells.within + PRIOR_RUNS * PRIOR_NOISE**2
    a = (float((cells.counts - 1).sum()) + PRIOR_RUNS) / 2
    squares = np.maximum(0, seconds - firsts**2 / runs)
    power = a + (count - 1) / 2
    constant = lgamma(power) - lgamma(a) - (count - 1) / 2 * log(2 * pi) + a * log(q / 2)
    constant += (float(np.log(counts).sum()) - log(runs)) / 2
    return np.asarray(constant - power * np.log((q + squares) / 2))
