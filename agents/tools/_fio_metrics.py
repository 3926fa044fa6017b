# SPDX-License-Identifier: Apache-2.0
"""Figures, histograms and measured windows of fio's jobs, in whichever format it printed them. Pure.

Histograms: fio has 64 bins to each power of two, from 128 units on; below, each unit is one. They are merged to a few
per power of two, nearly equally wide on a logarithmic axis. None of fio's bins is split: at the edge of a bin the share
of the I/Os below it is fio's own.

Windows: `job_start` (3.36 and later) is when a job's clock was set, and set again when its ramp was over; fio's logs
count from then. Before 3.36 there is only `timestamp_ms` of the result: up to LAG after the last job's end (seen with
3.33, 3.39 and 3.41), as fio waits for its threads. So the jobs must have begun together, and what may be behind their
end is cut off: a sample in the window is one of what was measured.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from agents.contracts import Histogram, Metric, ParseError, Timing, Unit, Window
from agents.jobs.job import after_ramp
from agents.outputs import fio_aims, fio_load
from agents.outputs.fio_log import GROUP_BITS
from agents.outputs.fio_model import (
    DIRECTIONS,
    PERCENTILES,
    FioJob,
    Group,
    Latencies,
    Traffic,
    parse_number,
    percentiles_of_bins,
)

NOT_MERGED = "no histogram bins: percentiles of several jobs do not merge"
# in the place of parts: nobody misses the percentiles that only lat_percentiles, slat_percentiles bring
NOT_ASKED = 1


# latencies whose histograms are kept
BINNED_KINDS = ("lat", "clat")


def job_metrics(jobs: Iterable[FioJob], depth: int, note: str = "") -> list[Metric]:
    """All figures; `depth` is the asked iodepth where the output does not say, `note` what fio printed besides.

    Jobs of a group that ran for unequal times count over the longest of them, as in fio's own sums.
    Groups may have run one after another (stonewall), so several groups are labelled, never added up.
    Raises ParseError when there was no I/O at all.
    """
    return group_metrics(grouped(jobs, note), depth, note)


def grouped(jobs: Iterable[FioJob], note: str = "") -> dict[int, Group]:
    """Jobs by their group, in its order. Raises ParseError when there was no I/O at all."""
    groups: dict[int, Group] = {}
    for job in jobs:
        groups.setdefault(job.group, Group()).add_job(job)
    if not any(job.traffic for group in groups.values() for job in group.jobs):
        # fio exits with 2 then, while its JSON says "error": 0
        raise ParseError("no job moved a byte" + (f"; output: {note[:300]}" if note else ""))
    return dict(sorted(groups.items()))


def group_metrics(groups: Mapping[int, Group], depth: int, note: str = "") -> list[Metric]:
    metrics: list[Metric] = []
    for number, group in groups.items():
        metrics += _Writer(_group_labels(number, groups)).group_metrics(group, depth, note)
    return metrics


def histograms(groups: Mapping[int, Group]) -> list[Histogram]:
    """A histogram for each group, direction and latency with bins; flushes too. Raises ParseError."""
    histograms: list[Histogram] = []
    for number, group in groups.items():
        statistics = [
            (name if direction == "mixed" else f"{direction}.{name}", direction, name)
            for direction in (*DIRECTIONS, "mixed")
            for name in BINNED_KINDS
        ]
        for title, direction, kind in (*statistics, ("sync.lat", "sync", "lat")):
            latencies = group.pooled_latencies(direction, kind)
            if latencies is not None and latencies.bins:
                histograms.append(histogram(title, latencies, _group_labels(number, groups)))
    return histograms


def _group_labels(number: int, groups: Mapping[int, Group]) -> dict[str, str]:
    return {"group": str(number)} if len(groups) > 1 else {}


class _Writer:
    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.found: list[Metric] = []
        # Of one direction the total has the very same bins. They are kept: a number of theirs is not given again.
        self._ranks: dict[int, tuple[Mapping[str, int], dict[str, float]]] = {}

    def add_metric(
        self, name: str, value: float | None, unit: Unit, note: str = "", line: int = 0
    ) -> None:
        self.found.append(Metric(name, value, unit, self.labels, note, line))

    def group_metrics(self, group: Group, depth: int, note: str) -> list[Metric]:
        jobs = group.jobs
        for name in DIRECTIONS:
            parts = [job.traffic[name] for job in jobs if name in job.traffic]
            if parts:
                self.direction(name, parts, group)
        self.add_totals(group)
        self.add_latencies("sync.lat", group.pooled_latencies("sync", "lat"), len(jobs))
        self.add_host(jobs, depth)
        errors = float(sum(job.errors for job in jobs))
        self.add_metric("errors", errors, Unit.RATIO, note, _figure_line(jobs, "errors"))
        for metric in fio_aims.aim_metrics(jobs, lambda figure: _figure_line(jobs, figure)):
            self.found.append(replace(metric, labels=self.labels))
        return self.found

    def direction(self, name: str, parts: Sequence[Traffic], group: Group) -> None:
        self.add_rates(f"{name}.", parts)
        moved = sum(part.bytes for part in parts)
        self.add_metric(f"{name}.bytes", moved, Unit.BYTES, line=_figure_line(parts, "bytes"))
        counts = [part.ios for part in parts if part.ios is not None]
        if len(counts) == len(parts):
            self.add_metric(f"{name}.ios", sum(counts), Unit.RATIO, line=_figure_line(parts, "ios"))
        for kind in ("slat", "lat"):
            statistic = group.pooled_latencies(name, kind)
            self.add_latencies(f"{name}.{kind}", statistic, NOT_ASKED, {"mean", *PERCENTILES})
        self.add_latencies(f"{name}.clat", group.pooled_latencies(name, "clat"), len(parts))

    def add_totals(self, group: Group) -> None:
        parts = [part for job in group.jobs for part in job.traffic.values()]
        if not parts:
            return
        self.add_rates("", parts)
        statistics = {"mean", "p50", "p99", "p99.9"}
        self.add_latencies("lat", group.total_latencies("lat"), NOT_ASKED, statistics)
        self.add_latencies("clat", group.total_latencies("clat"), len(parts), statistics)
        longest = max(parts, key=lambda part: part.runtime)
        self.add_metric(
            "runtime", longest.runtime, Unit.SECONDS, line=_figure_line([longest], "runtime")
        )

    def add_rates(self, prefix: str, parts: Sequence[Traffic]) -> None:
        iops = _total_rate([(part.iops, part.runtime) for part in parts])
        bandwidth = _total_rate([(part.bandwidth, part.runtime) for part in parts])
        self.add_metric(
            f"{prefix}iops", iops, Unit.OPS_PER_SECOND, line=_figure_line(parts, "iops")
        )
        line = _figure_line(parts, "bandwidth")
        self.add_metric(f"{prefix}bandwidth", bandwidth, Unit.BYTES_PER_SECOND, line=line)

    def add_latencies(
        self,
        name: str,
        statistic: Latencies | None,
        parts: int,
        wanted_figures: set[str] | None = None,
    ) -> None:
        if statistic is None:
            return
        figures = {
            "mean": statistic.mean,
            "stddev": statistic.stddev,
            "min": statistic.low,
            "max": statistic.high,
        }
        figures |= self._percentiles(statistic)
        note = "" if statistic.bins or statistic.percentiles or parts < 2 else NOT_MERGED
        for figure, value in figures.items():
            if wanted_figures is None or figure in wanted_figures:
                figure_note = note if figure == "mean" else ""
                self.add_metric(
                    f"{name}.{figure}",
                    value,
                    Unit.SECONDS,
                    figure_note,
                    _figure_line([statistic], figure),
                )

    def _percentiles(self, statistic: Latencies) -> dict[str, float]:
        if not statistic.bins:
            return _percentiles(statistic)
        if id(statistic.bins) not in self._ranks:
            self._ranks[id(statistic.bins)] = statistic.bins, _percentiles(statistic)
        return self._ranks[id(statistic.bins)][1]

    def add_host(self, jobs: Sequence[FioJob], depth: int) -> None:
        reached = [_reached(job, depth) for job in jobs if job.levels and job.traffic]
        if reached:
            total = sum(weight for _, weight in reached)
            share = sum(share * weight for share, weight in reached) / total
            self.add_metric(
                "depth.reached", share, Unit.RATIO, line=_figure_line(jobs, "depth.reached")
            )
        for name, shares in (
            ("cpu.user", [job.cpu_user for job in jobs if job.cpu_user is not None]),
            ("cpu.system", [job.cpu_system for job in jobs if job.cpu_system is not None]),
        ):
            if shares:
                mean = sum(shares) / len(shares)
                self.add_metric(name, mean, Unit.RATIO, line=_figure_line(jobs, name))


def _total_rate(parts: Sequence[tuple[float, float]]) -> float:
    """Rate of all (rate, runtime) pairs over the longest time, as fio sums up a group (stat.c).

    Who ended early did nothing behind that: the sum of rates would be one at which nothing ever ran.
    """
    longest = max(runtime for _, runtime in parts)
    if all(runtime == longest for _, runtime in parts):
        return sum(rate for rate, _ in parts)
    return sum(rate * runtime for rate, runtime in parts) / longest


def _figure_line(things: Iterable[Latencies | Traffic | FioJob], figure: str) -> int:
    """Line where the first of them says this figure; 0 where none does."""
    for thing in things:
        if line := thing.lines.get(figure, 0) or thing.lines.get("", 0):
            return line
    return 0


def _percentiles(statistic: Latencies) -> dict[str, float]:
    if statistic.bins:
        return dict(
            zip(PERCENTILES, percentiles_of_bins(statistic, PERCENTILES.values()), strict=True)
        )
    return {
        name: statistic.percentiles[rank]
        for name, rank in PERCENTILES.items()
        if rank in statistic.percentiles
    }


def _reached(job: FioJob, depth: int) -> tuple[float, float]:
    """Share of the I/Os issued at the asked depth's level or above, and its weight (the I/Os).

    fio counts in powers of two up to 64; a fsync is counted as an I/O too, which may sum above one.
    """
    depth_limit = min(job.depth or depth, 64)
    level = 1 << (depth_limit.bit_length() - 1)
    share = sum(share for at, share in job.levels.items() if at >= level)
    weight = sum(part.ios or part.iops * part.runtime for part in job.traffic.values())
    return min(share, 1.0), max(weight, 1.0)


MOST = 200
# tried in this order, until there are few enough
PER_DOUBLING = (32, 16, 8, 4, 2, 1)
_SUBS = 1 << GROUP_BITS

# Where it begins -> (where it ends, I/Os), in the units that fio printed
Bins = dict[int, tuple[int, int]]


def histogram(
    name: str, latencies: Latencies, labels: Mapping[str, str] | None = None
) -> Histogram:
    """Histogram of at most MOST bins, none empty, with all that fio counted. Raises ParseError."""
    bins = _printed(latencies.bins)
    for many in PER_DOUBLING:
        if len(bins) <= MOST:
            break
        # a coarser cut is among those of the finer
        bins = _merged(bins, many)
    lows, scale = sorted(bins), latencies.bins_per_second
    ends = [bins[low][0] / scale for low in lows]
    # fio's last bin takes whatever took longer
    if ends and latencies.high >= ends[-1]:
        ends[-1] = latencies.high + 1 / scale
    return Histogram(
        name,
        tuple(low / scale for low in lows),
        tuple(ends),
        tuple(bins[low][1] for low in lows),
        labels or {},
    )


def _printed(hits_by_name: Mapping[str, int]) -> Bins:
    """Bins by the middle that fio names each by. Rounded ones that fall into the same bin are added up."""
    bins: Bins = {}
    for text, hits in hits_by_name.items():
        if hits:
            low, end = _bin_span(text)
            bins[low] = end, hits + bins.get(low, (end, 0))[1]
    return bins


# fio has 1,856 bins, and an upload may have thousands of results.
@lru_cache(maxsize=4096)
def _bin_span(middle: str) -> tuple[int, int]:
    """Start and end of the bin of that name."""
    value = int(parse_number(middle, "bins"))
    if value < 2 * _SUBS:
        return value, value + 1
    bits = value.bit_length() - 1 - GROUP_BITS
    low = value >> bits << bits
    return low, low + (1 << bits)


def _merged(bins: Bins, many: int) -> Bins:
    """Bins merged to at most `many` for each power of two."""
    ends: dict[int, int] = {}
    counts: defaultdict[int, int] = defaultdict(int)
    for low, (_, hits) in bins.items():
        begin, end = _merged_bin(low, many)
        ends[begin] = end
        counts[begin] += hits
    return {low: (ends[low], counts[low]) for low in ends}


@lru_cache(maxsize=16384)
def _merged_bin(low: int, many: int) -> tuple[int, int]:
    """Start and end of the merged bin that holds the one from there on."""
    if low < _SUBS:
        # fewer to a power of two than fio has elsewhere
        return low, low + 1
    bits = low.bit_length() - 1
    cuts = _cuts(many)
    at = bisect_right(cuts, ((low - (1 << bits)) << GROUP_BITS) >> bits) - 1
    begin, end = cuts[at : at + 2]
    return (_SUBS + begin) << bits >> GROUP_BITS, (_SUBS + end) << bits >> GROUP_BITS


@cache
def _cuts(many: int) -> tuple[int, ...]:
    """First of a power of two's 64 parts in each merged bin, then 64: those of a coarser cut are among them."""
    return (*(round(_SUBS * (2 ** (at / many) - 1)) for at in range(many)), _SUBS)


