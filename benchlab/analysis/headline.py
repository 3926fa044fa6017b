# SPDX-License-Identifier: Apache-2.0
"""Three ratios of two sweeps: at saturation, at equal load and at equal latency (docs/analysis.md, 1).

Saturation and equal latency depend on the whole curve, so their intervals come from a parametric bootstrap: many curves
are drawn around the measured means with the noise of their cells, and each statement is computed from every curve.
Equal load is the difference at one depth. Values are rates, above 0; a latency is depth / rate unless it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import exp, inf, log
from zlib import crc32

import numpy as np
from scipy.special import stdtrit

from benchlab.analysis.designs import Design
from benchlab.analysis.differences import Estimates, Luck, compare_pairs, luck_of_builds
from benchlab.analysis.fits import Array, Fit, Mask
from benchlab.analysis.verdicts import Frozen, Sweep, is_above_zero, sweep_logs, visit_numbers

DRAWS = 400
# A plateau holds the depths within 5 % of the highest: less is not worth naming (differences.LEAST).
PLATEAU = log(1.05)
# Share of the draws that may miss a latency before the statement is refused.
MISSES = 0.05
# Share of the draws that must still rise at the deepest point before a plateau is refused. At half of them, noise of
# 5 % and three repeats hide one real plateau in five.
RISES = 0.8
# In simulation, intervals of three repeats cover 90 to 93 % without this factor on their logarithms.
FEW, WIDENED = 3, 1.1
CONFIDENCE = 0.95


class Condition(StrEnum):
    """Condition under which two set-ups are compared by one number."""

    SATURATION = "saturation"
    LOAD = "load"
    LATENCY = "latency"


class Missing(StrEnum):
    """Reason why a statement has no ratio."""

    NOT_MEASURED = "was not measured there"
    STILL_RISING = "still rising at the deepest point"
    STAYS_BELOW = "stays below the latency at the deepest point"
    STARTS_ABOVE = "is above the latency at the lowest depth"
    UNCERTAIN = "crosses the latency too uncertainly"


@dataclass(frozen=True, slots=True)
class Statement:
    """Ratio of the second set-up to the first under one condition.

    `at`: the depth or the latency in seconds; 0 at saturation. `low` to `high`: 95 %, None if the noise is unknown.
    `values`: the rates of both. `ratio` is None if `missing` names the reason, and `culprits` the set-ups concerned.
    """

    condition: Condition
    at: float
    ratio: float | None
    low: float | None
    high: float | None
    values: tuple[float, float] | None
    missing: Missing | None = None
    culprits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of two sweeps at common, rising `depths`; all arrays have the shape (2, depths).

    `means`: ln of the values; `noise`: variance of one run; `freedom`: degrees of freedom of each cell's own runs;
    `counts`: numbers of runs.
    """

    depths: Array
    means: Array
    noise: Array
    freedom: Array
    counts: Array

    @property
    def has_noise(self) -> bool:
        """True if repeats of both set-ups show their noise."""
        return bool((self.freedom.sum(axis=1) > 0).all())

    @property
    def widening(self) -> float:
        return WIDENED if self.counts.min() <= FEW else 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a comparison that a reader may choose.

    `depth`: None for the deepest one of both. `seconds`: the latency; None for that of the first set-up at its knee,
    `knee`, or at the start of its plateau if that is None. `rising`: set-ups whose knee lies deeper than was measured.
    """

    depth: int | None = None
    seconds: float | None = None
    knee: int | None = None
    rising: tuple[int, ...] = ()


# It takes a few ms, and pages ask for the same comparisons again and again.
@lru_cache(maxsize=4096)
def compare_under(
    sweeps: tuple[Frozen, Frozen],
    latencies: tuple[Frozen, Frozen] | None,
    design: Design,
    terms: Terms,
) -> tuple[Statement, ...]:
    """Compare two sweeps of rates at saturation, at equal load and at equal latency; nothing below two common depths.

    `latencies`: measured ones of the same runs; None for the mean latency, depth / rate.
    """
    every = [*sweeps, *(latencies or ())]
    depths = _common_depths(every)
    if len(depths) < 2:
        return ()
    logs, blocks = sweep_logs([_thaw(sweep) for sweep in every], depths)
    visits = visit_numbers(design, blocks)
    fit, points, _ = compare_pairs(logs[:, :2], design, visits)
    cells, luck = _cells(depths, fit), luck_of_builds(fit, design, visits)
    of_latency, shared = None, -1.0
    if latencies is not None:
        of_latency = _cells(depths, compare_pairs(logs[:, 2:], design, visits)[0])
        shared = _correlation(logs[:, :2], logs[:, 2:])
    seconds = terms.seconds or _default_latency(cells, of_latency, terms.knee)
    return (
        at_saturation(cells, luck, terms.rising),
        _at_requested_load(cells, points, terms.depth),
        at_latency(cells, seconds, luck, of_latency, shared),
    )


@lru_cache(maxsize=4096)
def compare_at_loads(
    first: Frozen, second: Frozen, design: Design, terms: Terms
) -> tuple[Statement, ...]:
    """Compare two sweeps of latencies, or of anything else without a plateau, at equal load."""
    depths = _common_depths((first, second))
    if len(depths) < 2:
        return ()
    logs, blocks = sweep_logs((_thaw(first), _thaw(second)), depths)
    fit, points, _ = compare_pairs(logs, design, visit_numbers(design, blocks))
    return (_at_requested_load(_cells(depths, fit), points, terms.depth),)


def _at_requested_load(cells: Cells, points: Estimates, depth: int | None) -> Statement:
    """Return the statement at this depth; None stands for the deepest one."""
    depth = depth or int(cells.depths[-1])
    if depth not in cells.depths:
        return Statement(
            Condition.LOAD, depth, None, None, None, None, Missing.NOT_MEASURED, (0, 1)
        )
    at = int(np.flatnonzero(cells.depths == depth)[0])
    se, df = float(points.se[0, at]), float(points.df[0, at])
    return at_load(cells.depths, depth, cells.means[:, at], cells.counts[:, at], se=se, df=df)


def _thaw(sweep: Frozen) -> Sweep:
    return {depth: dict(cell) for depth, cell in sweep}


def _common_depths(sweeps: Sequence[Frozen]) -> list[int]:
    """Return the depths above 0 where every sweep has values, all of them above 0."""
    usable = [
        {depth for depth, cell in sweep if depth and is_above_zero(dict(cell))} for sweep in sweeps
    ]
    return sorted(set.intersection(*usable))


def _cells(depths: Sequence[int], fit: Fit) -> Cells:
    """Return the cells of the only pair of a fit."""
    counts = fit.counts[0]
    return Cells(np.array(depths, float), fit.means[0], fit.noise[0], fit.own_df[0], counts)


def _correlation(first: Array, second: Array) -> float:
    """Return the correlation of two figures of the same runs around their cells' means; -1 if no cell has repeats."""
    with np.errstate(invalid="ignore"):
        residuals = [logs - np.nanmean(logs, axis=-1, keepdims=True) for logs in (first, second)]
    both = ~np.isnan(residuals[0]) & ~np.isnan(residuals[1])
    x, y = residuals[0][both], residuals[1][both]
    size = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum()) / size if size > 0 else -1.0


