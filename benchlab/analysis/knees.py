"""The knee of a response curve with its uncertainty: a posterior over a library of shapes (ANALYSIS.md, section 2).

The knee is the smallest measured depth from which every further doubling gains less than 5 % on the curve without its
noise. Asked of noisy points that question is answered by luck, so each of some ten thousand noise-free curves says
where its knee is, and the measured points say how likely each curve is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.curves import ENOUGH_REPEATS
from benchlab.analysis.repeats import Cells, robust

KNEE_GAIN = 0.05  # a doubling of outstanding I/Os that gains less is past the knee
ENOUGH_DEPTHS = 4  # with fewer a corner cannot be told from a bend
SURE = 0.90  # of the depths around the knee; "none" and "flat" need it alone
PLAUSIBLE = 0.95  # what "between a and b" holds
OUTLYING = 0.02  # probability that a point is none of the curve's
OUTLIER_DENSITY = 1 / 1.5
PRIOR_RUNS, PRIOR_NOISE = (
    3,
    0.04,
)  # before anything is measured: as if three runs had shown a noise of 4 %
NONE = -1  # the label of curves that still gain at the last depth

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Knee:
    """`at`: its depth, None when it is uncertain or there is none. `low` to `high`: where it is in 95 % of cases.

    `flat`: nothing is gained from the first depth on, which is no corner, so `at` is None. `beyond`: it may lie deeper
    than anything that was measured; with no `low` it does.
    """

    at: int | None
    low: int | None
    high: int | None
    flat: bool = False
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class _Library:
    curves: Array  # ln IOPS, a row per curve, a column per depth
    labels: NDArray[np.int64]  # index of the knee, or NONE
    prior: Array  # ln: equal for each label that occurs, even within it


def knee(cells: Mapping[int, Sequence[float]]) -> Knee | None:
    """Of {outstanding I/Os: IOPS of each repeat}; None with less than 4 depths and 3 repeats of each."""
    if len(cells) < ENOUGH_DEPTHS or min(map(len, cells.values())) < ENOUGH_REPEATS:
        return None
    if min(map(min, cells.values())) <= 0:
        return None
    depths = tuple(sorted(cells))
    return _knee(depths, tuple(tuple(cells[depth]) for depth in depths))


@lru_cache(maxsize=512)  # some ms each, and a live page asks every few seconds
def _knee(depths: tuple[int, ...], cells: tuple[tuple[float, ...], ...]) -> Knee:
    found = _answer(depths, chances_of(depths, cells))
    if found.at is None:
        return found
    # Repeats at the knee as low as those at the first depth: what rose up to it is not to be seen.
    lost = min(cells[depths.index(found.at)]) <= max(cells[0])
    return replace(found, at=None) if lost else found


def chances_of(depths: tuple[int, ...], cells: Sequence[Sequence[float]]) -> dict[int, float]:
    """{index of the knee's depth, or NONE: its probability}. Of any number of repeats; depths rise."""
    library = _library(depths)
    weights = library.prior + _likelihood(robust(cells, ENOUGH_REPEATS), library.curves)
    weights = np.exp(weights - weights.max())
    return {
        int(label): float(weights[library.labels == label].sum() / weights.sum())
        for label in np.unique(library.labels)
    }


def _answer(depths: Sequence[int], chances: Mapping[int, float]) -> Knee:
    plausible: list[int] = []
    for label in sorted(chances, key=lambda label: -chances[label]):
        if sum(chances[one] for one in plausible) < PLAUSIBLE:
            plausible.append(label)
    known = sorted(label for label in plausible if label != NONE)
    low, high = (depths[known[0]], depths[known[-1]]) if known else (None, None)
    best = max((label for label in chances if label != NONE), key=lambda label: chances[label])
    at = depths[best]
    window = sum(p for n, p in chances.items() if n != NONE and at / 2 <= depths[n] <= at * 2)
    sure = window >= SURE
    return Knee(
        at if sure and best else None, low, high, flat=sure and not best, beyond=NONE in plausible
    )


@lru_cache(maxsize=16)
def _library(depths: tuple[int, ...]) -> _Library:
    x = np.log2(np.array(depths, dtype=float) / depths[0])
    shapes = [
        shape
        for corner in np.arange(-2, x[-1] + 2 + 1e-9, 0.125)
        for soft in (1.5, 2.0, 3.0, 4.0, 8.0, inf)
        for slope in (1.0, 0.85, 0.7, 0.5)
        for shape in _shapes(x - corner, soft, slope)
    ]
    curves = np.array(shapes)
    labels = _labels(curves, x)
    counts = {label: int((labels == label).sum()) for label in np.unique(labels)}
    prior = -np.log(np.array([counts[label] * len(counts) for label in labels], dtype=float))
    return _Library(curves, labels, prior)


def _shapes(x: Array, soft: float, slope: float) -> list[Array]:
    """By what each doubling beyond the corner brings; x in doublings from the corner."""
    u = x * log(2)
    rise = slope * np.minimum(0, u) if soft == inf else -slope / soft * np.logaddexp(0, -soft * u)
    return [rise + beyond * np.maximum(0, x) for beyond in (0.0, 0.02, -0.03, -0.08, -0.2)]


def _labels(curves: Array, x: Array) -> NDArray[np.int64]:
    """The first depth behind which every step gains less than KNEE_GAIN a doubling; NONE if that is the last."""
    small = np.diff(curves, axis=1) / np.diff(x) < log(1 + KNEE_GAIN)
    after = np.flip(np.logical_and.accumulate(np.flip(small, axis=1), axis=1), axis=1)
    return np.where(after.any(axis=1), after.argmax(axis=1), NONE)


def _likelihood(cells: Cells, curves: Array) -> Array:
    """ln, of each curve: its height and the noise integrated out, each point an outlier with a small probability."""
    every = np.arange(len(cells.means))
    one = min(OUTLYING, 0.5 / len(every))
    found = log(1 - one * len(every)) + _plain(cells, curves, every)
    for left in every:
        without = _plain(cells, curves, np.delete(every, left))
        found = np.logaddexp(found, log(one * OUTLIER_DENSITY) + without)
    return np.asarray(found)


def _plain(cells: Cells, curves: Array, points: NDArray[np.int64]) -> Array:
    counts, count = cells.counts[points], len(points)
    q = cells.within + PRIOR_RUNS * PRIOR_NOISE**2
    a = (float((cells.counts - 1).sum()) + PRIOR_RUNS) / 2
    rest = cells.means[points] - curves[:, points]
    middle = (rest * counts).sum(axis=1) / counts.sum()
    squares = (counts * (rest - middle[:, None]) ** 2).sum(axis=1)
    power = a + (count - 1) / 2
    constant = lgamma(power) - lgamma(a) - (count - 1) / 2 * log(2 * pi) + a * log(q / 2)
    constant += (np.log(counts).sum() - log(counts.sum())) / 2
    return np.asarray(constant - power * np.log((q + squares) / 2))
