# SPDX-License-Identifier: Apache-2.0
"""The first part of what was measured is at another level than the rest (docs/analysis.md, section 4, on steady state).

For each first part of 3 intervals to half of them: medians of it and of the rest, apart by `z` standard errors. The
noise is the rest's, by its median absolute deviation; neighbours that are alike count as fewer (integrated
autocorrelation time of the rest). And the mean must be off by 3 % against the rest's alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._pace import Array, Pace, paces
from benchlab.analysis.formats import rate, share

LABEL = "Too short a warm-up"
METHOD = "Findings"

# least intervals of a window, and of its first part
FEWEST, FIRST = 20, 3
# least error of the mean, as a ratio
OFF = 0.03
# standard errors, over all first parts tried
SURE = 6.0
# least noise, as a share of the level
NOISE = 0.005
# largest correlation of neighbours, at lag 1
MOST_ALIKE = 0.9
WINDOW, SHORT = 5, 2.5


@dataclass(frozen=True, slots=True)
class WarmUp:
    seconds: float
    # mean of the first part
    level: float
    rest: float
    # ratio of the mean of all to that of the rest, less 1
    off: float
    z: float


def applies(run: Run) -> list[Finding]:
    return [_describe_warm_up(pace, begin) for pace in paces(run) if (begin := _warm_up_part(pace))]


def _warm_up_part(pace: Pace) -> WarmUp | None:
    """The first part that stands out most, among those that shift the mean."""
    if pace.values.size < FEWEST or float(np.median(pace.values)) <= 0:
        return None
    splits = [split for end in _biased_lengths(pace) if (split := _split_at(pace, end))]
    best = max(splits, key=lambda split: split.z, default=None)
    if best is None or best.z < SURE:
        return None
    exact = _split_at(pace, _best_split(pace.values))
    return exact if exact and exact.z >= SURE and abs(exact.off) >= OFF else best


def _best_split(values: Array) -> int:
    """Length of the first part with which two levels fit best, by least squares.

    The lengths that are tried for a proof are too coarse for this.
    """
    ends = np.arange(FIRST, values.size // 2 + 1)
    sums = np.cumsum(values)
    means, rests = sums[ends - 1] / ends, (sums[-1] - sums[ends - 1]) / (values.size - ends)
    return int(ends[np.argmax(ends * (values.size - ends) * (means - rests) ** 2)])


def _biased_lengths(pace: Pace) -> list[int]:
    """Lengths of first parts that shift the mean; each is half as long again as the one before."""
    moved, spans = np.cumsum(pace.values * pace.spans), np.cumsum(pace.spans)
    mean, ends, end = moved[-1] / spans[-1], [], float(FIRST)
    while end <= pace.values.size / 2:
        at = int(end) - 1
        rest = (moved[-1] - moved[at]) / (spans[-1] - spans[at])
        if rest > 0 and abs(mean / rest - 1) >= OFF:
            ends.append(int(end))
        end *= 1.5
    return ends


def _split_at(pace: Pace, end: int) -> WarmUp | None:
    first, rest = pace.values[:end], pace.values[end:]
    level = float(np.median(rest))
    mean = float(np.average(rest, weights=pace.spans[end:]))
    if level <= 0 or mean <= 0:
        return None
    noise = max(NOISE * level, 1.4826 * float(np.median(np.abs(rest - level))))
    error = 1.2533 * noise * np.sqrt(_widened(rest - level, noise) * (1 / end + 1 / rest.size))
    return WarmUp(
        float(pace.spans[:end].sum()),
        float(np.average(first, weights=pace.spans[:end])),
        mean,
        float(np.average(pace.values, weights=pace.spans)) / mean - 1,
        abs(float(np.median(first)) - level) / float(error),
    )


def _widened(rest: Array, noise: float) -> float:
    """Factor by which similar neighbours widen the variance of a mean: the integrated autocorrelation time.

    Outliers are cut at three times the noise. Summed up to WINDOW times itself (Sokal), each term corrected for its
    bias in short series; where the series is short beside that time, it is not known well, and taken for longer.
    """
    cut = np.clip(rest, -3 * noise, 3 * noise)
    correlations = _correlations(cut - cut.mean())
    times = np.maximum(1, 1 + 2 * np.cumsum(correlations + 1 / rest.size))
    within = np.arange(1, times.size + 1) < WINDOW * times
    stop = int(np.argmin(within)) if not within.all() else times.size - 1
    first = max(
        0.0, min(MOST_ALIKE, float(correlations[0]) + (1 + 4 * float(correlations[0])) / rest.size)
    )
    time = max(1.0, float(times[stop]), (1 + first) / (1 - first))
    return time * (1 + SHORT * time / rest.size)


def _correlations(values: Array) -> Array:
    """Autocorrelations at lags 1 to half of the series; all 0 if the series does not change."""
    spectrum = np.fft.rfft(values, 2 * values.size)
    powers = np.fft.irfft(spectrum * np.conj(spectrum))[: values.size // 2 + 1]
    correlations: Array = powers[1:] / powers[0] if powers[0] > 0 else np.zeros(values.size // 2)
    return correlations


def _describe_warm_up(pace: Pace, warm_up: WarmUp) -> Finding:
    faster = "above" if warm_up.level > warm_up.rest else "below"
    difference = share(abs(warm_up.level / warm_up.rest - 1))
    window_text = "" if pace.only_window else f" of {pace.window}"
    return Finding(
        f"the first {warm_up.seconds:.0f} s{window_text} of {pace.duration_s:.0f} s were {difference} "
        f"{faster} the rest ({rate(warm_up.level, pace.unit)}, then {rate(warm_up.rest, pace.unit)}): "
        f"the mean is off by {share(abs(warm_up.off))}",
        Severity.DOUBT,
        {
            "first": Number(warm_up.level, pace.unit, f"{pace.label}, first part"),
            "rest": Number(warm_up.rest, pace.unit, f"{pace.label}, the rest"),
            "off": Number(warm_up.off, "1", "the mean against that of the rest"),
            "seconds": Number(warm_up.seconds, "s", "length of the first part"),
        },
        about="" if pace.only_window else pace.window,
    )
