# SPDX-License-Identifier: Apache-2.0
"""Knee, fall and cap of a response curve: a posterior over a library of shapes (docs/analysis.md, 2).

The knee is the smallest measured depth from which every further doubling gains less than 5 % on the curve without its
noise. Asked of noisy points that question is answered by luck, so each of some ten thousand noise-free curves says
where its knee is, and the measured points say how likely each curve is.

Of 1,000 simulated curves each with realistic noise of 3, 5 and 10 % three repeats get an answer in 93, 89 and 83 %, of
which 98 % and more are right within one step. One repeat, held to more certainty (SURE_OF_FEW), gets one in 86
and 77 % at 3 and 10 %, of which 99.5 and 96.8 % are right; but it sees a knee in 4 to 10 % of curves without one, and
it cannot tell one bad run. A curve that gains 6 to 10 % a doubling for ever is none of the library's: it gets a knee.
So what fewer than three repeats say is said in words, and drawn nowhere.

Two things overrule the posterior. From three repeats on, a curve whose points lie further from every shape than their
noise explains (a dip, a step) is judged by its means instead: their errors are drawn, and each draw has its knee. And a
cap bounds the knee: IOPS that stay within 2 % from some depth on have no knee beyond it. Rates: docs/analysis.md.

A fall is claimed by the same posterior. Of 900 simulated curves that do not fall it is said of 0.1 % at a noise of 3 %,
and of 0.4 to 0.7 % at 10 %; of falls of 20 % and more some 60 % are found. Most missed ones have only their last depth
to show for it, which may as well be a bad point. With fewer than three repeats: not claimed. A cap is claimed of 0.4 %
(three repeats) and of 0 to 1 % (one) of curves that still gain 5 % a doubling there.

The shapes: with u = ln depth - ln k, ln IOPS = -(b/p) ln(1 + exp(-p u)) + c max(0, log2(depth / k)), and b min(0, u)
for its first part where p is infinite. k is the corner, b the slope below it, p its softness, c what each doubling
beyond brings or costs. They are made once for each set of depths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, lgamma, log, log2, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from benchlab.analysis.curves import ENOUGH_REPEATS, median_of
from benchlab.analysis.repeats import Cells, robust_means

__all__ = ["NONE", "Knee", "chances_of", "knee", "usable"]

# With fewer depths a corner cannot be distinguished from a bend.
ENOUGH_DEPTHS = 4
# Probability of depths within a factor of two of the knee, or, for "flat", of the first depth; for "none" see
# PLAUSIBLE.
SURE = 0.90
# the same for fewer than three repeats
SURE_OF_FEW = 0.95
# Chance below which noise does not explain how far the points lie from the likeliest curve, and the least noise of a
# depth's mean in that test.
MISFIT_ALPHA, LEAST_NOISE = 0.01, 0.003
# Degrees of freedom that the likeliest curve takes: height, corner, slope and softness.
CURVE_FREEDOM = 4
# misfit that is reported
IRREGULAR = 0.10
# Draws of the means, and the prior of their noise: as if three runs had shown 2 %.
DRAWS, MEANS_PRIOR_RUNS, MEANS_PRIOR_NOISE = 1000, 3, 0.02
# Least probability that a cap must leave below it; with less, the knee is where the cap begins.
LEAST_LEFT = 1e-6
# Least probability of the range "between a and b"; "none" is reported if no knee is that plausible.
PLAUSIBLE = 0.95


@dataclass(frozen=True, slots=True)
class Knee:
    """`at`: its depth, None when it is uncertain or there is none. `low` to `high`: where it is in 95 % of cases.

    `flat`: nothing is gained from the first depth on, which is no corner, so `at` is None. `beyond`: it may lie deeper
    than anything that was measured; with no `low` it does. `repeats`: the fewest of a depth. `misfit`: root mean square
    distance of the points from the likeliest curve, as a share, where noise does not explain it; else 0.
    """

    at: int | None
    low: int | None
    high: int | None
    flat: bool = False
    beyond: bool = False
    repeats: int = ENOUGH_REPEATS
    misfit: float = 0.0

    @property
    def drawn(self) -> bool:
        """True if it rests on enough data to be drawn; otherwise it is only described in words."""
        return self.repeats >= ENOUGH_REPEATS

    @property
    def irregular(self) -> bool:
        """True if the points are so far from any smooth curve that it is worth saying."""
        return self.misfit > IRREGULAR

    @property
    def not_reached(self) -> bool:
        """True if it lies deeper than was measured."""
        return self.at is None and not self.flat and self.low is None and self.beyond

    @property
    def uncertain(self) -> bool:
        """True if only the range `low` to `high` is known."""
        return self.at is None and not self.flat and self.low is not None


def usable(cells: Mapping[int, Sequence[float]]) -> bool:
    """True when {outstanding I/Os: IOPS of each repeat} can be judged at all."""
    return len(cells) >= ENOUGH_DEPTHS and all(cell and min(cell) > 0 for cell in cells.values())


def knee(
    cells: Mapping[int, Sequence[float]], latencies: Mapping[int, Sequence[float]] | None = None
) -> Knee | None:
    """Find the knee in {outstanding I/Os: IOPS of each repeat}; None below 4 depths, or if one did nothing.

    `latencies`: as in `cap`, which bounds the knee.
    """
    if not usable(cells):
        return None
    depths = tuple(sorted(cells))
    waits = tuple((depth, tuple(values)) for depth, values in (latencies or {}).items())
    return _knee(depths, tuple(tuple(cells[depth]) for depth in depths), waits)


# It takes some ms, and a page asks several times.
@lru_cache(maxsize=512)
def _knee(
    depths: tuple[int, ...],
    cells: tuple[tuple[float, ...], ...],
    latencies: tuple[tuple[int, tuple[float, ...]], ...],
) -> Knee:
    repeats = min(map(len, cells))
    sure = SURE if repeats >= ENOUGH_REPEATS else SURE_OF_FEW
    misfit = _misfit(depths, cells)
    chances = _chances_of_means(depths, cells) if misfit else chances_of(depths, cells)
    limit = cap(dict(zip(depths, cells, strict=True)), dict(latencies))
    if limit:
        chances = _bound(chances, depths.index(limit.low))
    knee = replace(_knee_of_chances(depths, chances, sure), repeats=repeats, misfit=misfit)
    if knee.at is None:
        return knee
    # Repeats at the knee as low as those at the first depth hide the rise up to it.
    lost = min(cells[depths.index(knee.at)]) <= max(cells[0])
    return replace(knee, at=None) if lost else knee


def _misfit(depths: tuple[int, ...], cells: Sequence[Sequence[float]]) -> float:
    """Root mean square distance from the likeliest curve (ln), if noise does not explain it; else 0.

    With fewer than three repeats it is 0: at 10 % noise the test would make a fifth of their knees wrong.
    """
    if min(map(len, cells)) < ENOUGH_REPEATS:
        return 0.0
    points = robust_means(cells, ENOUGH_REPEATS)
    rest = points.means - library(depths).curves[posterior(depths, cells).argmax()]
    rest -= np.average(rest, weights=points.counts)
    freedom, noise_freedom = max(len(depths) - CURVE_FREEDOM, 1), (points.counts - 1).sum()
    noise = max(points.within / noise_freedom, LEAST_NOISE**2)
    ratio = (points.counts * rest**2).sum() / freedom / noise
    explained = fdtrc(freedom, noise_freedom, ratio) >= MISFIT_ALPHA
    return 0.0 if explained else float(np.sqrt(np.mean(rest**2)))


def _chances_of_means(
    depths: tuple[int, ...], cells: Sequence[Sequence[float]]
) -> dict[int, float]:
    """{index of the knee's depth, or NONE: its share of draws of the means}. The draws are the same each time."""
    points = robust_means(cells, ENOUGH_REPEATS)
    freedom = float((points.counts - 1).sum()) + MEANS_PRIOR_RUNS
    noise = np.sqrt((points.within + MEANS_PRIOR_RUNS * MEANS_PRIOR_NOISE**2) / freedom)
    rng = np.random.default_rng(0)
    widths = np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1))) * noise / np.sqrt(points.counts)
    drawn = points.means + rng.standard_normal((DRAWS, len(depths))) * widths
    labels = labels_of(drawn, np.log2(np.array(depths, dtype=float) / depths[0]))
    return {label: float((labels == label).mean()) for label in (NONE, *range(len(depths) - 1))}


