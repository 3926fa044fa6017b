# SPDX-License-Identifier: Apache-2.0
"""The plain mean of all runs beside the typical run, and runs that stalled (docs/analysis.md, section 1).

A robust mean says what a typical run does. A set-up that stalls in some of its runs gives its user less than that, so
both are looked at: equal is only what is equal by both. Shapes are those of benchlab.analysis.fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, stdtr

from benchlab.analysis.differences import (
    LEAST,
    ONE_SIDED,
    TWO_SIDED,
    Estimates,
    Luck,
    half_width,
    welch,
)
from benchlab.analysis.fits import LEAST_NOISE, WILD, Array, Fit, Mask

# A run below this share of its cell's typical run, and far beyond the noise, stalled.
STALLED = 0.9
# Set-ups stall unlike each other where Fisher's exact test says so, and at least this much of a mean is lost by it.
UNLIKE, LEAST_LOST = 0.05, 0.02
# Weight of the runs' own noise, in blocks, beside what blocks show.
PRIOR_BLOCKS = 4.0


@dataclass(frozen=True, slots=True)
class Means:
    """Plain means of each pair: `est` = mean over the depths of ln(second's mean / first's), its error and degrees.

    `logs`: (pairs, 2, depths), ln of the plain means. `stalled`, `runs`: (pairs, 2), how many of each set-up's runs
    stalled, and all. `level`: (pairs, 2), mean of the stalled runs as a share of a typical run; NaN without any.
    `proven`: that one stalls more than the other.
    """

    est: Array
    se: Array
    df: Array
    logs: Array
    stalled: Array
    runs: Array
    level: Array
    proven: Mask

    @property
    def p(self) -> Array:
        """Two-sided; 1 where the error is unknown."""
        known = self.df > 0
        t = -np.abs(self.est) / self.se
        return np.where(known, 2 * stdtr(np.where(known, self.df, 1), t), 1.0)

    def half(self, share: float) -> Array:
        return half_width(self.se, self.df, share)


def plain_means(fit: Fit, luck: Luck, *, lower_is_better: bool = False) -> Means:
    """Compare plain means, and count the runs that stalled.

    Where lower is better the means are those of 1 / value: a stall is a run that takes longer, the mean latency of all
    I/Os is the harmonic mean over the runs, and rates and latencies of the same runs get the same verdict.
    """
    measured, depths = fit.measured, fit.counts.shape[2]
    better = -1.0 if lower_is_better else 1.0
    raw = better * fit.raw
    share = np.where(measured, np.exp(raw), 0)
    means = share.sum(axis=3) / fit.counts
    logs = fit.means + better * np.log(means)
    away = np.where(measured, share / means[..., None] - 1, 0)
    df = np.maximum((fit.counts - 1).sum(axis=2), 1e-9)
    each = np.maximum((away**2).sum(axis=(2, 3)) / df, LEAST_NOISE**2)
    of_runs = each * (1 / fit.counts).mean(axis=2) / depths
    variance, free = _with_blocks(of_runs, df, away, measured)
    se, both = welch((variance[:, 0], variance[:, 1]), (free[:, 0], free[:, 1]), luck)
    low = measured & (raw < -WILD * fit.scale[:, :, None, None]) & (raw < np.log(STALLED))
    stalled, runs = low.sum(axis=(2, 3)), measured.sum(axis=(2, 3))
    level = np.where(low, share, 0).sum(axis=(2, 3)) / np.where(stalled > 0, stalled, np.nan)
    level = level**better
    lost = np.where(low, 1 - share, 0).sum(axis=(2, 3)) / runs
    proven = (np.abs(lost[:, 1] - lost[:, 0]) >= LEAST_LOST) & _unlike(stalled, runs)
    est = (logs[:, 1] - logs[:, 0]).mean(axis=1)
    repeated = np.any(np.all(fit.counts >= 2, axis=1), axis=1)
    df_of_all = np.where(repeated, both, 0.0)
    counts = (stalled.astype(float), runs.astype(float))
    return Means(est, se, df_of_all, logs, *counts, level, proven)


def _with_blocks(of_runs: Array, df: Array, away: Array, measured: Mask) -> tuple[Array, Array]:
    """(variance of each set-up's mean, degrees of freedom), (pairs, 2): the larger of what runs and blocks show."""
    count = measured.sum(axis=2)
    there = count > 0
    means = np.where(there, away.sum(axis=2) / np.maximum(count, 1), 0)
    blocks = there.sum(axis=2)
    middle = means.sum(axis=2, keepdims=True) / np.maximum(blocks, 1)[..., None]
    squares = np.where(there, (means - middle) ** 2, 0).sum(axis=2)
    of_blocks = squares / np.maximum(blocks, 1)
    weighed = (PRIOR_BLOCKS * of_runs + of_blocks) / (PRIOR_BLOCKS + np.maximum(blocks - 1, 0))
    larger = weighed > of_runs
    return np.where(larger, weighed, of_runs), np.where(larger, PRIOR_BLOCKS + blocks - 1, df)


def _unlike(stalled: Array, runs: Array) -> Mask:
    """Whether Fisher's exact test tells the shares of the stalled runs apart."""
    found = np.zeros(len(stalled), bool)
    for pair in np.flatnonzero(stalled.sum(axis=1)):
        found[pair] = fisher_exact(stalled[pair], runs[pair]) <= UNLIKE
    return found


def fisher_exact(hits: Array, of: Array) -> float:
    """Two-sided p of Fisher's exact test: `hits` of `of` in each of two groups (scipy.stats is slow to load)."""
    total, first = int(of.sum()), int(of[0])
    drawn = int(hits.sum())
    possible = np.arange(max(0, drawn - (total - first)), min(first, drawn) + 1.0)
    logs = _ln_choose(first, possible) + _ln_choose(total - first, drawn - possible)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    own = chances[int(hits[0] - possible[0])]
    return float(chances[chances <= own * (1 + 1e-7)].sum())


def _ln_choose(n: int, k: Array) -> Array:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def decide(curve: Estimates, means: Means) -> tuple[Array, Mask]:
    """(sign, equal) of each pair, of the typical run over the curve and the plain mean together.

    The typical run decides unless stalls are proven and the mean says otherwise; then the mean decides where it can.
    """
    by_mean = _sign_of_means(means)
    agrees = (np.sign(means.est) == curve.sign) | ~means.proven
    sign = np.where((curve.sign != 0) & agrees, curve.sign, by_mean)
    close = np.abs(means.est) + means.half(ONE_SIDED) <= LEAST
    return sign, curve.equal & close & ~means.proven & (sign == 0)


def counts_by_means(curve: Estimates, means: Means) -> Mask:
    """Pairs whose ratio is that of plain means: stalls are proven, and typical runs do not decide alone."""
    agrees = (np.sign(means.est) == curve.sign) & (curve.sign != 0)
    return np.asarray(means.proven & ((_sign_of_means(means) != 0) | ~agrees))


def _sign_of_means(means: Means) -> Array:
    """The sign that plain means show beyond doubt where stalls are proven, else 0."""
    beyond = (np.abs(means.est) >= LEAST) & (np.abs(means.est) > means.half(TWO_SIDED))
    return np.where(means.proven & beyond, np.sign(means.est), 0)
