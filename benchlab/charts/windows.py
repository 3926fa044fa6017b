# SPDX-License-Identifier: Apache-2.0
"""Windows of samples for a mean, a balance or a hit ratio: those of what the tool measured. Only here. Pure.

A sample is of a window where the second that it stands for lies wholly in it: one that is half file layout is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.contracts import Window
from benchlab.analysis.buckets import Numbers
from benchlab.charts.tracks import Track

# s: two clocks of one host, read by different programs
CLOCK_TOLERANCE_S = 0.02
WHOLE_RUN = "the whole run"
ALL_MEASURED = "all that was measured"


@dataclass(frozen=True, slots=True)
class Part:
    """Stretch that a table is over. `number` chooses it (?window=): 0 is all that was measured."""

    number: int
    name: str
    tracks: tuple[Track, ...]
    start: float = 0.0
    end: float = 0.0

    @property
    def is_whole_run(self) -> bool:
        """Nobody told when it was measured: file layout, ramp and all are in it."""
        return self.name == WHOLE_RUN


def parse_windows(rows: Iterable[Mapping[str, Any]]) -> list[Window]:
    """As they are stored with an attempt."""
    return [Window(row["name"], row["start"], row["end"], row["measured"]) for row in rows]


def select_part(tracks: Sequence[Track], windows: Sequence[Window], number: int = 0) -> Part:
    """All that was measured, or one of its windows; of a run without any, all there is. Raises IndexError."""
    measured = [window for window in windows if window.measured]
    if not measured:
        return Part(0, WHOLE_RUN, tuple(tracks))
    chosen = measured if number == 0 else [measured[number - 1]]
    name = chosen[0].name if len(chosen) == 1 else ALL_MEASURED
    return Part(number, name, tuple(_cut_tracks(tracks, chosen)), chosen[0].start, chosen[-1].end)


def measured_tracks(tracks: Iterable[Track], windows: Sequence[Window]) -> Iterator[Track]:
    """As `part` of all that was measured, one track after the other."""
    measured = [window for window in windows if window.measured]
    yield from _cut_tracks(tracks, measured) if measured else tracks


def measured_parts(tracks: Sequence[Track], windows: Sequence[Window]) -> list[Part]:
    """One of each measured window; of a run without any, the whole."""
    count = sum(window.measured for window in windows)
    return [select_part(tracks, windows, number) for number in range(1, count + 1)] or [
        select_part(tracks, [])
    ]


@dataclass(frozen=True, slots=True)
class _Clock:
    """Samples of a track that are inside, with their times and lengths: a sampler's tracks share theirs."""

    track: Track
    inside: npt.NDArray[np.bool_]
    times: Numbers
    spans: Numbers

    def covers(self, track: Track) -> bool:
        return self.track.shares_times(track) and not len(self.track.spans) and not len(track.spans)


def _cut_tracks(tracks: Iterable[Track], windows: Sequence[Window]) -> Iterator[Track]:
    """The part of each that is inside; tracks of which nothing is, or nobody knows what, are left out."""
    clock: _Clock | None = None
    for track in tracks:
        if track.own_clock:
            continue
        if clock is None or not clock.covers(track):
            clock = _build_clock(track, windows)
        if len(clock.times):
            values = np.asarray(track.values, dtype=float)[clock.inside]
            yield replace(track, times=clock.times, values=values, spans=clock.spans)


def _build_clock(track: Track, windows: Sequence[Window]) -> _Clock:
    ends = np.asarray(track.times, dtype=float)
    lengths = np.asarray(track.durations)
    inside = np.zeros(ends.shape, dtype=bool)
    for window in windows:
        inside |= (ends - lengths >= window.start - CLOCK_TOLERANCE_S) & (
            ends <= window.end + CLOCK_TOLERANCE_S
        )
    return _Clock(track, inside, ends[inside], lengths[inside])