WINDOW_DIRECTIONS = ("read", "write", "trim", "mixed")
# s
LAG = 0.3


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    group: int
    # epoch; NaN where fio did not say
    start: float
    seconds: float


def parse_json_windows(raw: bytes, timing: Timing, ramp: float, together: bool) -> list[Window]:
    """`ramp`: s that each job warms up for; `together`: they were asked to begin at the same time."""
    if timing.epoch is None:
        return []
    document = fio_load.load_document(raw)
    jobs = [_job_times(job) for job, _ in document.jobs if isinstance(job, dict)]
    groups = list(dict.fromkeys(job.group for job in jobs))
    stamp = _json_number(document.rest.get("timestamp_ms")) / 1000
    if not all(math.isfinite(job.start) for job in jobs):
        if not together or len(groups) != 1 or not math.isfinite(stamp):
            return []
        start = stamp - max(job.seconds for job in jobs)
        jobs = [_Job(job.name, job.group, start, job.seconds - LAG) for job in jobs]
    spans = [
        _jobs_span([job for job in jobs if job.group == group], timing.epoch) for group in groups
    ]
    if not all(0 <= start < end <= timing.ended - timing.started + 1 for start, end in spans):
        # by another clock
        return []
    names = [next(job.name for job in jobs if job.group == group) for group in groups]
    if len(groups) == 1:
        return after_ramp(*spans[0], ramp)
    return [Window(name, *span) for name, span in zip(names, spans, strict=True)]


def _jobs_span(jobs: Sequence[_Job], epoch: float) -> tuple[float, float]:
    start = min(job.start for job in jobs)
    return start - epoch, max(job.start + job.seconds for job in jobs) - epoch


def _job_times(job: Mapping[str, object]) -> _Job:
    parts = [part for name in WINDOW_DIRECTIONS if isinstance(part := job.get(name), dict)]
    ran = max((_json_number(part.get("runtime")) for part in parts), default=math.nan)
    start = _json_number(job.get("job_start")) / 1000
    number, name = job.get("groupid"), str(job.get("jobname", ""))[:100]
    return _Job(name, number if isinstance(number, int) else 0, start, ran / 1000)


def _json_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else math.nan
