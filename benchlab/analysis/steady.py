# SPDX-License-Identifier: Apache-2.0
"""Steady, or not: the course of one rate over the measured window of a run.

A step, a line and a cubic are fitted to the logarithms of the rate. Their tests take the correlation of neighbours at
an upper value, because a short series shows it too small. Standstills and two levels in turn are counted.
docs/analysis.md (4) has the rates of false alarms and of changes found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from math import exp, log, sqrt
from typing import Any, Self

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# All constants are of the simulations in docs/analysis.md (4).
# least number of intervals that are judged
FEWEST = 20
# least intervals on each side of a step, and their least share
FEWEST_BESIDE, SHARE_BESIDE = 3, 1 / 20
# p below which a change is proven
PROVEN = 1e-4
# (least change as a ratio, standard errors by which neighbours are taken to be more alike): a large change needs less
TIERS = ((1.10, 3.0), (1.8, 1.0))
MAX_CORRELATION = 0.985
# Correlations are summed up to so many times their sum (Sokal), and take this share of the standard errors.
WINDOW, TIME_ERRORS = 5, 0.67
# Residuals are clipped at so many robust standard deviations.
CLIP = 3.0
# standard deviation of normal noise, in median absolute deviations
NORMAL = 1.4826
# Rates below this share of the median count as it, so that their logarithm is finite.
FLOOR = 0.02
# share of the median below which the run stands still
STANDSTILL = 0.2
# (least spells, least share of the time) of standstill
STALLS = ((3, 0.01), (2, 0.03))
# least gap of two levels as a ratio and in standard deviations, least share of the time at each
APART, SHARP, LEAST_AT = 1.2, 5.0, 0.15
# least number of spells at two levels, and s of the median spell at each
SPELLS, SPELL_S = 4, 4.0
# Levels alternate regularly if the whole spells at each differ by no more (sd over mean), and are so many at least.
REGULAR, REGULAR_SPELLS = 0.25, 4
# largest change within the last third that stands for the run: SNIA SSS PTS 2.0.2, slope of the best fit
MAX_SLOPE = 0.10
# A change of 10 % that a test with a power of 95 % at p = 1e-4 may miss: standard errors of the difference of halves.
MISSED = 2 * 3.3


class State(StrEnum):
    STEADY = "steady"
    STEP = "step"
    TREND = "trend"
    DECAY = "decay"
    STALLS = "stalls"
    LEVELS = "levels"
    CYCLES = "cycles"
    TOO_SHORT = "too short to tell"
    NO_SERIES = "no series"


# Words beside a figure whose run was not steady.
MARKS = {
    State.STEP: "not steady: step",
    State.TREND: "not steady: trend",
    State.DECAY: "not steady: decay",
    State.STALLS: "stalls",
    State.LEVELS: "two levels",
    State.CYCLES: "two levels in turn",
}
# The mean is of no state that lasts: the last third stands beside it.
DRIFTING = frozenset({State.STEP, State.TREND, State.DECAY})
# The mean is what a user gets, of a rate that is not one.
UNEVEN = frozenset({State.STALLS, State.LEVELS, State.CYCLES})
UNSTEADY = DRIFTING | UNEVEN


@dataclass(frozen=True, slots=True)
class Course:
    """Course of a rate over a run. Rates are in `unit`; an amount that the state does not have is 0."""

    state: State
    # "op/s", "B/s", or "s" of a latency
    unit: str = ""
    # s that were judged
    duration_s: float = 0.0
    mean: float = 0.0
    # s from the start to the step
    edge_s: float = 0.0
    # mean before and after the step, or the higher and the lower level
    first: float = 0.0
    second: float = 0.0
    # change from the first tenth to the last one by the fitted line or curve, as a share of the first
    change: float = 0.0
    # share of the time at standstill, or at the lower level
    share: float = 0.0
    # spells of standstill, or at either level
    spells: int = 0
    # s of one cycle
    period_s: float = 0.0
    # mean of the last third of the time, and its change from end to end by a line, as a share of that mean
    last_third: float = 0.0
    last_slope: float = 0.0

    @property
    def mark(self) -> str:
        """Words beside its figures; "" if they need none."""
        return MARKS.get(self.state, "")

    @property
    def comparable_share(self) -> float | None:
        """Mean of the last third over that of all, for a drifting rate that has come to rest by then; else None."""
        is_over = self.edge_s <= self.duration_s * 2 / 3
        if self.state not in DRIFTING or not is_over or abs(self.last_slope) > MAX_SLOPE:
            return None
        return self.last_third / self.mean if self.last_third and self.mean else None

    def to_json(self) -> dict[str, Any]:
        """Fields that are not 0, by name; `from_json` restores them."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The course that was stored, NO_SERIES without one; a field of another version is ignored."""
        known = {field.name for field in fields(cls)} & data.keys()
        stored = {name: data[name] for name in known}
        return cls(**stored | {"state": State(data.get("state", State.NO_SERIES))})


