# SPDX-License-Identifier: Apache-2.0
"""Counters and gauges of a frame as samples: shared by samplers of caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import nan

from agents.contracts import Frame, Series, Unit
from agents.samplers._intervals import Interval, intervals

Counts = Mapping[str, int]


def counter_rate(before: Counts | None, after: Counts | None, name: str, seconds: float) -> float:
    """Per second; NaN where one of the two does not tell, or the counter began anew."""
    if not before or not after or name not in before or name not in after:
        return nan
    grown = after[name] - before[name]
    return grown / seconds if grown >= 0 else nan


def hit_ratio(hits: float, misses: float) -> float:
    """Share of hits; NaN where nothing happened, or it is not known what."""
    return hits / (hits + misses) if hits + misses > 0 else nan


def rows_to_series(
    device: str, rows: Sequence[tuple[float, Mapping[str, float]]], units: Mapping[str, Unit]
) -> list[Series]:
    """A series of the (time, row) pairs for each of `units` that any row has, NaN where a row lacks it."""
    times = tuple(at for at, _ in rows)
    return [
        Series(device, name, unit, times, tuple(row.get(name, nan) for _, row in rows))
        for name, unit in units.items()
        if any(name in row for _, row in rows)
    ]


def file_intervals(frames: Sequence[Frame], has: Iterable[str]) -> list[Interval]:
    """Intervals of the frames that hold any of these files. Their ends count from the run's very first frame."""
    names = set(has)
    frames_with_files = [frame for frame in frames if not names.isdisjoint(frame.files)]
    late = frames_with_files[0].at - frames[0].at if frames_with_files else 0.0
    return [
        Interval(interval.before, interval.after, interval.end + late, interval.seconds)
        for interval in intervals(frames_with_files)
    ]
