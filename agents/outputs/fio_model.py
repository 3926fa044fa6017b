# SPDX-License-Identifier: Apache-2.0
"""Model of a fio result, whatever its format, and the merging of jobs; _fio_metrics.py makes figures of it.

Seconds, bytes, operations. Means are weighted by their I/O counts, variances pooled, and percentiles come from merged
histogram bins or, where there are none, from the one job that printed them: percentiles are never averaged (METHOD).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import add

from agents.contracts import ParseError

PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99.9": 99.9,
    "p99.99": 99.99,
}
# fio counts in 64 bits; anything above is no number of fio's
LARGEST = 2.0**65
# what fio calls the sum over --client; we add up by ourselves
ALL_CLIENTS = "All clients"
DIRECTIONS = ("read", "write", "trim")
KINDS = ("slat", "clat", "lat")


# where the output says a figure, from 1
Lines = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Latencies:
    """One latency statistic. `count` weighs it; bins map a latency to a count, percentiles a rank (%) to s.

    A bin is named as fio prints it, so many to a second: it is made a number only when the bins were added up.
    """

    count: float
    mean: float
    stddev: float
    low: float
    high: float
    bins: Mapping[str, int] = field(default_factory=dict)
    bins_per_second: float = 1.0
    percentiles: Mapping[float, float] = field(default_factory=dict)
    # Of "mean", "p99", …; "" of all others
    lines: Lines = field(default_factory=dict, compare=False)

    def with_bins(self, bins: Mapping[str, int]) -> Latencies:
        """The same with others. dataclasses.replace takes longer, and this is done for each direction."""
        return Latencies(
            self.count,
            self.mean,
            self.stddev,
            self.low,
            self.high,
            bins,
            self.bins_per_second,
            self.percentiles,
            self.lines,
        )


@dataclass(frozen=True, slots=True)
class Traffic:
    """One data direction of one job. `ios` is None where this version of fio did not print it."""

    iops: float
    bandwidth: float
    bytes: float
    ios: float | None
    runtime: float
    slat: Latencies | None = None
    clat: Latencies | None = None
    lat: Latencies | None = None
    # Of "iops", "bandwidth", "bytes", "ios", "runtime"; "" of all others
    lines: Lines = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SteadyState:
    """fio's `steadystate`: rates are means over the last `seconds`, true only where it was attained."""

    attained: bool
    # "iops_slope:50%"
    criterion: str
    # None: fio's text does not tell it
    seconds: float | None
    iops: float
    bandwidth: float
    # s; None where it is not the criterion
    latency: float | None
    # A share, a slope without its sign; None where the criterion is no percentage
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Goal:
    """fio's `latency_target`: the depth at which `share` of the I/Os kept within `latency` s, for `window` s."""

    depth: float
    # None where nothing tells its unit
    latency: float | None
    window: float | None
    share: float
    # fio summed jobs up, and tells the depth of one
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job, or one group of jobs that fio itself merged (group_reporting)."""

    group: int
    errors: int
    # "read", "write", "trim", or "mixed" (unified_rw_reporting)
    traffic: Mapping[str, Traffic]
    sync: Latencies | None = None
    # depth -> share of the I/Os, 0 to 1
    levels: Mapping[int, float] = field(default_factory=dict)
    # the iodepth that fio says it was given
    depth: int | None = None
    cpu_user: float | None = None
    cpu_system: float | None = None
    steady: SteadyState | None = None
    goal: Goal | None = None
    # Of "errors", "cpu.user", "cpu.system", "depth.reached", those of fio_aims; "" of all others
    lines: Lines = field(default_factory=dict, compare=False)


class Pool:
    """Several latency statistics as if one had been kept. Bins are added up at once: one by one they fill the memory.

    Percentiles survive only by bins, or when there is but one.
    """

    def __init__(self) -> None:
        self.parts: list[Latencies] = []
        # the first one's own, until there is a second
        self._bins: Mapping[str, int] = {}
        self._sums: defaultdict[str, int] | None = None
        # half a histogram would be a wrong one
        self._whole = True

    def add_latencies(self, part: Latencies | None) -> None:
        if part is None or part.count <= 0:
            return
        scales = {statistic.bins_per_second for statistic in (part, *self.parts[:1])}
        self._whole = self._whole and bool(part.bins) and len(scales) == 1
        if self._whole:
            self._add_bins(part.bins)
        self.parts.append(part.with_bins({}) if part.bins else part)

    def _add_bins(self, bins: Mapping[str, int]) -> None:
        if not self.parts:
            self._bins = bins
            return
        if self._sums is None:
            self._bins = self._sums = defaultdict(int, self._bins)
        sums = self._sums
        # in C: a loop over millions of bins takes twice as long
        sums.update(zip(bins, map(add, map(sums.__getitem__, bins), bins.values()), strict=True))

    def result(self) -> Latencies | None:
        parts, bins = self.parts, self._bins if self._whole else {}
        if len(parts) < 2:
            return parts[0].with_bins(bins) if parts else None
        count = sum(part.count for part in parts)
        mean = sum(part.mean * part.count for part in parts) / count
        squares = sum(
            max(part.count - 1, 0) * part.stddev**2 + part.count * (part.mean - mean) ** 2
            for part in parts
        )
        return Latencies(
            count=count,
            mean=mean,
            stddev=math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
            low=min(part.low for part in parts),
            high=max(part.high for part in parts),
            bins=bins,
            bins_per_second=parts[0].bins_per_second,
            lines=parts[0].lines,
        )


def merge(parts: Iterable[Latencies | None]) -> Latencies | None:
    counted_parts = [part for part in parts if part is not None and part.count > 0]
    # one direction, as nearly always
    if len(counted_parts) == 1:
        return counted_parts[0]
    pool = Pool()
    for part in counted_parts:
        pool.add_latencies(part)
    return pool.result()


def parse_number(text: str, where: str) -> float:
    """A number that fio gave as a key. Raises ParseError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < LARGEST:
        raise ParseError(f"{where}: {text[:80]!r} should be a number")
    return value