def judge(values: Array, spans: Array, unit: str = "") -> Course:
    """Judge a rate. `values`: one for each interval, in order; `spans`: s of each interval."""
    if not values.size or not (values > 0).any():
        return Course(State.NO_SERIES)
    whole = _means(values, spans, unit)
    if values.size < FEWEST:
        return replace(whole, state=State.TOO_SHORT)
    typical = float(np.median(values)) or float(np.median(values[values > 0]))
    logs = np.log(np.maximum(values, FLOOR * typical))
    drift, is_blind = _find_drift(logs)
    stalls = _find_stalls(values < STANDSTILL * typical, spans)
    if stalls and not (drift and drift.state is State.STEP and _fell_low(logs, drift.at, typical)):
        return replace(whole, state=State.STALLS, **stalls)
    if levels := _find_levels(logs, values, spans):
        return replace(whole, state=State.CYCLES if levels["period_s"] else State.LEVELS, **levels)
    if drift is None:
        return replace(whole, state=State.TOO_SHORT if is_blind else State.STEADY)
    if drift.state is not State.STEP:
        return replace(whole, state=drift.state, change=drift.change)
    at = drift.at
    return replace(
        whole,
        state=State.STEP,
        edge_s=float(spans[:at].sum()),
        first=_mean(values[:at], spans[:at]),
        second=_mean(values[at:], spans[at:]),
    )


def _mean(values: Array, spans: Array) -> float:
    return float(np.average(values, weights=spans))