def _default_latency(cells: Cells, latencies: Cells | None, knee: int | None) -> float:
    """Return the latency of the first set-up at its knee, but not at the deepest point, which nothing can cross."""
    depths = [int(depth) for depth in cells.depths]
    means = _mean_latency(cells, cells.means) if latencies is None else latencies.means
    depth = knee if knee in depths else plateau_start(cells.depths, cells.means[0])
    return exp(float(means[0, min(depths.index(depth), len(depths) - 2)]))


def at_saturation(cells: Cells, luck: Luck, known_rising: Sequence[int] = ()) -> Statement:
    """Return the ratio of the plateaus, if both set-ups reach theirs.

    `known_rising`: set-ups that do not, by their knee.
    """
    condition = Condition.SATURATION
    plateaus = _plateau(cells.means)
    rising = _is_rising(_draw(cells) if cells.has_noise else cells.means[None])
    seen = (int(index) for index in np.flatnonzero(rising.mean(axis=0) >= RISES))
    culprits = tuple(sorted({*seen, *known_rising}))
    if culprits:
        return Statement(condition, 0, None, None, None, None, Missing.STILL_RISING, culprits)
    drawn = _plateau(_draw(cells)) if cells.has_noise else None
    return _statement(condition, 0, plateaus, drawn, luck, 1.0, cells)


