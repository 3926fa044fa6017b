# SPDX-License-Identifier: Apache-2.0
"""Values of every device at one instant of a run: the samples that its charts show there, as a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchlab.analysis.buckets import Floats
from benchlab.charts.devices import CPU, PANELS
from benchlab.charts.panels import any_above_zero
from benchlab.charts.stack import Placed, order
from benchlab.charts.tracks import Track
from benchlab.runs.strips import Rows

# s: a time that went through an address
EDGE = 1e-6
# (device, start, end of its sample) -> metric -> value
Told = dict[tuple[str, float, float], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """A device in the sample from `start` to `end`, s since the first one. Shares are in percent."""

    device: Placed
    start: float
    end: float
    # by metric; one that is not known is missing
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Instant:
    """`metrics` are those that the run has panels of; `cpu` are shares of the host's whole time, in percent."""

    lines: tuple[Line, ...]
    metrics: tuple[str, ...]
    cpu: Mapping[str, float]
    # ends of the samples before and behind it
    earlier: float | None
    later: float | None

    @property
    def spans(self) -> list[tuple[float, float]]:
        """More than one where not all devices were sampled by one clock."""
        return sorted({(line.start, line.end) for line in self.lines})


def of(
    found: Iterable[Rows], shown: Collection[str], facts: Mapping[str, Any], at: float
) -> Instant | None:
    """`found` by sample, with the one before and the one behind; None where no sample is of it. `shown`: devices."""
    rows = [one for one in found if one.metric in PANELS or one.metric in CPU]
    placed = [(one, place) for one in rows if (place := _place(one.buckets.times, at)) is not None]
    told = _told(placed, shown)
    if not told:
        return None
    metrics = tuple(metric for metric in PANELS if any_above_zero(rows, metric))
    return Instant(tuple(_lines(told, facts)), metrics, _cpu(placed), *_beside(placed))


def _told(placed: Iterable[tuple[Rows, int]], shown: Collection[str]) -> Told:
    found: Told = {}
    for rows, place in placed:
        if rows.metric not in PANELS:
            continue
        scale = 100.0 if PANELS[rows.metric][1] == "%" else 1.0
        for name, value in _values(rows, place):
            if name in shown:
                values = found.setdefault((name, *_span(rows.buckets.times, place)), {})
                if not math.isnan(value):
                    values[rows.metric] = value * scale
    return found


def _cpu(placed: Iterable[tuple[Rows, int]]) -> dict[str, float]:
    """In the order of its chart."""
    known = {
        rows.metric: 100 * value
        for rows, place in placed
        for name, value in _values(rows, place)
        if rows.metric in CPU and not name and not math.isnan(value)
    }
    return {words: known[metric] for metric, words in CPU.items() if metric in known}


def _values(rows: Rows, place: int) -> Iterator[tuple[str, float]]:
    return zip(rows.devices, rows.buckets.low[:, place].tolist(), strict=True)


def _lines(told: Told, facts: Mapping[str, Any]) -> Iterator[Line]:
    """Volumes above the disks they stand on, as in the chart's legend."""
    for placed in order({name for name, _, _ in told}, facts):
        for (name, start, end), values in told.items():
            if name == placed.name:
                yield Line(placed, start, end, values)


def _place(times: Floats, at: float) -> int | None:
    """Place of the sample that the instant lies in: a sample's own time is its end."""
    place = int(np.searchsorted(times, at - EDGE))
    if place == len(times) or at < _span(times, place)[0] - EDGE:
        return None
    return place


def _span(times: Floats, place: int) -> tuple[float, float]:
    """(start, end). The first one is taken for as long as a Track takes it."""
    length = float(Track("", "", "", times, ()).lengths[place])
    return float(times[place]) - length, float(times[place])


def _beside(placed: Sequence[tuple[Rows, int]]) -> tuple[float | None, float | None]:
    """Ends of the nearest samples before and behind."""
    times = [(rows.buckets.times, place) for rows, place in placed]
    before = [float(one[place - 1]) for one, place in times if place]
    behind = [float(one[place + 1]) for one, place in times if place + 1 < len(one)]
    return max(before, default=None), min(behind, default=None)