def _bound(chances: Mapping[int, float], last: int) -> dict[int, float]:
    """The probabilities once the knee is known to be at the depth with index `last` or before it."""
    left = {label: chance for label, chance in chances.items() if 0 <= label <= last}
    total = sum(left.values())
    if total < LEAST_LEFT:
        return {last: 1.0}
    return {label: chance / total for label, chance in left.items()}


def chances_of(depths: tuple[int, ...], cells: Sequence[Sequence[float]]) -> dict[int, float]:
    """{index of the knee's depth, or NONE: its probability}, for any number of repeats; depths rise."""
    labels, chances = library(depths).labels, posterior(depths, cells)
    return {int(label): float(chances[labels == label].sum()) for label in np.unique(labels)}


def _knee_of_chances(depths: Sequence[int], chances: Mapping[int, float], sure: float) -> Knee:
    plausible: list[int] = []
    for label in sorted(chances, key=lambda label: -chances[label]):
        if sum(chances[label] for label in plausible) < PLAUSIBLE:
            plausible.append(label)
    labels = sorted(label for label in plausible if label != NONE)
    low, high = (depths[labels[0]], depths[labels[-1]]) if labels else (None, None)
    best = max((label for label in chances if label != NONE), key=lambda label: chances[label])
    at = depths[best]
    window = sum(p for n, p in chances.items() if n != NONE and at / 2 <= depths[n] <= at * 2)
    decided = window >= sure
    return Knee(
        at if decided and best else None,
        low,
        high,
        flat=decided and not best,
        beyond=NONE in plausible,
    )


