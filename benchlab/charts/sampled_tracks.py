# SPDX-License-Identifier: Apache-2.0
"""Samples of one metric and device: an attempt's stored ones, their times, measured windows, weights and resolution."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from django.db.models import QuerySet
from psycopg.sql import SQL, Literal

from agents.contracts import Window
from agents.drivers import registry
from agents.drivers.protocols import Reader, Tool
from benchlab.analysis.evidence import ENOUGH_SAMPLES
from benchlab.analysis.series import (
    Floats,
    Numbers,
    bucket_samples,
    samples_per_bucket,
    stored_step,
    weighted_mean,
)
from benchlab.results.reading import raw_connection
from benchlab.runs import strips
from benchlab.runs.attempt_meta import READERS
from benchlab.runs.models import Attempt, Series
from benchlab.runs.strips import (
    MetricRows,
    SampledSeries,
    group_by_clock,
    metric_rows,
    parse_float_array,
)

# s: two clocks of one host, read by different programs
CLOCK_TOLERANCE_S = 0.02
# s between samples from which a page says so: a busy host samples later than once a second
SPARSE_S = 1.5
WHOLE_RUN = "the whole run"
ALL_MEASURED = "all that was measured"


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

    @property
    def array(self) -> Floats:
        return np.asarray(self.values, dtype=np.float64)

    @property
    def mean(self) -> float:
        """Mean over time; NaN if no value is known."""
        return weighted_mean(self.values, self.durations)

    def shares_times(self, other: Track) -> bool:
        """True when both were sampled at the same times."""
        return self.times is other.times or np.array_equal(self.times, other.times)


@dataclass(frozen=True)
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

    @property
    def sampling_text(self) -> str:
        """Say how coarsely its devices were sampled; "" for enough samples of a second."""
        sampled = [track for track in self.tracks if track.device and len(track.times)]
        if not sampled:
            return "No whole sample of a device lies in what was measured."
        longest = max(sampled, key=lambda track: len(track.times))
        count, apart = len(longest.times), float(np.median(longest.durations))
        remarks = []
        if count < ENOUGH_SAMPLES:
            only = "whole sample lies" if count == 1 else "whole samples lie"
            remarks.append(f"only {count} {only} in what was measured, too few for findings")
        if apart >= SPARSE_S:
            remarks.append(f"samples are {apart:.1f} s apart")
        text = "; ".join(remarks)
        return f"{text[:1].upper()}{text[1:]}." if text else ""

    @cached_property
    def by_key(self) -> dict[tuple[str, str], Track]:
        """{(device, metric): its track}."""
        return {(track.device, track.metric): track for track in self.tracks}

    def mean(self, device: str, metric: str) -> float:
        """Mean over time; NaN if it was not sampled."""
        track = self.by_key.get((device, metric))
        return track.mean if track else math.nan


def read_windows(attempt: Attempt) -> list[Window]:
    """Return the windows of its tool's phases, on the clock of its tracks; [] if unknown."""
    return [
        Window(row["name"], row["start"], row["end"], row["measured"]) for row in attempt.windows
    ]


def measured_windows(windows: Iterable[Window]) -> list[Window]:
    return [window for window in windows if window.measured]


def select_part(tracks: Sequence[Track], windows: Sequence[Window], number: int = 0) -> Part:
    """Return all measured time, or one window of it; the whole run if it has none. Raises IndexError."""
    measured = measured_windows(windows)
    if not measured:
        return Part(0, WHOLE_RUN, tuple(tracks))
    chosen = measured if number == 0 else [measured[number - 1]]
    name = chosen[0].name if len(chosen) == 1 else ALL_MEASURED
    return Part(number, name, tuple(cut_tracks(tracks, chosen)), chosen[0].start, chosen[-1].end)


def measured_parts(tracks: Sequence[Track], windows: Sequence[Window]) -> list[Part]:
    """One of each measured window; of a run without any, the whole."""
    numbers = range(1, len(measured_windows(windows)) + 1)
    return [select_part(tracks, windows, number) for number in numbers or (0,)]


def cut_tracks(tracks: Iterable[Track], windows: Sequence[Window]) -> Iterator[Track]:
    """Yield the part of each track inside the windows, without tracks that have none or whose clock is unknown.

    A sampler's tracks share their times, which are cut once.
    """
    first: Track | None = None
    for track in tracks:
        if track.own_clock:
            continue
        if first is None or len(first.spans) or len(track.spans) or not first.shares_times(track):
            first = track
            inside = _samples_inside(track, windows)
            times = np.asarray(track.times, dtype=float)[inside]
            spans = np.asarray(track.durations)[inside]
        if len(times):
            yield replace(track, times=times, values=track.array[inside], spans=spans)


def _samples_inside(track: Track, windows: Sequence[Window]) -> npt.NDArray[np.bool_]:
    ends = np.asarray(track.times, dtype=float)
    starts = ends - np.asarray(track.durations)
    inside = np.zeros(ends.shape, dtype=bool)
    for window in windows:
        inside |= (starts >= window.start - CLOCK_TOLERANCE_S) & (
            ends <= window.end + CLOCK_TOLERANCE_S
        )
    return inside


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


def request_counts(track: Track, of_device: Mapping[str, Track]) -> Floats | None:
    """Return the number of requests behind each value; None if unknown."""
    metrics = REQUEST_RATES.get(track.metric, ())
    rates = [of_device[name] for name in metrics if name in of_device]
    if not rates or not all(map(track.shares_times, rates)):
        return None
    together = np.sum([rate.array for rate in rates], axis=0)
    counts: Floats = together * np.asarray(track.durations, dtype=float)
    return counts


