# SPDX-License-Identifier: Apache-2.0
"""Repeats of one point: their mean, if they disagree, and how many more are needed (docs/analysis.md, 1 and 3).

A cell is the repeats of one point. One that is far off does not move the mean. All is done on logarithms, so that
ratios count and not differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchlab.analysis.designs import MAX_REPEATS, RunNoise
from benchlab.analysis.differences import LEAST, TWO_SIDED
from benchlab.analysis.fits import LEAST_NOISE

Array = NDArray[np.float64]

# Repeats that differ this much are always reported.
ALWAYS = log(2)
# Repeats that differ less are never reported.
LEAST_APART = log(1.10)
# Studentised range, 0.999, by degrees of freedom (a row each, from 1) and number of repeats (scipy is slow to load).
REPEATS = (2, 3, 4, 5, 6, 8, 10, 20, 50)
# For at most ten degrees of freedom, as points differ in their noise.
QUANTILES = (
    (900.3, 1350, 1643, 1856, 2022, 2272, 2455, 2980, 3589),
    (44.69, 60.42, 70.77, 78.43, 84.48, 93.66, 100.5, 120.3, 143.7),
    (18.28, 23.31, 26.64, 29.13, 31.10, 34.12, 36.39, 43.04, 51.02),
    (12.18, 14.98, 16.84, 18.23, 19.34, 21.04, 22.33, 26.14, 30.77),
    (9.714, 11.67, 12.96, 13.93, 14.70, 15.90, 16.80, 19.50, 22.82),
    (8.427, 9.960, 10.97, 11.72, 12.32, 13.26, 13.96, 16.09, 18.72),
    (7.648, 8.930, 9.768, 10.40, 10.90, 11.67, 12.27, 14.04, 16.26),
    (7.129, 8.250, 8.977, 9.522, 9.958, 10.63, 11.15, 12.69, 14.64),
    (6.761, 7.768, 8.419, 8.906, 9.295, 9.896, 10.35, 11.74, 13.48),
    (6.487, 7.411, 8.006, 8.449, 8.804, 9.352, 9.769, 11.03, 12.63),
)
# robust means: Huber's pseudo-values
CLIP, ROUNDS = 2.5, 12


def disagreement_ratios(cells: Sequence[Sequence[float]]) -> list[float | None]:
    """Ratio of the largest to the smallest repeat of each cell that differ more than the other cells let expect.

    A twofold difference is always reported, one below 10 % never. None if the repeats agree, or there is only one.
    """
    spreads = [_log_range(cell) for cell in cells]
    sums = [_squares(cell) for cell in cells]
    return [
        _ratio_of_range(spread)
        if _differ(spread, len(cell), sums[:index] + sums[index + 1 :])
        else None
        for index, (cell, spread) in enumerate(zip(cells, spreads, strict=True))
    ]


def _log_range(cell: Sequence[float]) -> float:
    """Range in logarithms; infinite if nothing was done in one repeat and something in another."""
    if len(cell) < 2 or min(cell) == max(cell):
        return 0.0
    return log(max(cell) / min(cell)) if min(cell) > 0 else inf


def _ratio_of_range(spread: float) -> float:
    return float(np.exp(spread))


def _squares(cell: Sequence[float]) -> tuple[float, int]:
    """(sum of squares within, degrees of freedom); zeros for values without a logarithm."""
    if len(cell) < 2 or min(cell) <= 0:
        return 0.0, 0
    logs = np.log(cell)
    return float(((logs - logs.mean()) ** 2).sum()), len(cell) - 1


def _differ(spread: float, repeats: int, others: Sequence[tuple[float, int]]) -> bool:
    if spread >= ALWAYS or spread < LEAST_APART:
        return spread >= ALWAYS
    freedom = sum(df for _, df in others)
    if not freedom:
        return False
    noise = sqrt(sum(squares for squares, _ in others) / freedom)
    return spread > range_quantile(repeats, freedom) * noise


def range_quantile(repeats: int, freedom: int) -> float:
    """Quantile of the studentised range; beyond the table, that of its largest number of repeats."""
    column = next((n for n, most in enumerate(REPEATS) if most >= repeats), len(REPEATS) - 1)
    return QUANTILES[min(freedom, len(QUANTILES)) - 1][column]


@dataclass(frozen=True, slots=True)
class Cells:
    """`means` of the logarithms, a depth each; `within`: sum of squares within them; `counts`: repeats."""

    means: Array
    within: float
    counts: Array


def robust_means(cells: Sequence[Sequence[float]], enough: int) -> Cells:
    """Means that one bad repeat does not draw away, where each cell has `enough` of them; else plain means.

    Values are above 0, every cell has at least one.
    """
    counts = np.array([len(cell) for cell in cells], dtype=float)
    logs = _log_matrix(cells)
    known = ~np.isnan(logs)
    if min(counts) < enough:
        means = np.where(known, logs, 0).sum(axis=1) / counts
        squares = np.where(known, (logs - means[:, None]) ** 2, 0).sum(axis=1)
        return Cells(means, float(sum(squares)), counts)
    means = _medians(logs, counts)
    limit = CLIP * robust_scale((logs - means[:, None])[known], len(cells))
    for _ in range(ROUNDS):
        moves = np.clip(logs - means[:, None], -limit, limit)
        means = means + np.where(known, moves, 0).sum(axis=1) / counts
    rest = (logs - means[:, None])[known]
    clipped = float(np.mean(np.abs(rest) > limit))
    within = float((np.clip(rest, -limit, limit) ** 2).sum()) / (1 - clipped) ** 2
    return Cells(means, within, counts)


def _log_matrix(cells: Sequence[Sequence[float]]) -> Array:
    """Logarithms, a row each, NaN behind the last repeat of a cell with fewer than the largest."""
    matrix = np.full((len(cells), max(map(len, cells))), np.nan)
    for row, cell in zip(matrix, cells, strict=True):
        row[: len(cell)] = cell
    return np.asarray(np.log(matrix))


def _medians(matrix: Array, counts: Array) -> Array:
    """Median of each row, of so many known values."""
    # NaN sorts last.
    ordered, rows = np.sort(matrix, axis=1), np.arange(len(matrix))
    numbers = counts.astype(int)
    return np.asarray((ordered[rows, (numbers - 1) // 2] + ordered[rows, numbers // 2]) / 2)


def robust_scale(rest: Array, fitted: int = 0) -> float:
    """1.4826 x median of the residuals' sizes, without as many of the smallest as there are means."""
    sizes = np.abs(rest)
    return 1.4826 * float(np.median(np.sort(sizes)[fitted:] if fitted else sizes))