# Share of the peak: a smaller fall is not worth mentioning.
FALL = 0.05
SURE_OF_FALL = 0.97
# largest range of the IOPS of a cap (docs/method.md)
FLAT = 0.02
# doublings that a cap lasts for, at least
DOUBLINGS = 2
# Share of the growth in outstanding I/Os by which latency grows too, if all of them wait.
FOLLOWS = 0.9


@dataclass(frozen=True, slots=True)
class Collapse:
    """IOPS fall from the depth `peak` to the last one, by `share` of the peak (medians, 0 to 1)."""

    peak: int
    last: int
    share: float


@dataclass(frozen=True, slots=True)
class Cap:
    """A range of outstanding I/Os, `low` to `high`, with much the same IOPS: more of them only wait longer.

    `within`: the range of their means, as a share; at most 2 %.
    """

    low: int
    high: int
    iops: float
    within: float = 0.0


def collapse(cells: Mapping[int, Sequence[float]]) -> Collapse | None:
    """Find a fall in {outstanding I/Os: IOPS of each repeat}, with three repeats of each; None if no fall is proven."""
    if not usable(cells) or min(map(len, cells.values())) < ENOUGH_REPEATS:
        return None
    depths = tuple(sorted(cells))
    medians = {depth: median_of(cells[depth]) for depth in depths}
    peak, last = max(depths, key=lambda depth: medians[depth]), depths[-1]
    share = 1 - medians[last] / medians[peak]
    if share < FALL:
        return None
    falling = library(depths).falls >= -log(1 - FALL)
    chance = posterior(depths, [cells[depth] for depth in depths])[falling].sum()
    return Collapse(peak, last, share) if chance >= SURE_OF_FALL else None