def at_load(
    depths: Array, depth: int, means: Array, counts: Array, *, se: float, df: float
) -> Statement:
    """Return the ratio at one of the `depths`, with an interval that holds for all of them at once (Sidak).

    `means`: ln of both values, `counts`: their runs; `se`, `df`: of their difference, the luck of builds included.
    """
    est = float(means[1] - means[0])
    share = 1 - (1 - CONFIDENCE ** (1 / len(depths))) / 2
    half = float(stdtrit(df, share)) * se if df > 0 and counts.min() >= 2 else inf
    half *= WIDENED if counts.min() <= FEW else 1.0
    bounded = half < inf
    return Statement(
        Condition.LOAD,
        depth,
        exp(est),
        exp(est - half) if bounded else None,
        exp(est + half) if bounded else None,
        (exp(float(means[0])), exp(float(means[1]))),
    )


def at_latency(
    cells: Cells, seconds: float, luck: Luck, latencies: Cells | None = None, shared: float = -1.0
) -> Statement:
    """Return the ratio of the rates at which both set-ups reach this latency.

    `latencies`: measured ones at the same depths; without them they are the mean, depth / rate. `shared`: correlation
    of a run's rate with its latency.
    """
    condition = Condition.LATENCY
    measured = _mean_latency(cells, cells.means) if latencies is None else latencies.means
    rates = _cross(cells.means, measured, log(seconds))
    if missing := _missing(rates, measured, log(seconds)):
        return Statement(condition, seconds, None, None, None, None, *missing)
    if not cells.has_noise or (latencies and not latencies.has_noise):
        return _statement(condition, seconds, rates, None, luck, 1.0, cells)
    drawn = _draw(cells)
    drawn_latencies = _mean_latency(cells, drawn)
    if latencies is not None:
        drawn_latencies = _draw(latencies, cells, shared)
    drawn_rates = _cross(drawn, drawn_latencies, log(seconds))
    misses = np.isnan(drawn_rates).mean(axis=0) > MISSES
    if misses.any():
        culprits = tuple(int(index) for index in np.flatnonzero(misses))
        return Statement(condition, seconds, None, None, None, None, Missing.UNCERTAIN, culprits)
    return _statement(condition, seconds, rates, drawn_rates, luck, cells.widening, cells)


def plateau_start(depths: Array, means: Array) -> int:
    """Return the lowest depth within 5 % of the highest value of one set-up."""
    return int(depths[np.flatnonzero(means >= means.max() - PLATEAU)[0]])