def mean_across_gaps(track: Track, of_device: Mapping[str, Track]) -> float | None:
    """Return the mean wait (s) if a wait is unknown though requests were counted: those in flight over their rate.

    This is Little's law. A mean of the known waits would ignore the gap, but count the requests that waited through
    it. None if there is no such gap, or if the number in flight is unknown.
    """
    requests, queue = request_counts(track, of_device), of_device.get("queue")
    if (
        track.metric != "await"
        or requests is None
        or queue is None
        or not track.shares_times(queue)
        or not (np.isnan(track.array) & (requests > 0)).any()
    ):
        return None
    waited = queue.array * np.asarray(track.durations, dtype=float)
    is_known = ~np.isnan(waited) & ~np.isnan(requests)
    return float(waited[is_known].sum() / requests[is_known].sum())


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

    def narrow(self, series: Iterable[SampledSeries]) -> list[MetricRows]:
        """Return rows that are as fine as the span needs. Their maxima are those of the whole."""
        narrowed = []
        for rows in map(metric_rows, group_by_clock(series)):
            part, every = self.slice_samples(rows.buckets.times)
            inside = bucket_samples(rows.buckets.times[part], rows.buckets.low[:, part])
            narrowed.append(replace(rows, buckets=inside.coarser(every)))
        return narrowed


WHOLE_SPAN = Span()


def rows_from_tracks(tracks: Iterable[Track], span: Span = WHOLE_SPAN) -> list[MetricRows]:
    return span.narrow(
        SampledSeries(
            "", t.device, t.metric, t.unit, np.asarray(t.times, dtype=np.float64), t.array
        )
        for t in tracks
    )


# a day's is 1.4 MB
SERIES_AT_ONCE = 8


def read_rows(attempt: Attempt, metrics: Collection[str], span: Span) -> list[MetricRows]:
    """Read rows of these metrics for every device. Both ways to read them give the same rows."""
    host_clock = _shares_host_clock(attempt)
    return [
        replace(
            rows,
            devices=tuple(
                _device_name(rows.sampler, rows.metric, device, host_clock)[0]
                for device in rows.devices
            ),
        )
        for rows in (
            *_rows_from_strips(attempt, metrics, span),
            *_rows_from_series(attempt, metrics, span),
        )
    ]


def _rows_from_strips(
    attempt: Attempt, metrics: Collection[str], span: Span
) -> Iterator[MetricRows]:
    for clock, times in strips.read_clocks(attempt).items():
        part, every = span.slice_samples(times)
        step = stored_step(every)
        for rows in strips.read_strips(attempt, list(metrics), clock, times, step, part):
            yield replace(rows, buckets=rows.buckets.coarser(every // step))


def _rows_from_series(attempt: Attempt, metrics: Collection[str], span: Span) -> list[MetricRows]:
    """Read the rows that no strip holds."""
    has = {
        (s, m, device) for s, m, devices in strips.covered_metrics(attempt) for device in devices
    }
    rows = _series_rows(attempt).filter(metric__in=metrics)
    keys = rows.values_list("pk", "sampler", "metric", "device")
    return span.narrow(_read_series([pk for pk, *key in keys if tuple(key) not in has]))


def _series_rows(attempt: Attempt) -> QuerySet[Series]:
    return Series.objects.filter(attempt=attempt).order_by("sampler", "device", "pk")


def _read_series(pks: Sequence[int]) -> Iterator[SampledSeries]:
    """Read a few series at a time, in binary: as text a day of a hundred series takes ten times as long."""
    for at in range(0, len(pks), SERIES_AT_ONCE):
        statement = SQL(
            "SELECT sampler, device, metric, unit, array_send(times), array_send(values)"
            " FROM runs_series WHERE id = ANY({}) ORDER BY sampler, device, id"
        ).format(Literal(list(pks[at : at + SERIES_AT_ONCE])))
        with psycopg.Cursor(raw_connection()) as cursor:
            rows = cursor.execute(statement, binary=True).fetchall()
        for sampler, device, metric, unit, times, values in rows:
            yield SampledSeries(
                sampler, device, metric, unit, parse_float_array(times), parse_float_array(values)
            )


def read_tracks(attempt: Attempt) -> list[Track]:
    return list(iterate_tracks(attempt))


def iterate_tracks(attempt: Attempt) -> Iterator[Track]:
    """Yield the tracks one after the other, with only a few series in memory at a time."""
    host_clock = _shares_host_clock(attempt)
    for series in _read_series(list(_series_rows(attempt).values_list("pk", flat=True))):
        name, apart = _device_name(series.sampler, series.metric, series.device, host_clock)
        yield Track(name, series.metric, series.unit, series.times, series.values, own_clock=apart)


def _shares_host_clock(attempt: Attempt) -> bool:
    """True if the offset between the tool's times and the host's clock is known."""
    return len(measured_windows(read_windows(attempt))) == 1 or READERS in attempt.meta


def _device_name(sampler: str, metric: str, device: str, host_clock: bool) -> tuple[str, bool]:
    """Return (the device's name, whether its times are on a clock other than the host's)."""
    name = "" if device else _tool_label(sampler, metric)
    apart = bool(name) and not host_clock
    return f"{name}, by its own clock" if apart else name or device, apart


def _tool_label(sampler: str, metric: str) -> str:
    """Label of the tool whose own figures these are, or they would be taken for the host's; "" where they are the
    host's.
    """
    if sampler in registry.all_samplers() or metric.startswith("cpu."):
        return ""
    drivers: dict[str, Tool[Any] | Reader] = {**registry.all_readers(), **registry.all_tools()}
    driver = drivers.get(sampler)
    return f"{driver.LABEL} itself" if driver else sampler
