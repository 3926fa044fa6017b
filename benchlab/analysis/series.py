# SPDX-License-Identifier: Apache-2.0
"""Time series of one device: rounding for charts, and summaries. Pure numpy; NaN is unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchlab.analysis.buckets import Numbers


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
