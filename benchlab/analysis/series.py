"""Time series of one device: what is shown of them, and how they are summed up. Pure numpy; NaN is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class Summary:
    n: int
    minimum: float
    mean: float
    p50: float
    p99: float
    maximum: float


def mean(values: Sequence[float], weights: Sequence[float] = ()) -> float:
    """Of the known values, each as much as it weighs: a rate by the seconds that it is of, a wait by its requests."""
    array = np.asarray(values, dtype=float)
    weight = np.asarray(weights, dtype=float) if len(weights) else np.ones(array.shape)
    known = ~np.isnan(array) & (weight > 0)
    return float(np.average(array[known], weights=weight[known])) if known.any() else float("nan")


def summary(values: Sequence[float], weights: Sequence[float] = ()) -> Summary | None:
    """Of the known values; None when there are none."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return None
    p50, p99 = np.percentile(known, [50, 99])
    return Summary(
        known.size,
        float(known.min()),
        mean(values, weights),
        float(p50),
        float(p99),
        float(known.max()),
    )


def decimate(
    times: Sequence[float], values: Sequence[float], pixels: int
) -> tuple[list[float], list[float]]:
    """At most two points a pixel, the smallest and the largest of each, so that no peak is lost. For drawing only."""
    if len(times) <= 2 * pixels:
        return list(times), list(values)
    width = -(-len(times) // pixels)
    array = np.full(width * pixels, np.nan)
    array[: len(values)] = values
    grid = array.reshape(pixels, width)
    unknown = np.isnan(grid)
    lowest = np.where(unknown, np.inf, grid).argmin(axis=1)
    highest = np.where(unknown, -np.inf, grid).argmax(axis=1)
    starts = np.arange(pixels) * width
    keep = np.unique(np.concatenate([starts + lowest, starts + highest]))  # all unknown: its first
    keep = keep[keep < len(times)]
    return np.asarray(times, dtype=float)[keep].tolist(), array[keep].tolist()


def rounded(values: Sequence[float], digits: int = 5) -> list[float | None]:
    """To so many significant digits, unknown as None: what a chart needs, at a third of the bytes."""
    array = np.asarray(values, dtype=float)
    known = np.isfinite(array) & (array != 0)
    scale = np.zeros(array.shape, dtype=int)
    scale[known] = digits - 1 - np.floor(np.log10(np.abs(array[known]))).astype(int)
    factor = 10.0**scale
    return [
        None if value != value else value for value in (np.round(array * factor) / factor).tolist()
    ]


def averages(
    times: Sequence[float], values: Sequence[float], buckets: int
) -> tuple[list[float], list[float]]:
    """Means over equal shares of the samples, for areas that are stacked: all get the same times."""
    if len(times) <= buckets:
        return list(times), list(values)
    edges = np.linspace(0, len(times), buckets + 1).astype(int)
    parts = [np.asarray(values[a:b], dtype=float) for a, b in pairwise(edges)]
    means = [float("nan") if np.isnan(part).all() else float(np.nanmean(part)) for part in parts]
    return [float(times[a]) for a in edges[:-1]], means