def _means(values: Array, spans: Array, unit: str) -> Course:
    """A course with no more than the means of all and of the last third."""
    duration, ends = float(spans.sum()), np.cumsum(spans)
    last = ends - spans / 2 >= duration * 2 / 3
    # A long last interval may lie across the edge.
    last[-1] = True
    mean, change = _mean(values[last], spans[last]), 0.0
    if mean and last.sum() > 1:
        slope = float(np.polyfit(ends[last], values[last], 1)[0])
        change = slope * float(spans[last].sum()) / mean
    return Course(
        State.STEADY,
        unit,
        duration,
        _mean(values, spans),
        last_third=mean,
        last_slope=change,
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """A model of the course. `parameters`: their number; `explained`: its sum of squares; `size`: ln of its change.

    `noise`: residuals that tell how alike neighbours are, of `noise_parameters`. Those of a step have a line taken out,
    for a drift on either side is no noise.
    """

    state: State
    residuals: Array
    noise: Array
    noise_parameters: int
    parameters: int
    explained: float
    size: float
    # of the step: its index
    at: int = 0

    @property
    def change(self) -> float:
        return exp(self.size) - 1

    @property
    def misfit(self) -> float:
        """Sum of clipped squares for each degree of freedom: a step costs three, with its place."""
        size = self.residuals.size
        used = self.parameters + (self.state is State.STEP)
        return float((np.clip(self.residuals, -1, 1) ** 2).sum()) * size / (size - used)


def _find_drift(logs: Array) -> tuple[_Fit | None, bool]:
    """(the proven change that fits best, None without one; whether a change of 10 % could hide in the noise)."""
    line = _fit_curve(logs, State.TREND, 1)
    fits = [_fit_step(logs), line, _fit_curve(logs, State.DECAY, 3)]
    proven = [fit for fit in fits if _is_proven(fit)]
    variance, _ = _long_run_noise(line, TIERS[0][1])
    is_blind = MISSED * sqrt(variance / logs.size) > TIERS[0][0] - 1
    return min(proven, key=lambda fit: fit.misfit, default=None), is_blind


def _fit_step(logs: Array) -> _Fit:
    size, least = logs.size, _least_beside(logs.size)
    sums = np.cumsum(logs - logs.mean())[:-1]
    index = np.arange(1, size)
    between = np.where(
        (index >= least) & (index <= size - least), sums**2 * size / (index * (size - index)), -1
    )
    at = int(np.argmax(between)) + 1
    first, second = logs[:at], logs[at:]
    residuals = np.concatenate((first - first.mean(), second - second.mean()))
    is_after = (np.arange(size) >= at).astype(np.float64)
    basis: Array = np.stack((np.ones(size), np.linspace(-1, 1, size), is_after), axis=1)
    noise = logs - basis @ np.linalg.lstsq(basis, logs, rcond=None)[0]
    gap = float(np.median(second) - np.median(first))
    return _Fit(State.STEP, residuals, noise, 3, 2, float(between[at - 1]), gap, at)


def _least_beside(size: int) -> int:
    return max(FEWEST_BESIDE, int(size * SHARE_BESIDE))


def _fit_curve(logs: Array, state: State, degree: int) -> _Fit:
    time = np.linspace(-1, 1, logs.size)
    basis = legendre.legvander(time, degree)
    curve = basis @ np.linalg.lstsq(basis, logs, rcond=None)[0]
    tenth = max(1, logs.size // 10)
    size = float(curve[-tenth:].mean() - curve[:tenth].mean())
    explained = float(((curve - curve.mean()) ** 2).sum())
    residuals = logs - curve
    return _Fit(state, residuals, residuals, degree + 1, degree + 1, explained, size)


def _is_proven(fit: _Fit) -> bool:
    return any(
        abs(fit.size) >= log(least) and _p_value(fit, errors) < PROVEN for least, errors in TIERS
    )


def _p_value(fit: _Fit, errors: float) -> float:
    """p of a fit by F; of a step by t, times the number of places that it could have had."""
    variance, freedom = _long_run_noise(fit, errors)
    if fit.state is State.STEP:
        size = fit.residuals.size
        t = sqrt(fit.explained / variance)
        return float(2 * stdtr(freedom, -t)) * max(5.0, size / (2 * _least_beside(size)))
    degree = fit.parameters - 1
    return float(fdtrc(degree, freedom, fit.explained / degree / variance))


def _long_run_noise(fit: _Fit, errors: float) -> tuple[float, float]:
    """(variance of an interval as it counts in a mean, degrees of freedom).

    Neighbours that are alike make it larger by (1 + rho) / (1 - rho), or by their integrated autocorrelation time where
    that is longer. rho: lag-1 correlation of the clipped residuals, corrected for its bias in a short series, plus so
    many standard errors.
    """
    residuals, used = fit.noise, fit.noise_parameters
    size = residuals.size
    noise = NORMAL * float(np.median(np.abs(residuals - np.median(residuals)))) + 1e-4
    clipped = np.clip(residuals, -CLIP * noise, CLIP * noise)
    clipped = clipped - clipped.mean()
    squares = float((clipped**2).sum()) or 1e-12
    rho = float((clipped[1:] * clipped[:-1]).sum()) / squares
    rho += (used + (1 + used) * rho) / size
    rho += errors * sqrt(max(1 - rho * rho, 1e-4) / size)
    rho = min(max(rho, 0.0), MAX_CORRELATION)
    wider = max((1 + rho) / (1 - rho), _widened(clipped, errors))
    return squares / max(size - used, 1) * wider, max(size / wider - used, 1.5)


def _widened(residuals: Array, errors: float) -> float:
    """Factor by which similar neighbours widen the variance of a mean: the integrated autocorrelation time.

    Slow wandering below fast noise hardly shows at lag 1. Summed up to WINDOW times itself, each term corrected for its
    bias in short series, plus so many standard errors (Madras and Sokal, 1988).
    """
    correlations = _correlations(residuals)
    times = np.maximum(1, 1 + 2 * np.cumsum(correlations + 1 / residuals.size))
    within = np.arange(1, times.size + 1) < WINDOW * times
    stop = int(np.argmin(within)) if not within.all() else times.size - 1
    time = float(times[stop])
    return time * (1 + TIME_ERRORS * errors * sqrt(2 * (2 * stop + 3) / residuals.size))


def _correlations(values: Array) -> Array:
    """Autocorrelations at lags 1 to half of the series; all 0 if the series does not change."""
    spectrum = np.fft.rfft(values, 2 * values.size)
    powers = np.fft.irfft(spectrum * np.conj(spectrum))[: values.size // 2 + 1]
    correlations: Array = powers[1:] / powers[0] if powers[0] > 0 else np.zeros(values.size // 2)
    return correlations


def _find_stalls(still: Flags, spans: Array) -> dict[str, Any]:
    """{"share", "spells"} of the time at standstill; empty if it is too little to name."""
    spells = int((still & ~np.concatenate(([False], still[:-1]))).sum())
    share = float(spans[still].sum() / spans.sum())
    if any(spells >= least and share >= least_share for least, least_share in STALLS):
        return {"share": share, "spells": spells}
    return {}


def _fell_low(logs: Array, at: int, typical: float) -> bool:
    """True when one side of a step is so low that its noise alone crosses the mark of a standstill."""
    lower = min(float(np.median(logs[:at])), float(np.median(logs[at:])))
    return lower < log(2 * STANDSTILL * typical)


def _find_levels(logs: Array, values: Array, spans: Array) -> dict[str, Any]:
    """{"first", "second", "share", "spells", "period_s"} of two levels in turn; empty without them."""
    before, after = np.r_[logs[:1], logs[:-1]], np.r_[logs[1:], logs[-1:]]
    smooth = np.median(np.stack((before, logs, after)), axis=0)
    is_high = smooth > float(np.percentile(smooth, [10, 90]).mean())
    at_high, at_low = smooth[is_high], smooth[~is_high]
    least = LEAST_AT * logs.size
    if at_high.size <= least or at_low.size <= least:
        return {}
    gap = float(np.median(at_high) - np.median(at_low))
    squares = float(at_high.var()) * at_high.size + float(at_low.var()) * at_low.size
    if gap < log(APART) or gap < SHARP * (sqrt(squares / logs.size) + 0.002):
        return {}
    starts = np.concatenate(([0], np.flatnonzero(np.diff(is_high)) + 1))
    lengths, high = np.add.reduceat(spans, starts), is_high[starts]
    if lengths.size < SPELLS or min(map(np.median, (lengths[high], lengths[~high]))) < SPELL_S:
        return {}
    return {
        "first": _mean(values[is_high], spans[is_high]),
        "second": _mean(values[~is_high], spans[~is_high]),
        "share": float(spans[~is_high].sum() / spans.sum()),
        "spells": int(lengths.size),
        "period_s": _period(lengths[1:-1], high[1:-1]),
    }


def _period(lengths: Array, high: Flags) -> float:
    """s of one cycle, by the whole spells; 0.0 if they are not regular."""
    if lengths.size < REGULAR_SPELLS:
        return 0.0
    sides = (lengths[high], lengths[~high])
    if any(float(side.std()) > REGULAR * float(side.mean()) for side in sides):
        return 0.0
    return sum(float(side.mean()) for side in sides)