def _statement(
    condition: Condition,
    at: float,
    values: Array,
    drawn: Array | None,
    luck: Luck,
    widening: float,
    cells: Cells,
) -> Statement:
    """Build a statement. `values`: ln of both rates; `drawn`: the same of each draw, (draws, 2)."""
    est = float(values[1] - values[0])
    low = high = None
    if drawn is not None:
        # The middle of the draws is moved onto the estimate: the highest of noisy draws is too high.
        errors = drawn[:, 1] - drawn[:, 0]
        errors = errors - np.nanmedian(errors)
        errors = errors + _draw_luck(cells, luck)
        below, above = np.nanquantile(errors, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        low, high = exp(est + widening * float(below)), exp(est + widening * float(above))
    return Statement(
        condition, at, exp(est), low, high, (exp(float(values[0])), exp(float(values[1])))
    )


def _draw(cells: Cells, partner: Cells | None = None, shared: float = 0.0) -> Array:
    """Draw curves around the means, (draws, 2, depths): ln of the values.

    The noise of each set-up is uncertain as well, by one chi square each. `partner`: other figures of the same runs,
    with which the errors are correlated by `shared`.
    """
    drawn = np.empty((DRAWS, *cells.means.shape))
    for side in (0, 1):
        dice = _generator(partner or cells, side)
        errors = dice.standard_normal((DRAWS, len(cells.depths)))
        if partner is not None:
            own = dice.standard_normal(errors.shape)
            errors = shared * errors + np.sqrt(max(1 - shared**2, 0.0)) * own
        # two degrees at least: below, a chi square has hardly a lower bound
        df = max(float(cells.freedom[side].sum()), 2.0)
        scale = np.sqrt(df / dice.chisquare(df, (DRAWS, 1)))
        error = np.sqrt(cells.noise[side] / cells.counts[side])
        drawn[:, side] = cells.means[side] + errors * error * scale
    return drawn


def _draw_luck(cells: Cells, luck: Luck) -> Array:
    """Draw what the luck of builds adds to ln ratio, (draws,)."""
    dice, df = _generator(cells, 2), float(luck.df[0])
    drawn = dice.standard_t(df, DRAWS) if np.isfinite(df) else dice.standard_normal(DRAWS)
    return np.asarray(np.sqrt(luck.variance[0]) * drawn)


def _generator(cells: Cells, side: int) -> np.random.Generator:
    """Return the generator of one side, or of what both share (2), seeded by the data.

    The sides keep their draws if they change places, so that the ratio of A to B mirrors that of B to A.
    """
    seeds = [crc32(np.ascontiguousarray(means).tobytes()) for means in cells.means]
    if side == 2:
        return np.random.default_rng([*sorted(seeds), side])
    tie = side if seeds[0] == seeds[1] else 0
    return np.random.default_rng([seeds[side], seeds[1 - side], tie])


def _plateau(means: Array) -> Array:
    """Return the mean over the depths within 5 % of the highest, along the last axis."""
    inside = means >= means.max(axis=-1, keepdims=True) - PLATEAU
    return np.asarray(np.where(inside, means, 0).sum(axis=-1) / inside.sum(axis=-1))


def _is_rising(means: Array) -> Mask:
    """True where the deepest point alone is within 5 % of the highest."""
    if means.shape[-1] < 2:
        return np.ones(means.shape[:-1], bool)
    return np.asarray(means[..., -1] > means[..., :-1].max(axis=-1) + PLATEAU)


def _mean_latency(cells: Cells, means: Array) -> Array:
    """Return ln of the mean latency by Little's law."""
    return np.asarray(np.log(cells.depths) - means)


def _cross(means: Array, latencies: Array, level: float) -> Array:
    """Return ln of the rate at the last depth where the latency rises past `level`, NaN where it never does.

    Both are straight between depths in their logarithms. The arrays have the shape (…, depths).
    """
    rates = np.full(means.shape[:-1], np.nan)
    for at in range(means.shape[-1] - 1):
        before, after = latencies[..., at], latencies[..., at + 1]
        crosses = (before <= level) & (after > level)
        share = (level - before) / np.where(crosses, after - before, 1.0)
        rate = means[..., at] + share * (means[..., at + 1] - means[..., at])
        rates = np.where(crosses, rate, rates)
    return rates


def _missing(
    rates: Array, latencies: Array, level: float
) -> tuple[Missing, tuple[int, ...]] | None:
    """Return the reason why the measured curves do not reach the latency, and whose; None if both do."""
    for side in np.flatnonzero(np.isnan(rates)):
        above = latencies[side, 0] > level
        return (Missing.STARTS_ABOVE if above else Missing.STAYS_BELOW), (int(side),)
    return None
