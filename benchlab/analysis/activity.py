# SPDX-License-Identifier: Apache-2.0
"""Activity of disks and tool while a run measured: by part, by group of disks, and over time.

Means of a part are over its own windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.devices import Balance, application_rates, balance_samples
from benchlab.analysis.evidence import ENOUGH_SAMPLES, IDLE, NEAR, Run, Track, Window
from benchlab.analysis.steady import UNSTEADY, Course, State, judge

Array = NDArray[np.float64]
BYTES_LABEL = {"read": "bytes read", "write": "bytes written"}
# ways of a tool's own tracks, from the total on
WAYS = ("", "read.", "write.")


@dataclass(frozen=True, slots=True)
class Group:
    """Disks of one use in a layer."""

    kind: str
    use: str
    names: tuple[str, ...]


def disk_groups(run: Run) -> list[Group]:
    """Groups of disks from the bottom layer up, without spares."""
    return [
        Group(layer.kind, use, names)
        for layer in run.layers
        for use, names in layer.uses.items()
        if names and use not in IDLE
    ]


def measured_parts(run: Run) -> list[tuple[str, Run]]:
    """(its name, the run as if only that had been measured) of each window; of a run without any, the whole."""
    measured = run.measured_windows
    if len(measured) < 2:
        return [(measured[0].name if measured else "", run)]
    return [(window.name, replace(run, windows=(window,))) for window in measured]


def tool_rates(part: Run, window: str, run: Run) -> dict[str, float | None]:
    """{"read", "write": B/s that the tool moved in a part of a run}; None where that is unknown, as for a whole run."""
    measured = run.measured_windows
    if not measured:
        return {"read": None, "write": None}
    alone = len(measured) == 1
    return application_rates(part.figures, window, alone=alone, only=run.access.only_direction)


WindowBalance = tuple[str, Group, Balance]


class _ByIdentity:
    """A run that is compared by identity and not by content: several findings in a row need the same results."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.run is other.run

    def __hash__(self) -> int:
        return id(self.run)


def balances(run: Run, way: str) -> tuple[WindowBalance, ...]:
    """(window, disks, their balance) of each part where it is known, for "read" or "write"."""
    return _balances(_ByIdentity(run), way)


# both directions of one run
@lru_cache(maxsize=2)
def _balances(this: _ByIdentity, way: str) -> tuple[WindowBalance, ...]:
    wide = [group for group in disk_groups(this.run) if len(group.names) > 1]
    return tuple(
        (window, group, balance)
        for window, part in (measured_parts(this.run) if wide else ())
        for group in wide
        if (balance := _balance(part, group, way)) is not None
    )