# Quantile of the normal distribution: 80 % of such comparisons are decided.
POWER = 0.84
# number of repeats while the noise is unknown
FIRST = 3
# repeats of which one may be left out
ENOUGH_ROBUST = 3
# repeats among which an odd one can be recognized
OUTVOTES = 5


def repeats_for_mean(cells: Sequence[Sequence[float]], within: float) -> int | None:
    """Repeats of each point, in all, for a 95 % interval of +-`within` (0.05: 5 %); None above 30.

    `cells`: the repeats of each point of a sweep, above 0; they share one noise. FIRST while the noise is unknown.
    """
    logs = [np.log(np.asarray(cell, dtype=float)) for cell in cells]
    df = sum(len(log) - 1 for log in logs)
    if df < 1:
        return FIRST
    noise = sqrt(sum(float(((log - log.mean()) ** 2).sum()) for log in logs) / df)
    return _reasonable(max(_repeats_for_noise(noise, df, within), *(len(log) for log in logs)))


def repeats_to_agree(cells: Sequence[Sequence[float]], within: float) -> int | None:
    """Repeats of each point, in all, that give it a robust mean within +-`within` (95 %), also where one is far off.

    As `repeats_for_mean`, but the noise leaves out what robust means leave out. At least OUTVOTES, and no more than
    that if there are too few repeats to distinguish an odd one from noise. A cell with a value of 0 adds nothing to the
    noise. None above 30.
    """
    least = max(OUTVOTES, *map(len, cells))
    positive = [cell for cell in cells if min(cell) > 0]
    freedom = sum(len(cell) - 1 for cell in positive)
    if freedom < 1 or min(map(len, cells)) < ENOUGH_ROBUST:
        return _reasonable(least)
    noise = sqrt(robust_means(positive, ENOUGH_ROBUST).within / freedom)
    return _reasonable(max(_repeats_for_noise(noise, freedom, within), least))


