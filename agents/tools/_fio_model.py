"""What fio measured, whichever way it printed it, and how jobs merge into metrics.

Seconds, bytes, operations. Means are weighted by their I/O counts, variances pooled, and percentiles come from merged
histogram bins or, where there are none, from the one job that printed them: percentiles are never averaged (METHOD).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.contracts import Metric, ParseError, Unit

PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99.9": 99.9,
    "p99.99": 99.99,
}
LARGEST = 2.0**65  # fio counts in 64 bits; anything above is no number of fio's
ALL_CLIENTS = "All clients"  # what fio calls the sum over --client; we add up by ourselves
DIRECTIONS = ("read", "write", "trim")
KINDS = ("slat", "clat", "lat")
NOT_MERGED = "no histogram bins: percentiles of several jobs do not merge"


Lines = Mapping[str, int]  # where the output says a figure, from 1


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
    lines: Lines = field(
        default_factory=dict, compare=False
    )  # of "mean", "p99", …; "" of all others


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
    lines: Lines = field(
        default_factory=dict, compare=False
    )  # of "iops", "bandwidth", "bytes", "ios", "runtime"; "" of all others


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job, or one group of jobs that fio itself merged (group_reporting)."""

    group: int
    errors: int
    traffic: Mapping[str, Traffic]  # "read", "write", "trim", or "mixed" (unified_rw_reporting)
    sync: Latencies | None = None
    levels: Mapping[int, float] = field(default_factory=dict)  # depth -> share of the I/Os, 0 to 1
    depth: int | None = None  # the iodepth that fio says it was given
    cpu_user: float | None = None
    cpu_system: float | None = None
    lines: Lines = field(
        default_factory=dict, compare=False
    )  # of "errors", "cpu.user", "cpu.system", "depth.reached"; "" of all others


def metrics(jobs: Iterable[FioJob], depth: int, note: str = "") -> list[Metric]:
    """All figures; `depth` is the asked iodepth where the output does not say, `note` what fio printed besides.

    Groups may have run one after another (stonewall), so several groups are labelled, never added up.
    Raises ParseError when there was no I/O at all.
    """
    groups: dict[int, Group] = {}
    for job in jobs:
        groups.setdefault(job.group, Group()).add(job)
    if not any(job.traffic for group in groups.values() for job in group.jobs):
        # fio exits with 2 then, while its JSON says "error": 0
        raise ParseError("no job moved a byte" + (f"; it said: {note[:300]}" if note else ""))
    found: list[Metric] = []
    for number, group in sorted(groups.items()):
        labels = {"group": str(number)} if len(groups) > 1 else {}
        found += _Writer(labels).group(group, depth, note)
    return found


class Pool:
    """Several latency statistics as if one had been kept. Bins are added up at once: one by one they fill the memory.

    Percentiles survive only by bins, or when there is but one.
    """

    def __init__(self) -> None:
        self.parts: list[Latencies] = []
        self._bins: defaultdict[str, int] = defaultdict(int)
        self._whole = True  # half a histogram would be a wrong one

    def add(self, part: Latencies | None) -> None:
        if part is None or part.count <= 0:
            return
        scales = {one.bins_per_second for one in (part, *self.parts[:1])}
        self._whole = self._whole and bool(part.bins) and len(scales) == 1
        if self._whole:
            bins = self._bins
            for at, hits in part.bins.items():
                bins[at] += hits
        self.parts.append(replace(part, bins={}))

    def result(self) -> Latencies | None:
        known, bins = self.parts, self._bins if self._whole else {}
        if len(known) < 2:
            return replace(known[0], bins=bins) if known else None
        count = sum(part.count for part in known)
        mean = sum(part.mean * part.count for part in known) / count
        squares = sum(
            max(part.count - 1, 0) * part.stddev**2 + part.count * (part.mean - mean) ** 2
            for part in known
        )
        return Latencies(
            count=count,
            mean=mean,
            stddev=math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
            low=min(part.low for part in known),
            high=max(part.high for part in known),
            bins=bins,
            bins_per_second=known[0].bins_per_second,
            lines=known[0].lines,
        )


def merge(parts: Iterable[Latencies | None]) -> Latencies | None:
    pool = Pool()
    for part in parts:
        pool.add(part)
    return pool.result()


def number(text: str, where: str) -> float:
    """A number that fio gave as a key. Raises ParseError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < LARGEST:
        raise ParseError(f"{where}: {text[:80]!r} should be a number")
    return value


def seconds(found: Latencies) -> dict[float, int]:
    """Its bins by latency (s)."""
    return {number(at, "bins") / found.bins_per_second: hits for at, hits in found.bins.items()}


class Group:
    """The jobs of one group: their bins are kept only as sums."""

    def __init__(self) -> None:
        self.jobs: list[FioJob] = []
        self.pools: dict[tuple[str, str], Pool] = {}  # (direction, kind of latency)

    def add(self, job: FioJob) -> None:
        slim = {name: self._traffic(name, part) for name, part in job.traffic.items()}
        self._pool("sync", "lat").add(job.sync)
        self.jobs.append(replace(job, traffic=slim, sync=None))

    def _traffic(self, name: str, part: Traffic) -> Traffic:
        for kind in KINDS:
            self._pool(name, kind).add(getattr(part, kind))
        return replace(part, slat=None, clat=None, lat=None)

    def _pool(self, name: str, kind: str) -> Pool:
        return self.pools.setdefault((name, kind), Pool())

    def latencies(self, name: str, kind: str) -> Latencies | None:
        return self._pool(name, kind).result()

    def whole(self, kind: str) -> Latencies | None:
        """Of all directions. Sums of sums: the same as of all parts, since counts and squares add up."""
        return merge(self.latencies(name, kind) for name in (*DIRECTIONS, "mixed"))


def percentile(bins: Mapping[float, int], rank: float) -> float:
    """Latency of the first bin at which `rank` percent of all samples are reached: fio's own rule."""
    wanted = rank / 100.0 * sum(bins.values())
    reached = 0
    for latency in sorted(bins):
        reached += bins[latency]
        if reached >= wanted:
            return latency
    return max(bins)


