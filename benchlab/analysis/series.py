# SPDX-License-Identifier: Apache-2.0
"""Time series of devices: rounding for charts, summaries, and buckets of many samples. Pure numpy; NaN is unknown.

Buckets lose no peak, whatever part of a long run is shown: each keeps the smallest and the largest of its known
samples, each with its time, and the total and count for their mean. Buckets merge into coarser ones with the same
result as from the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Summary:
    n: int
    minimum: float
    mean: float
    p50: float
    p99: float
    maximum: float


def weighted_mean(values: Numbers, weights: Numbers = ()) -> float:
    """Weighted mean of the known values: a rate weighs the seconds that it covers, a wait its number of requests."""
    array = np.asarray(values, dtype=float)
    weight = np.asarray(weights, dtype=float) if len(weights) else np.ones(array.shape)
    usable = ~np.isnan(array) & (weight > 0)
    return (
        float(np.average(array[usable], weights=weight[usable])) if usable.any() else float("nan")
    )


def summarize(values: Numbers, weights: Numbers = ()) -> Summary | None:
    """Summarize the known values; None if there are none."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return None
    p50, p99 = np.percentile(numbers, [50, 99])
    return Summary(
        numbers.size,
        float(numbers.min()),
        weighted_mean(values, weights),
        float(p50),
        float(p99),
        float(numbers.max()),
    )


def round_significant(values: Numbers, digits: int = 5) -> list[float | None]:
    """Round to `digits` significant digits, unknown values as None: enough for a chart, at a third of the bytes."""
    array = np.asarray(values, dtype=float)
    finite = np.isfinite(array) & (array != 0)
    scale = np.zeros(array.shape, dtype=int)
    scale[finite] = digits - 1 - np.floor(np.log10(np.abs(array[finite]))).astype(int)
    factor = 10.0**scale
    return [
        None if value != value else value for value in (np.round(array * factor) / factor).tolist()
    ]


Floats = np.ndarray[Any, np.dtype[np.float64]]
Numbers = Sequence[float] | Floats
Places = np.ndarray[Any, np.dtype[np.int64]]

# samples per bucket in the buckets that are stored beside the samples of a long run
FINE, COARSE = 8, 64


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Buckets of samples at `times`; all else is device x bucket. The place of a sample is its index in `times`.

    In a bucket without known samples `low` and `high` are NaN, at its first sample.
    """

    # samples per bucket; the last one may have fewer
    every: int
    times: Floats
    low: Floats
    low_at: Places
    high: Floats
    high_at: Places
    total: Floats
    # number of known samples
    sample_counts: Places

    @property
    def means(self) -> Floats:
        """Means of the known samples of each bucket."""
        unknown = np.full(self.total.shape, np.nan)
        means: Floats = np.divide(
            self.total, self.sample_counts, out=unknown, where=self.sample_counts > 0
        )
        return means

    @property
    def middles(self) -> Floats:
        """Times at which the means are drawn."""
        first = np.arange(0, len(self.times), self.every)
        last = np.minimum(first + self.every, len(self.times)) - 1
        middles: Floats = (self.times[first] + self.times[last]) / 2
        return middles

    def coarser(self, times: int) -> Buckets:
        """Merge every `times` buckets into one, from the first on."""
        if times == 1:
            return self
        low = np.where(np.isnan(self.low), np.inf, self.low)
        high = np.where(np.isnan(self.high), -np.inf, self.high)
        lowest = _fold(low, times, np.inf).argmin(axis=2)[:, :, None]
        highest = _fold(high, times, -np.inf).argmax(axis=2)[:, :, None]
        return Buckets(
            self.every * times,
            self.times,
            _take_places(self.low, times, lowest),
            _take_places(self.low_at, times, lowest),
            _take_places(self.high, times, highest),
            _take_places(self.high_at, times, highest),
            _fold(self.total, times, 0).sum(axis=2),
            _fold(self.sample_counts, times, 0).sum(axis=2),
        )

    def device_line(self, row: int) -> tuple[Floats, Floats]:
        """(times, values) of one device: both extremes of each bucket in order of time, or the samples themselves."""
        if self.every == 1:
            return self.times, self.low[row]
        at = self.times[np.stack([self.low_at[row], self.high_at[row]], axis=1)]
        values = np.stack([self.low[row], self.high[row]], axis=1)
        later = at[:, 0] > at[:, 1]
        at[later], values[later] = at[later, ::-1], values[later, ::-1]
        distinct = np.ones(at.shape, dtype=bool)
        distinct[:, 1] = at[:, 0] != at[:, 1]
        return at[distinct], values[distinct]

    def band(self, rows: list[int]) -> tuple[Floats, Floats, Floats]:
        """(smallest, largest, median of the means) of these devices, of each bucket."""
        return (
            np.fmin.reduce(self.low[rows], axis=0),
            np.fmax.reduce(self.high[rows], axis=0),
            _medians(self.means[rows]),
        )


def bucket_samples(times: Floats, values: Floats) -> Buckets:
    """Put each sample into a bucket of its own. `values`: device x sample."""
    at = np.broadcast_to(np.arange(len(times)), values.shape)
    is_known = ~np.isnan(values)
    total = np.where(is_known, values, 0.0)
    return Buckets(1, times, values, at, values, at, total, is_known.astype(np.int64))


def samples_per_bucket(samples: int, pixels: int) -> int:
    """Number of samples per bucket: 1 to show every sample, else a number that stored buckets can be merged into."""
    if samples <= 2 * pixels:
        return 1
    needed = -(-samples // pixels)
    step = COARSE if needed > COARSE else FINE if needed > FINE else 1
    return -(-needed // step) * step


def stored_step(every: int) -> int:
    """The coarsest stored buckets that can be merged into buckets of so many samples: COARSE, FINE or 1."""
    return next(step for step in (COARSE, FINE, 1) if every % step == 0)


def _fold(array: Any, times: int, fill: float) -> Any:
    """Reshape to device x bucket x `times`; what is missing at the end is `fill`."""
    missing = -array.shape[1] % times
    if missing:
        array = np.pad(array, ((0, 0), (0, missing)), constant_values=fill)
    return array.reshape(len(array), -1, times)


def _take_places(array: Any, times: int, which: Places) -> Any:
    return np.take_along_axis(_fold(array, times, 0), which, axis=2)[:, :, 0]


def _medians(means: Floats) -> Floats:
    """Medians of the known values of each column, without numpy's warning about columns that have none."""
    medians = np.full(means.shape[1], np.nan)
    is_known = ~np.isnan(means).all(axis=0)
    medians[is_known] = np.nanmedian(means[:, is_known], axis=0)
    return medians