def percentiles_of_bins(statistic: Latencies, ranks: Iterable[float]) -> list[float]:
    """Percentiles (s) of its bins, as `percentiles` has them. Raises ParseError."""
    places = dict(zip(_sorted_bins(statistic), statistic.bins.values(), strict=True))
    return [at / statistic.bins_per_second for at in percentiles(places, ranks)]


def _sorted_bins(statistic: Latencies) -> list[float]:
    try:
        places = list(map(float, statistic.bins))
        right = not places or (
            math.isfinite(sum(places)) and min(places) >= 0 and max(places) < LARGEST
        )
    except ValueError:
        right = False
    # says which
    return places if right else [parse_number(at, "bins") for at in statistic.bins]


class Group:
    """The jobs of one group: their bins are kept only as sums."""

    def __init__(self) -> None:
        self.jobs: list[FioJob] = []
        # (direction, kind of latency)
        self.pools: dict[tuple[str, str], Pool] = {}

    def add_job(self, job: FioJob) -> None:
        slim = {name: self._traffic(name, part) for name, part in job.traffic.items()}
        self._pool("sync", "lat").add_latencies(job.sync)
        self.jobs.append(replace(job, traffic=slim, sync=None))

    def _traffic(self, name: str, part: Traffic) -> Traffic:
        for kind in KINDS:
            self._pool(name, kind).add_latencies(getattr(part, kind))
        return replace(part, slat=None, clat=None, lat=None)

    def _pool(self, name: str, kind: str) -> Pool:
        return self.pools.setdefault((name, kind), Pool())

    def pooled_latencies(self, name: str, kind: str) -> Latencies | None:
        return self._pool(name, kind).result()

    def total_latencies(self, kind: str) -> Latencies | None:
        """Latencies of all directions. Merging the sums is exact, since counts and squares add up."""
        return merge(self.pooled_latencies(name, kind) for name in (*DIRECTIONS, "mixed"))


def percentiles(bins: Mapping[float, int], ranks: Iterable[float]) -> list[float]:
    """Latency of the first bin at which `rank` percent of all samples are reached, for each rank: fio's own rule."""
    places = sorted(bins)
    reached = list(accumulate(map(bins.__getitem__, places)))
    ranked_places = (bisect_left(reached, rank / 100.0 * reached[-1]) for rank in ranks)
    return [places[min(at, len(places) - 1)] for at in ranked_places]