def _balance(part: Run, group: Group, way: str) -> Balance | None:
    other = "write" if way == "read" else "read"
    moved, operations, across = (
        {track.device: track for track in part.measured_tracks(metric, group.names)}
        for metric in (f"{way}.bandwidth", f"{way}.iops", f"{other}.bandwidth")
    )
    if len(moved) < len(group.names) or len(operations) < len(group.names):
        return None
    first = moved[group.names[0]]
    if part.ours and len(first.times) < ENOUGH_SAMPLES:
        return None
    if any(track.times != first.times for track in (*moved.values(), *operations.values())):
        return None
    return balance_samples(
        [moved[name].values for name in group.names],
        [operations[name].values for name in group.names],
        first.spans(),
        [track.values for track in across.values() if track.times == first.times],
    )


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate, or latency, over the known intervals of one measured window, in order; at least one interval.

    `window` is "" for the only window of a run.
    """

    window: str
    # "IOPS, by the tool"
    label: str
    unit: str
    values: Array
    # s
    spans: Array

    @property
    def duration_s(self) -> float:
        return float(self.spans.sum())


def paces(run: Run) -> Iterator[Pace]:
    """Rate over each measured window, as the tool recorded it or, if no layer changes the I/O, as the disks did.

    If a tool reported no windows, only its own track covers what it measured; if it reported several, its track is on
    no clock of theirs.
    """
    windows = run.measured_windows
    rates = _tool_rate_tracks(run) if len(windows) < 2 else None
    if not rates and windows and run.access.direct and run.straight:
        rates = _disk_rate_tracks(run)
    if rates:
        yield from _paces(*rates, windows)


def latency_paces(run: Run) -> Iterator[Pace]:
    """Mean latency over time, by the tool, for a run with at most one window."""
    tracks = [track for way in WAYS for track in _tool_tracks(run, f"{way}lat.mean")]
    if tracks and len(run.measured_windows) < 2:
        yield from _paces("latency, by the tool", "s", tracks[:1], run.measured_windows)


def _paces(
    label: str, unit: str, tracks: Sequence[Track], windows: Sequence[Window]
) -> Iterator[Pace]:
    for window in windows or [Window("", -np.inf, np.inf)]:
        values, spans = _sum_in_window(tracks, window)
        if values.size:
            yield Pace(window.name if len(windows) > 1 else "", label, unit, values, spans)


def _tool_rate_tracks(run: Run) -> tuple[str, str, Sequence[Track]] | None:
    for name, label, unit in (("iops", "IOPS", "op/s"), ("bandwidth", "rate", "B/s")):
        for ways in (WAYS[:1], WAYS[1:]):
            tracks = [track for way in ways for track in _tool_tracks(run, way + name)]
            if tracks:
                return f"{label}, by the tool", unit, tracks
    return None


def _tool_tracks(run: Run, metric: str) -> list[Track]:
    tracks = (track for track in run.tracks if (track.device, track.metric) == ("", metric))
    return [track for track in tracks if track.times]


def _disk_rate_tracks(run: Run) -> tuple[str, str, Sequence[Track]] | None:
    names = set(run.active_disks)
    # A direction counts unless the tool is known not to use it.
    used = {"read": run.access.reads, "write": run.access.writes}
    metrics = [f"{way}.bandwidth" for way, uses in used.items() if uses is not False]
    tracks = [track for track in run.tracks if track.device in names and track.metric in metrics]
    if not names or len(tracks) != len(names) * len(metrics):
        return None
    return "rate, by the disks", "B/s", tracks


def _sum_in_window(tracks: Sequence[Track], window: Window) -> tuple[Array, Array]:
    """Sums and lengths (s) of the intervals in the window that all tracks know; none if their times differ."""
    first = tracks[0]
    if any(len(track.times) != len(first.times) for track in tracks):
        # Missing values would look like a change.
        return np.array([]), np.array([])
    ends, spans = np.asarray(first.times, dtype=float), np.asarray(first.spans(), dtype=float)
    values = np.sum([np.asarray(track.values, dtype=float) for track in tracks], axis=0)
    inside = (ends - spans >= window.start - NEAR) & (ends <= window.end + NEAR)
    inside &= np.isfinite(values) & (spans > 0)
    return values[inside], spans[inside]


def courses(run: Run) -> tuple[tuple[Pace, Course], ...]:
    """(rate, its course) of each measured window; of the latency where only that is not steady, or known over time."""
    return _courses(_ByIdentity(run))


@lru_cache(maxsize=2)
def _courses(this: _ByIdentity) -> tuple[tuple[Pace, Course], ...]:
    rates, latencies = (_judge_all(kind(this.run)) for kind in (paces, latency_paces))
    is_latency_alone = _has_unsteady(latencies) and not _has_unsteady(rates)
    return latencies if is_latency_alone or not rates else rates


def _has_unsteady(judged: Iterable[tuple[Pace, Course]]) -> bool:
    return any(course.state in UNSTEADY for _, course in judged)


def _judge_all(known: Iterator[Pace]) -> tuple[tuple[Pace, Course], ...]:
    return tuple((pace, judge(pace.values, pace.spans, pace.unit)) for pace in known)


def run_course(run: Run) -> Course:
    """The course of a run's rate: that of the first window that is not steady, else of the first one."""
    found = [course for _, course in courses(run)]
    unsteady = [course for course in found if course.state in UNSTEADY]
    return next(iter(unsteady + found), Course(State.NO_SERIES))
