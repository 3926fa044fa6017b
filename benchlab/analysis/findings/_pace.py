# SPDX-License-Identifier: Apache-2.0
"""Rate of a run over time, as its tool recorded it or, if no layer changes the I/O, as its disks did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.evidence import NEAR, Run, Track, Window
from benchlab.analysis.findings import _stacks

Array = NDArray[np.float64]
RATES = (("iops", "op/s"), ("bandwidth", "B/s"))
WAYS = ("", "read.", "write.")


@dataclass(frozen=True, slots=True)
class Pace:
    """Known intervals of one measured window, in order; at least one. `alone`: there is no other window."""

    window: str
    # "IOPS, by the tool"
    label: str
    unit: str
    values: Array
    # s
    spans: Array
    only_window: bool

    @property
    def duration_s(self) -> float:
        return float(self.spans.sum())


def paces(run: Run) -> Iterator[Pace]:
    """Paces of each measured window.

    If a tool reported no windows, only its own track covers what it measured; if it reported several, its track is on
    no clock of theirs.
    """
    windows = [window for window in run.windows if window.measured]
    rates = _tool_rate_tracks(run) if len(windows) < 2 else None
    if not rates and windows and run.access.direct and _stacks.straight(run):
        rates = _disk_rate_tracks(run)
    if not rates:
        return
    label, unit, tracks = rates
    for window in windows or [Window("", -np.inf, np.inf)]:
        values, spans = _sum_in_window(tracks, window)
        if values.size:
            yield Pace(window.name, label, unit, values, spans, len(windows) < 2)


def latency_pace(run: Run) -> Pace | None:
    """Mean latency over time, by the tool, for a run with at most one window."""
    windows = [window for window in run.windows if window.measured]
    track = next(
        (candidate for way in WAYS for candidate in _tool_tracks(run, f"{way}lat.mean")), None
    )
    if track is None or len(windows) > 1:
        return None
    values, spans = _sum_in_window([track], windows[0] if windows else Window("", -np.inf, np.inf))
    return Pace("", "latency, by the tool", "s", values, spans, True) if values.size else None


def _tool_rate_tracks(run: Run) -> tuple[str, str, Sequence[Track]] | None:
    for name, unit in RATES:
        for ways in (("",), ("read.", "write.")):
            tracks = [track for way in ways for track in _tool_tracks(run, way + name)]
            if tracks:
                return f"{'IOPS' if unit == 'op/s' else 'rate'}, by the tool", unit, tracks
    return None


def _tool_tracks(run: Run, metric: str) -> list[Track]:
    return [
        track
        for track in run.tracks
        if track.device == "" and track.metric == metric and track.times
    ]


def _disk_rate_tracks(run: Run) -> tuple[str, str, Sequence[Track]] | None:
    names = set(_stacks.active_disks(run))
    metrics = [
        f"{way}.bandwidth"
        for way, on in zip(("read", "write"), _directions(run), strict=True)
        if on
    ]
    tracks = [track for track in run.tracks if track.device in names and track.metric in metrics]
    if not names or len(tracks) != len(names) * len(metrics):
        return None
    return "rate, by the disks", "B/s", tracks


def _directions(run: Run) -> tuple[bool, bool]:
    """(reads, writes), each True if the run does so or if that is unknown."""
    return run.access.reads is not False, run.access.writes is not False


def _sum_in_window(tracks: Sequence[Track], window: Window) -> tuple[Array, Array]:
    """Sums and lengths (s) of the intervals in the window that all tracks know; none if their times differ."""
    first = tracks[0]
    same = [track for track in tracks if len(track.times) == len(first.times)]
    ends, spans = np.asarray(first.times, dtype=float), np.asarray(first.spans(), dtype=float)
    if len(same) < len(tracks):
        # Missing values would look like a change.
        return np.array([]), np.array([])
    values = np.sum([np.asarray(track.values, dtype=float) for track in same], axis=0)
    inside = (ends - spans >= window.start - NEAR) & (ends <= window.end + NEAR)
    inside &= np.isfinite(values) & (spans > 0)
    return values[inside], spans[inside]
