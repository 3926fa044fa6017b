# SPDX-License-Identifier: Apache-2.0
"""fio's logs, of one job or several, as series. Pure; raises ParseError, nothing else.

What jobs moved adds up, between the same two moments; mean latencies weigh by the I/Os of the same job and interval,
which its iops log tells (without, there is no series: an average of averages is none); histograms are added bin by bin
before any percentile. All jobs are taken to have begun together.

One thread of fio reads the rates of all jobs, some ms late each time, while each job's clock began at its own moment;
numbered by time, one job's fiftieth interval is soon another's fifty-first. Nor is there a sample of an interval in
which nothing was moved.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan

from agents.contracts import ParseError, Series, Unit
from agents.outputs import fio_log
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
    histograms: list[fio_log.HistogramRun] = []
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
                histograms += fio_log.parse_histogram_runs(text)
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
        (to_pieces(run, clock, step, held), clock)
        for runs in files.values()
        for run, clock in _clocked(runs, direction)
    ]
    longest = max((clock for _, clock in jobs), key=len)
    return sum_rates([pieces for pieces, _ in jobs], edges(longest, 0.0 if held else step))


def _clocked(runs: Sequence[Run], direction: str) -> list[tuple[Run, Sequence[float]]]:
    """The runs of that direction, each with the times at which its job was looked at.

    Both directions of a job tell those; of several jobs in one file nobody knows which belong together.
    """
    own = [run for run in runs if run.direction == direction]
    if len({run.direction for run in runs}) < len(runs):
        return [(run, run.times) for run in own]
    looks = clock(runs)
    return [(run, looks) for run in own]


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
        latencies = to_pieces(*own[0], step, held=False)
        jobs.append((latencies, to_pieces(*weights[0], by, held)))
        longest = max(longest, own[0][1], key=len)
    return weighed(jobs, edges(longest, step))


def _percentiles(runs: Sequence[fio_log.HistogramRun], log_interval: float) -> list[Series]:
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
        full = [(ends[at], fio_log.ranks(bins)) for at, bins in merged.items() if bins]
        for rank in fio_log.RANKS if full else ():
            points = [(time, ranks[rank]) for time, ranks in full]
            percentiles.append(_points_series(f"{direction}.clat.{rank}", Unit.SECONDS, points))
    return percentiles


def _interval_ends(jobs: Sequence[Sequence[float]], log_interval: float) -> list[float]:
    """Ends of intervals: those of the job with the most samples, then those of the longest job."""
    most, latest = max(jobs, key=len), max(jobs, key=lambda times: times[-1])
    step = log_interval or fio_log.interval([Run("", list(times)) for times in jobs])
    looks = [*most, *(at for at in latest if at > most[-1] + step / 2)]
    return edges(sorted(set(looks)), step)[1:]


def _nearest(ends: Sequence[float], time: float) -> int:
    at = bisect_left(ends, time)
    if at == len(ends) or (at and time - ends[at - 1] < ends[at] - time):
        return at - 1
    return at


def _points_series(metric: str, unit: Unit, points: Points) -> Series:
    rows = sorted(points)
    return Series("", metric, unit, tuple(t for t, _ in rows), tuple(v for _, v in rows))


# s: two directions of one job, looked at one after the other
NEAR = 0.005
# intervals: a sample that comes later than that is of the last one alone
LATE = 1.5
# intervals that are told one by one; of a longer log the ends of what has no sample
MOST = 200_000
# (end in s, value)
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """One job's values of one direction, rising: each from `starts` to `ends`, nothing between; known until `last`."""

    starts: Sequence[float]
    ends: Sequence[float]
    values: Sequence[float]
    last: float

    def pieces_within(self, begin: float, end: float) -> Iterator[tuple[float, float, float]]:
        """(begin, end, value) of what is of that time."""
        at = bisect_right(self.ends, begin)
        while at < len(self.ends) and self.starts[at] < end:
            yield max(begin, self.starts[at]), min(end, self.ends[at]), self.values[at]
            at += 1

    def amount_within(self, begin: float, end: float) -> float:
        return sum((b - a) * value for a, b, value in self.pieces_within(begin, end))

    def mean_rate(self, begin: float, end: float) -> float:
        """Mean over that time, or over as much of it as is known: half at least."""
        known_seconds = min(end, self.last) - begin
        if known_seconds * 2 < end - begin:
            return nan
        pieces = list(self.pieces_within(begin, end))
        if len(pieces) == 1 and pieces[0][:2] == (begin, end):
            return pieces[0][2]
        return sum((b - a) * value for a, b, value in pieces) / known_seconds


