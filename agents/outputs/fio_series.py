# SPDX-License-Identifier: Apache-2.0
"""fio's logs, of one job or several, as series. Pure; raises ParseError, nothing else.

What jobs moved adds up (fio_intervals); mean latencies weigh by the I/Os of the same job and interval, which its iops
log tells (without, there is no series: an average of averages is none); histograms are added bin by bin before any
percentile. All jobs are taken to have begun together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import ParseError, Series, Unit
from agents.outputs import fio_hist, fio_intervals, fio_log
from agents.outputs.fio_intervals import Pieces, Points
from agents.outputs.fio_log import Run

NAMES = {
    "bw": "bandwidth",
    "iops": "iops",
    "slat": "slat.mean",
    "clat": "clat.mean",
    "lat": "lat.mean",
}
UNITS = {"bw": Unit.BYTES_PER_SECOND, "iops": Unit.OPS_PER_SECOND}
# From then on fio looks at rates by a clock; before, at the end of an I/O, and each was of all since the one before.
BY_CLOCK = (2, 2)


@dataclass(frozen=True, slots=True)
class LogIntervals:
    """s from one sample to the next, of averages and of histograms; 0: nobody tells."""

    averages: float = 0.0
    histograms: float = 0.0


UNKNOWN_INTERVALS = LogIntervals()
# number of the job -> its runs
Files = Mapping[str, Sequence[Run]]


def logs_to_series(
    files: Mapping[str, str],
    version: tuple[int, int] | None,
    log_intervals: LogIntervals = UNKNOWN_INTERVALS,
) -> list[Series]:
    """Series of the logs of one run, by file name. `version` is fio's, where it is known."""
    # kind -> number of the job -> its runs
    logs: dict[str, dict[str, list[Run]]] = {}
    histograms: list[fio_hist.Run] = []
    read: set[tuple[str, str]] = set()
    for name in sorted(files):
        kind, number = fio_log.log_kind(name)
        # one at a time: they may be large
        text = files[name] if kind else ""
        if not text.strip():
            # fio makes a log of what never happened, too
            continue
        if (kind, number) in read:
            raise ParseError(f"{name}: a second log of the same job")
        read.add((kind, number))
        try:
            if kind == "clat_hist":
                histograms += fio_hist.parse_runs(text)
            else:
                logs.setdefault(kind, {})[number] = fio_log.parse_runs(text, kind, version)
        except ParseError as error:
            raise type(error)(f"{name}: {error}") from None
    held = version is not None and version < BY_CLOCK
    means = [
        series
        for kind in fio_log.KINDS
        if kind in logs
        for series in _means(kind, logs, log_intervals.averages, held)
    ]
    return means + _percentiles(histograms, log_intervals.histograms)


def _means(kind: str, logs: Mapping[str, Files], log_interval: float, held: bool) -> list[Series]:
    files = logs[kind]
    every = [run for runs in files.values() for run in runs]
    step = log_interval or fio_log.interval(every)
    means = []
    for direction in dict.fromkeys(run.direction for run in every):
        if kind not in fio_log.LATENCIES:
            points = _summed_rates(files, direction, step, held)
        elif len(alone := [run for run in every if run.direction == direction]) == 1:
            points = list(zip(alone[0].times, alone[0].values, strict=True))
        else:
            points = _weighed(files, logs.get("iops", {}), direction, step, held)
        if points:
            unit = UNITS.get(kind, Unit.SECONDS)
            means.append(_points_series(f"{direction}.{NAMES[kind]}", unit, points))
    return means


def _summed_rates(files: Files, direction: str, step: float, held: bool) -> Points:
    jobs = [
        (fio_intervals.to_pieces(run, clock, step, held), clock)
        for runs in files.values()
        for run, clock in _clocked(runs, direction)
    ]
    longest = max((clock for _, clock in jobs), key=len)
    edges = fio_intervals.edges(longest, 0.0 if held else step)
    return fio_intervals.sum_rates([pieces for pieces, _ in jobs], edges)


def _clocked(runs: Sequence[Run], direction: str) -> list[tuple[Run, Sequence[float]]]:
    """The runs of that direction, each with the times at which its job was looked at.

    Both directions of a job tell those; of several jobs in one file nobody knows which belong together.
    """
    own = [run for run in runs if run.direction == direction]
    if len({run.direction for run in runs}) < len(runs):
        return [(run, run.times) for run in own]
    clock = fio_intervals.clock(runs)
    return [(run, clock) for run in own]


def _weighed(files: Files, rates: Files, direction: str, step: float, held: bool) -> Points:
    """Nothing where a job's I/Os are not told: several jobs in one file end in an order of their own in each log."""
    jobs: list[tuple[Pieces, Pieces]] = []
    longest: Sequence[float] = ()
    every = [run for runs in rates.values() for run in runs]
    by = fio_log.interval(every)
    for number, runs in files.items():
        own, weights = _clocked(runs, direction), _clocked(rates.get(number, ()), direction)
        if not own:
            continue
        if len(own) > 1 or len(weights) != 1:
            return []
        latencies = fio_intervals.to_pieces(*own[0], step, held=False)
        jobs.append((latencies, fio_intervals.to_pieces(*weights[0], by, held)))
        longest = max(longest, own[0][1], key=len)
    return fio_intervals.weighed(jobs, fio_intervals.edges(longest, step))


def _percentiles(runs: Sequence[fio_hist.Run], log_interval: float) -> list[Series]:
    """All that any job counted, in the intervals of the one that told the most: each to the end that is nearest."""
    percentiles = []
    for direction in dict.fromkeys(run.direction for run in runs):
        some = [run for run in runs if run.direction == direction]
        ends = _interval_ends([run.times for run in some], log_interval)
        merged: dict[int, dict[float, int]] = {}
        for run in some:
            for time, bins in zip(run.times, run.sample_bins, strict=True):
                total = merged.setdefault(_nearest(ends, time), {})
                for latency, hits in bins.items():
                    total[latency] = total.get(latency, 0) + hits
        full = [(ends[at], fio_hist.ranks(bins)) for at, bins in merged.items() if bins]
        for rank in fio_hist.RANKS if full else ():
            points = [(time, ranks[rank]) for time, ranks in full]
            percentiles.append(_points_series(f"{direction}.clat.{rank}", Unit.SECONDS, points))
    return percentiles


def _interval_ends(jobs: Sequence[Sequence[float]], log_interval: float) -> list[float]:
    """Ends of intervals: those of the job with the most samples, then those of the longest job."""
    most, latest = max(jobs, key=len), max(jobs, key=lambda times: times[-1])
    step = log_interval or fio_log.interval([Run("", list(times)) for times in jobs])
    looks = [*most, *(at for at in latest if at > most[-1] + step / 2)]
    return fio_intervals.edges(sorted(set(looks)), step)[1:]


def _nearest(ends: Sequence[float], time: float) -> int:
    at = bisect_left(ends, time)
    if at == len(ends) or (at and time - ends[at - 1] < ends[at] - time):
        return at - 1
    return at


def _points_series(metric: str, unit: Unit, points: Points) -> Series:
    rows = sorted(points)
    return Series("", metric, unit, tuple(t for t, _ in rows), tuple(v for _, v in rows))