class _Writer:
    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.found: list[Metric] = []

    def add(
        self, name: str, value: float | None, unit: Unit, note: str = "", line: int = 0
    ) -> None:
        self.found.append(Metric(name, value, unit, self.labels, note, line))

    def group(self, group: Group, depth: int, note: str) -> list[Metric]:
        jobs = group.jobs
        for name in DIRECTIONS:
            parts = [job.traffic[name] for job in jobs if name in job.traffic]
            if parts:
                self.direction(name, parts, group)
        self.total(group)
        self.latencies("sync.lat", group.latencies("sync", "lat"), len(jobs))
        self.host(jobs, depth)
        errors = float(sum(job.errors for job in jobs))
        self.add("errors", errors, Unit.RATIO, note, _line(jobs, "errors"))
        return self.found

    def direction(self, name: str, parts: Sequence[Traffic], group: Group) -> None:
        self.rates(f"{name}.", parts)
        moved = sum(part.bytes for part in parts)
        self.add(f"{name}.bytes", moved, Unit.BYTES, line=_line(parts, "bytes"))
        counts = [part.ios for part in parts if part.ios is not None]
        if len(counts) == len(parts):
            self.add(f"{name}.ios", sum(counts), Unit.RATIO, line=_line(parts, "ios"))
        for kind in ("slat", "lat"):
            self.mean(f"{name}.{kind}.mean", group.latencies(name, kind))
        self.latencies(f"{name}.clat", group.latencies(name, "clat"), len(parts))

    def total(self, group: Group) -> None:
        parts = [part for job in group.jobs for part in job.traffic.values()]
        if not parts:
            return
        self.rates("", parts)
        self.mean("lat.mean", group.whole("lat"))
        wanted = {"mean", "p50", "p99", "p99.9"}
        self.latencies("clat", group.whole("clat"), len(parts), wanted)
        longest = max(parts, key=lambda part: part.runtime)
        self.add("runtime", longest.runtime, Unit.SECONDS, line=_line([longest], "runtime"))

    def rates(self, prefix: str, parts: Sequence[Traffic]) -> None:
        iops, bandwidth = sum(part.iops for part in parts), sum(part.bandwidth for part in parts)
        self.add(f"{prefix}iops", iops, Unit.OPS_PER_SECOND, line=_line(parts, "iops"))
        line = _line(parts, "bandwidth")
        self.add(f"{prefix}bandwidth", bandwidth, Unit.BYTES_PER_SECOND, line=line)

    def mean(self, name: str, found: Latencies | None) -> None:
        if found is not None:
            self.add(name, found.mean, Unit.SECONDS, line=_line([found], "mean"))

    def latencies(
        self, name: str, found: Latencies | None, parts: int, wanted: set[str] | None = None
    ) -> None:
        if found is None:
            return
        figures = {"mean": found.mean, "stddev": found.stddev, "min": found.low, "max": found.high}
        figures |= _percentiles(found)
        note = "" if found.bins or found.percentiles or parts < 2 else NOT_MERGED
        for figure, value in figures.items():
            if wanted is None or figure in wanted:
                said = note if figure == "mean" else ""
                self.add(f"{name}.{figure}", value, Unit.SECONDS, said, _line([found], figure))

    def host(self, jobs: Sequence[FioJob], depth: int) -> None:
        reached = [_reached(job, depth) for job in jobs if job.levels and job.traffic]
        if reached:
            total = sum(weight for _, weight in reached)
            share = sum(share * weight for share, weight in reached) / total
            self.add("depth.reached", share, Unit.RATIO, line=_line(jobs, "depth.reached"))
        for name, shares in (
            ("cpu.user", [job.cpu_user for job in jobs if job.cpu_user is not None]),
            ("cpu.system", [job.cpu_system for job in jobs if job.cpu_system is not None]),
        ):
            if shares:
                mean = sum(shares) / len(shares)
                self.add(name, mean, Unit.RATIO, line=_line(jobs, name))


def _line(things: Iterable[Latencies | Traffic | FioJob], figure: str) -> int:
    """Where the first of them says this figure."""
    for thing in things:
        if line := thing.lines.get(figure, 0) or thing.lines.get("", 0):
            return line
    return 0


def _percentiles(found: Latencies) -> dict[str, float]:
    if found.bins:
        bins = seconds(found)
        return {name: percentile(bins, rank) for name, rank in PERCENTILES.items()}
    return {
        name: found.percentiles[rank]
        for name, rank in PERCENTILES.items()
        if rank in found.percentiles
    }


def _reached(job: FioJob, depth: int) -> tuple[float, float]:
    """Share of the I/Os issued at the asked depth's level or above, and its weight (the I/Os).

    fio counts in powers of two up to 64; a fsync is counted as an I/O too, which may sum above one.
    """
    asked = min(job.depth or depth, 64)
    level = 1 << (asked.bit_length() - 1)
    share = sum(share for at, share in job.levels.items() if at >= level)
    weight = sum(part.ios or part.iops * part.runtime for part in job.traffic.values())
    return min(share, 1.0), max(weight, 1.0)
