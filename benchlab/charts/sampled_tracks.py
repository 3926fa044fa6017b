# SPDX-License-Identifier: Apache-2.0
"""Samples of one metric and device: their times, measured windows, weights and resolution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.contracts import Window
from benchlab.analysis.buckets import Floats, Numbers, bucket_samples, samples_per_bucket
from benchlab.runs.strips import MetricRows, SampledSeries, group_by_clock, metric_rows


@dataclass(frozen=True, slots=True)
class Track:
    """One metric of one device: a row of Series, or what a running attempt has so far. NaN is unknown."""

    device: str
    metric: str
    unit: str
    # at the ends of what each value is of
    times: Numbers
    values: Numbers
    # s that each value is of; empty: since the one before it
    spans: Numbers = ()
    # Its times are on a tool's own clock, whose offset to the host's is unknown.
    own_clock: bool = False

    @property
    def durations(self) -> Numbers:
        """The seconds that each value covers. The first has no predecessor and counts as long as the second."""
        if len(self.spans) or not len(self.times):
            return self.spans
        times = np.asarray(self.times, dtype=np.float64)
        second = times[1] - times[0] if len(times) > 1 else times[0]
        return np.diff(times, prepend=times[0] - (min(times[0], second) or second))

    def shares_times(self, other: Track) -> bool:
        """True when both were sampled at the same times."""
        return self.times is other.times or np.array_equal(self.times, other.times)


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
        """True if the measured windows are unknown: then it includes file layout and ramp."""
        return self.name == WHOLE_RUN


def parse_windows(rows: Iterable[Mapping[str, Any]]) -> list[Window]:
    """Windows as they are stored with an attempt."""
    return [Window(row["name"], row["start"], row["end"], row["measured"]) for row in rows]


def select_part(tracks: Sequence[Track], windows: Sequence[Window], number: int = 0) -> Part:
    """Return all measured time, or one window of it; the whole run if it has none. Raises IndexError."""
    measured = [window for window in windows if window.measured]
    if not measured:
        return Part(0, WHOLE_RUN, tuple(tracks))
    chosen = measured if number == 0 else [measured[number - 1]]
    name = chosen[0].name if len(chosen) == 1 else ALL_MEASURED
    return Part(number, name, tuple(_cut_tracks(tracks, chosen)), chosen[0].start, chosen[-1].end)


def measured_tracks(tracks: Iterable[Track], windows: Sequence[Window]) -> Iterator[Track]:
    """Cut each track to all measured windows, one track after the other; whole tracks if none was measured."""
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
    """Yield the part of each track inside the windows, without tracks that have none or whose clock is unknown."""
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


HITS = ("read.hits", "read.misses", "write.hits", "write.misses")
# metric -> the rates (op/s) that together are its requests; those that a host does not have are left out
REQUEST_RATES: dict[str, tuple[str, ...]] = {
    "await": ("read.iops", "write.iops", "discard.iops"),
    "hit_ratio": HITS,
    "read.hit_ratio": HITS[:2],
    "write.hit_ratio": HITS[2:],
    "arc.hit_ratio": ("arc.hits", "arc.misses"),
    "l2arc.hit_ratio": ("l2arc.hits", "l2arc.misses"),
    "zpool.read.wait": ("zpool.read.iops",),
    "zpool.write.wait": ("zpool.write.iops",),
}


def request_weights(track: Track, of_device: Mapping[str, Track]) -> Numbers:
    """Weigh each value by its requests if all are known, else by its seconds."""
    requests = _request_counts(track, of_device)
    return track.durations if requests is None else requests


def mean_across_gaps(track: Track, of_device: Mapping[str, Track]) -> float | None:
    """Return the mean wait (s) if a wait is unknown though requests were counted: those in flight over their rate.

    This is Little's law. A mean of the known waits would ignore the gap, but count the requests that waited through
    it. None if there is no such gap, or if the number in flight is unknown.
    """
    requests, queue = _request_counts(track, of_device), of_device.get("queue")
    if (
        track.metric != "await"
        or requests is None
        or queue is None
        or not track.shares_times(queue)
    ):
        return None
    if not (np.isnan(np.asarray(track.values, dtype=float)) & (requests > 0)).any():
        return None
    waited = np.asarray(queue.values, dtype=float) * np.asarray(track.durations, dtype=float)
    is_known = ~np.isnan(waited) & ~np.isnan(requests)
    return float(waited[is_known].sum() / requests[is_known].sum())


def _request_counts(track: Track, of_device: Mapping[str, Track]) -> Floats | None:
    """Return the number of requests behind each value; None if unknown."""
    metrics = REQUEST_RATES.get(track.metric, ())
    rates = [of_device[name] for name in metrics if name in of_device]
    if not rates or not all(map(track.shares_times, rates)):
        return None
    together = np.sum([np.asarray(rate.values, dtype=float) for rate in rates], axis=0)
    counts: Floats = together * np.asarray(track.durations, dtype=float)
    return counts


# of a panel; more points than twice this in one line cannot be seen
DEFAULT_PIXELS = 500
# that anybody's screen may ask for
MIN_PIXELS, MAX_PIXELS = 100, 2000


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds since the first sample; `pixels` is a panel's width."""

    start: float = -math.inf
    end: float = math.inf
    pixels: int = DEFAULT_PIXELS

    def slice_samples(self, times: Floats) -> tuple[slice, int]:
        """(which samples, how many of them to a bucket): whole buckets, which stay the same when somebody pans.

        With one sample before and one behind: a line goes on to the edge of its panel.
        """
        first = max(0, int(np.searchsorted(times, self.start)) - 1)
        last = min(len(times), int(np.searchsorted(times, self.end, "right")) + 1)
        every = samples_per_bucket(last - first, self.pixels)
        return slice(first // every * every, min(len(times), -(-last // every) * every)), every


WHOLE_SPAN = Span()


def rows_from_tracks(tracks: Iterable[Track], span: Span = WHOLE_SPAN) -> list[MetricRows]:
    """Return rows as fine as `span` needs."""
    return [
        narrow_rows(metric_rows(group), span) for group in group_by_clock(map(_as_sampled, tracks))
    ]


def _as_sampled(track: Track) -> SampledSeries:
    times, values = (
        np.asarray(numbers, dtype=np.float64) for numbers in (track.times, track.values)
    )
    return SampledSeries("", track.device, track.metric, track.unit, times, values)


def narrow_rows(rows: MetricRows, span: Span) -> MetricRows:
    """Narrow rows to a span, by sample. Facts about the whole stay."""
    part, every = span.slice_samples(rows.buckets.times)
    inside = bucket_samples(rows.buckets.times[part], rows.buckets.low[:, part])
    return replace(rows, buckets=inside.coarser(every))