def _repeats_for_noise(noise: float, freedom: int, within: float) -> int:
    return ceil((float(stdtrit(freedom, TWO_SIDED)) * noise / log(1 + within)) ** 2)


def repeats_to_decide(est: float, se: float, df: float, repeats: int, tau: float) -> int | None:
    """Repeats of each set-up, in all, that show a difference as large as seen, or of 5 %, in 80 % of cases.

    `est`, `se`: of ln ratio; `tau` in it is the part that no repeat reduces. None: more than 30, or no number at all.
    """
    if df <= 0 or repeats < 2 or se == inf:
        return max(FIRST, repeats + 1)
    effect = max(abs(est), LEAST)
    allowed = (effect / (float(stdtrit(df, TWO_SIDED)) + POWER)) ** 2 - tau**2
    if allowed <= 0:
        return None
    needed = repeats * max(se**2 - tau**2, 0) / allowed
    return _reasonable(max(ceil(needed), repeats + 1))


# Worst noise that is known of public repeats. The benchmark data of fio-plot has a disk measured twice within two hours
# (0.41 a run) and an SSD thrice (up to 0.41 a sweep). They are few, so the constants are a judgement.
WORST = RunNoise(run=0.40, sweep=0.35, df=4.0)
# A lab's own noise is taken from at least so many sweeps and degrees of freedom. It is that of its noisier sweeps, and
# somewhat more, for the next set-up may be another thing.
ENOUGH_SWEEPS, ENOUGH_FREEDOM, NOISIER, MORE = 5, 10, 0.9, 1.25
# Set-ups that these sweeps must be of. From a quiet one alone, one run each of equals with noise of 10 % was decided in
# 37 % of 2,000 pairs. The number is a judgement.
ENOUGH_SET_UPS = 3


def single_run_error(depths: int, noise: RunNoise, tau: float) -> tuple[float, float]:
    """(standard error of ln ratio, degrees of freedom) of two set-ups with one repeat each, of `noise` and builds."""
    return sqrt(2 * (noise.run**2 / depths + noise.sweep**2) + tau**2), noise.df


def noise_of_set_ups(
    set_ups: Iterable[Iterable[Mapping[int, Mapping[int, float]]]],
) -> RunNoise | None:
    """Noise of the noisier sweeps of these set-ups, {depth: {repeat: value above 0}}; None if they show too little."""
    of_each = [
        [noise for noise in map(_noise_of_sweep, sweeps) if noise is not None] for sweeps in set_ups
    ]
    found = [noise for noises in of_each for noise in noises]
    df = sum(noise.df for noise in found)
    if sum(map(bool, of_each)) < ENOUGH_SET_UPS:
        return None
    if len(found) < ENOUGH_SWEEPS or df < ENOUGH_FREEDOM:
        return None
    run, sweep = (
        MORE * float(np.quantile([getattr(one, name) for one in found], NOISIER, method="higher"))
        for name in ("run", "sweep")
    )
    return RunNoise(max(run, MORE * LEAST_NOISE), sweep, df)


def _noise_of_sweep(sweep: Mapping[int, Mapping[int, float]]) -> RunNoise | None:
    """None without repeats. A single depth does not show what a repeat shares: all is the runs'."""
    cells = [
        {n: log(value) for n, value in cell.items()} for cell in sweep.values() if len(cell) > 1
    ]
    df = sum(len(cell) - 1 for cell in cells)
    if not df:
        return None
    rest: dict[int, list[float]] = {}
    for cell in cells:
        middle = sum(cell.values()) / len(cell)
        for repeat, value in cell.items():
            rest.setdefault(repeat, []).append(value - middle)
    shared = {repeat: sum(some) / len(some) for repeat, some in rest.items()}
    free = max(len(shared) - 1, 1)
    if len(cells) == 1 or df <= free:
        return RunNoise(sqrt(sum(x**2 for some in rest.values() for x in some) / df), 0.0, df)
    own = sum((x - shared[repeat]) ** 2 for repeat, some in rest.items() for x in some) / (
        df - free
    )
    between = sum(x**2 for x in shared.values()) / free
    return RunNoise(sqrt(own), sqrt(max(between - own / len(cells), 0.0)), df)


def _reasonable(repeats: int) -> int | None:
    return repeats if repeats <= MAX_REPEATS else None