def cap(
    cells: Mapping[int, Sequence[float]], latencies: Mapping[int, Sequence[float]] | None = None
) -> Cap | None:
    """Find a cap in {outstanding I/Os: IOPS of each repeat}.

    `latencies`: mean total latencies (s) where they are known. A cap reaches the last depth. A curve that is flat from
    the first depth on is a cap, too, or one request at a time.
    """
    if not cells or any(not cell or min(cell) <= 0 for cell in cells.values()):
        return None
    depths = sorted(cells)
    means = robust_means([cells[depth] for depth in depths], ENOUGH_REPEATS).means
    flat = next(at for at in range(len(depths)) if np.ptp(means[at:]) <= log(1 + FLAT))
    low, high = depths[flat], depths[-1]
    if log2(high / low) < DOUBLINGS or not _waits(low, high, latencies or {}):
        return None
    level, span = float(np.exp(means[flat:].mean())), float(np.expm1(np.ptp(means[flat:])))
    return Cap(low, high, level, span)


def _waits(low: int, high: int, latencies: Mapping[int, Sequence[float]]) -> bool:
    """True when latency grows with the depth, or is not known, for it follows from IOPS by Little's law."""
    first, last = latencies.get(low), latencies.get(high)
    if not first or not last:
        return True
    return median_of(last) / median_of(first) >= FOLLOWS * high / low


# A doubling of outstanding I/Os that gains less is past the knee.
KNEE_GAIN = 0.05
# probability that a point does not belong to the curve
OUTLYING = 0.02
OUTLIER_DENSITY = 1 / 1.5
# prior for the noise: as if three runs had shown 4 %
PRIOR_RUNS, PRIOR_NOISE = 3, 0.04
# label of curves that still gain at the last depth
NONE = -1
# Curves at a time: temporary arrays of a MiB and more are new pages each time, which takes twice as long.
BLOCK = 2000

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
    return _posterior(depths, tuple(map(tuple, cells)))


# Knee, misfit and fall of a curve ask for the same one in turn.
@lru_cache(maxsize=4)
def _posterior(depths: tuple[int, ...], cells: tuple[tuple[float, ...], ...]) -> Array:
    shapes = library(depths)
    weights = shapes.prior + _likelihood(robust_means(cells, ENOUGH_REPEATS), shapes.curves)
    weights = np.exp(weights - weights.max())
    return np.asarray(weights / weights.sum())


def _likelihood(cells: Cells, curves: Array) -> Array:
    """ln, of each curve: its height and the noise integrated out, each point an outlier with a small probability."""
    blocks = (curves[at : at + BLOCK] for at in range(0, len(curves), BLOCK))
    return np.concatenate([_likelihood_of_block(cells, block) for block in blocks])


def _likelihood_of_block(cells: Cells, curves: Array) -> Array:
    counts = cells.counts[:, None]
    # A row for each point: sums over few rows are quick.
    rest = np.ascontiguousarray((cells.means - curves).T)
    weighed = rest * counts
    squared = weighed * rest
    firsts, seconds = weighed.sum(axis=0), squared.sum(axis=0)
    count, runs, logs = len(counts), counts.sum(), np.log(counts)
    share = min(OUTLYING, 0.5 / count)
    every = _point_likelihood(cells, count, logs.sum(), runs, firsts, seconds)
    # All points but one: a row for each that is left out.
    others = _point_likelihood(
        cells, count - 1, logs.sum() - logs, runs - counts, firsts - weighed, seconds - squared
    )
    parts = np.vstack([every + log(1 - share * count), others + log(share * OUTLIER_DENSITY)])
    most = parts.max(axis=0)
    return np.asarray(np.log(np.exp(parts - most).sum(axis=0)) + most)


def _point_likelihood(
    cells: Cells, count: int, logs: Array, runs: Array, firsts: Array, seconds: Array
) -> Array:
    """Log likelihood of `count` points alone.

    `logs`: the sum of ln(repeats) of these points, `runs` that of the repeats. `firsts` and `seconds`: weighted sums of
    what a curve leaves of the points, and of its squares.
    """
    q = cells.within + PRIOR_RUNS * PRIOR_NOISE**2
    a = (float((cells.counts - 1).sum()) + PRIOR_RUNS) / 2
    squares = np.maximum(0, seconds - firsts**2 / runs)
    power = a + (count - 1) / 2
    constant = lgamma(power) - lgamma(a) - (count - 1) / 2 * log(2 * pi) + a * log(q / 2)
    return np.asarray(constant + (logs - np.log(runs)) / 2 - power * np.log((q + squares) / 2))
