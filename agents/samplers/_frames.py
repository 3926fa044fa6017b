# SPDX-License-Identifier: Apache-2.0
"""Frames of the sampler as samples: intervals, rates of counters, lines of a command that runs beside the tool."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan

from agents.contracts import Frame, ParseError, Series, Unit, Watch

SHORTEST_S = 0.2


def is_count(word: str) -> bool:
    """A whole number as the kernel counts: 64 bits at most."""
    return word.isascii() and word.isdigit() and len(word) <= 20


@dataclass(frozen=True, slots=True)
class Interval:
    before: Frame
    after: Frame
    # seconds since the run's first frame
    end: float
    # its length
    seconds: float


def in_time(frames: Sequence[Frame]) -> list[Frame]:
    """Each later than the one before it: a monotonic clock has no others, such are torn."""
    frames_in_time: list[Frame] = []
    for frame in frames:
        if not frames_in_time or frame.at > frames_in_time[-1].at:
            frames_in_time.append(frame)
    return frames_in_time


def intervals(frames: Sequence[Frame]) -> list[Interval]:
    """Neighbouring frames, in order. The last frame comes when the tool ends, maybe just after a tick:
    such a sliver is added to the interval before it, for rates over a few ms are noise."""
    ordered_frames: list[Frame] = []
    for frame in in_time(frames):
        if len(ordered_frames) > 1 and frame.at - ordered_frames[-1].at < SHORTEST_S:
            ordered_frames[-1] = frame
        else:
            ordered_frames.append(frame)
    pairs = itertools.pairwise(ordered_frames)
    return [Interval(a, b, b.at - ordered_frames[0].at, b.at - a.at) for a, b in pairs]


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


@dataclass(frozen=True, slots=True)
class Line:
    # seconds since the run's first frame at which it, or its report's first line, came
    at: float
    text: str
    # 1-based, over all frames
    number: int


def stamped_lines(frames: Sequence[Frame], watch: Watch) -> list[Line]:
    """All that a lasting Watch printed during the run, in order. Raises ParseError."""
    lines: list[Line] = []
    for frame in frames:
        for text in frame.files.get(watch.file_key, "").splitlines():
            nanoseconds, _, rest = text.partition(" ")
            if not is_count(nanoseconds):
                raise ParseError("no time before the line", len(lines) + 1, text)
            lines.append(Line(int(nanoseconds) / 1e9 - frames[0].at, rest, len(lines) + 1))
    return lines