def clock(runs: Iterable[Run]) -> list[float]:
    """Times at which the job was looked at: of any sample of any of its directions."""
    times: list[float] = []
    for at in sorted(at for run in runs for at in run.times):
        if not times or at - times[-1] > NEAR:
            times.append(at)
    return times


def to_pieces(run: Run, looks: Sequence[float], step: float, held: bool) -> Pieces:
    """`looks`: the clock of its job, `step`: between two; `held`: each value is of all since the one before."""
    if held:
        starts = [_previous_look(at, run.times, 0.0) for at in run.times]
    else:
        starts = [_previous_look(at, looks, step) for at in run.times]
    return Pieces(starts, run.times, run.values, max(looks[-1], run.times[-1]))


def _previous_look(at: float, looks: Sequence[float], step: float) -> float:
    place = bisect_left(looks, at - NEAR)
    before = looks[place - 1] if place else _log_start(at, step)
    return at - step if step and at - before > LATE * step else before


def _log_start(at: float, step: float) -> float:
    """Start (s) of a log whose first sample is at `at`: its job's, or `step` before the sample of one by a clock."""
    return 0.0 if at > 0 else -step


def edges(looks: Sequence[float], step: float) -> list[float]:
    """Edges of the intervals of a clock, also of those without a sample."""
    moments = [_log_start(looks[0], step)]
    many = step > 0 and looks[-1] - moments[0] > MOST * step
    for at in looks:
        late = at - moments[-1] > LATE * step > 0
        if late and many:
            moments += sorted({moments[-1] + step, at - step})
        while late and not many and at - moments[-1] > LATE * step:
            moments.append(moments[-1] + step)
        moments.append(at)
    return moments


def sum_rates(jobs: Sequence[Pieces], between: Sequence[float]) -> Points:
    """Sum of the jobs' rates in each interval; NaN where one of them is over, for then nobody knows."""
    return [(b, sum(job.mean_rate(a, b) for job in jobs)) for a, b in pairwise(between) if b > a]


def weighed(jobs: Iterable[tuple[Pieces, Pieces]], between: Sequence[float]) -> Points:
    """Mean latency of the I/Os of all, by (latencies, rates) of each; intervals without any are left out."""
    job_rates = list(jobs)
    points = []
    for begin, end in pairwise(between):
        parts = [_of_job(*job, begin, end) for job in job_rates]
        known_parts = [part for part in parts if part is not None]
        if known_parts:
            ios = sum(count for _, count in known_parts)
            points.append((end, sum(total for total, _ in known_parts) / ios if ios else nan))
    return points


def _of_job(
    latencies: Pieces, rates: Pieces, begin: float, end: float
) -> tuple[float, float] | None:
    """(latency of all of its I/Os, how many); NaN where nobody knows how many, None where it has no latency."""
    inside = list(latencies.pieces_within(begin, end))
    if not inside:
        return None
    counts = [rates.amount_within(a, b) for a, b, _ in inside]
    if not sum(counts):
        return (nan, nan) if sum(b - a for a, b, _ in inside) * 2 >= end - begin else None
    return sum(n * value for n, (_, _, value) in zip(counts, inside, strict=True)), sum(counts)
