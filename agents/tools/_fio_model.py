"""What fio measured, whichever way it printed it, and how jobs merge into metrics.

Seconds, bytes, operations. Means are weighted by their I/O counts, variances pooled, and percentiles come from merged
histogram bins or, where there are none, from the one job that printed them: percentiles are never averaged (METHOD).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import Metric, ParseError, Unit

PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99.9": 99.9,
    "p99.99": 99.99,
}
NOT_MERGED = "no histogram bins: percentiles of several jobs do not merge"


@dataclass(frozen=True, slots=True)
class Latencies:
    """One latency statistic. `count` weighs it; bins map a latency (s) to a count, percentiles a rank (%) to s."""

    count: float
    mean: float
    stddev: float
    low: float
    high: float
    bins: Mapping[float, int] = field(default_factory=dict)
    percentiles: Mapping[float, float] = field(default_factory=dict)


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


def metrics(jobs: Sequence[FioJob], depth: int, note: str = "") -> list[Metric]:
    """All figures; `depth` is the asked iodepth where the output does not say, `note` what fio printed besides.

    Groups may have run one after another (stonewall), so several groups are labelled, never added up.
    Raises ParseError when there was no I/O at all.
    """
    if not any(job.traffic for job in jobs):
        # fio exits with 2 then, while its JSON says "error": 0
        raise ParseError("no job moved a byte" + (f"; it said: {note[:300]}" if note else ""))
    groups = sorted({job.group for job in jobs})
    found: list[Metric] = []
    for group in groups:
        labels = {"group": str(group)} if len(groups) > 1 else {}
        members = [job for job in jobs if job.group == group]
        found += _Writer(labels).group(members, depth, note)
    return found


def merge(parts: Iterable[Latencies | None]) -> Latencies | None:
    """Several statistics as if one had been kept. Percentiles survive only by bins, or when there is but one."""
    known = [part for part in parts if part is not None and part.count > 0]
    if len(known) < 2:
        return known[0] if known else None
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
        bins=_merge_bins(known),
    )


def _merge_bins(parts: Sequence[Latencies]) -> dict[float, int]:
    if not all(part.bins for part in parts):
        return {}  # half a histogram would be a wrong one
    merged: dict[float, int] = {}
    for part in parts:
        for latency, hits in part.bins.items():
            merged[latency] = merged.get(latency, 0) + hits
    return merged


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

    def add(self, name: str, value: float | None, unit: Unit, note: str = "") -> None:
        self.found.append(Metric(name, value, unit, self.labels, note))

    def group(self, jobs: Sequence[FioJob], depth: int, note: str) -> list[Metric]:
        for name in ("read", "write", "trim"):
            parts = [job.traffic[name] for job in jobs if name in job.traffic]
            if parts:
                self.direction(name, parts)
        self.total(jobs)
        self.latencies("sync.lat", merge(job.sync for job in jobs), len(jobs))
        self.host(jobs, depth)
        self.add("errors", float(sum(job.errors for job in jobs)), Unit.RATIO, note)
        return self.found

    def direction(self, name: str, parts: Sequence[Traffic]) -> None:
        self.rates(f"{name}.", parts)
        self.add(f"{name}.bytes", sum(part.bytes for part in parts), Unit.BYTES)
        counts = [part.ios for part in parts if part.ios is not None]
        if len(counts) == len(parts):
            self.add(f"{name}.ios", sum(counts), Unit.RATIO)
        for kind in ("slat", "lat"):
            self.mean(f"{name}.{kind}.mean", merge(getattr(part, kind) for part in parts))
        self.latencies(f"{name}.clat", merge(part.clat for part in parts), len(parts))

    def total(self, jobs: Sequence[FioJob]) -> None:
        parts = [part for job in jobs for part in job.traffic.values()]
        if not parts:
            return
        self.rates("", parts)
        self.mean("lat.mean", merge(part.lat for part in parts))
        wanted = {"mean", "p50", "p99", "p99.9"}
        self.latencies("clat", merge(part.clat for part in parts), len(parts), wanted)
        self.add("runtime", max(part.runtime for part in parts), Unit.SECONDS)

    def rates(self, prefix: str, parts: Sequence[Traffic]) -> None:
        self.add(f"{prefix}iops", sum(part.iops for part in parts), Unit.OPS_PER_SECOND)
        self.add(f"{prefix}bandwidth", sum(part.bandwidth for part in parts), Unit.BYTES_PER_SECOND)

    def mean(self, name: str, found: Latencies | None) -> None:
        if found is not None:
            self.add(name, found.mean, Unit.SECONDS)

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
                self.add(f"{name}.{figure}", value, Unit.SECONDS, note if figure == "mean" else "")

    def host(self, jobs: Sequence[FioJob], depth: int) -> None:
        reached = [_reached(job, depth) for job in jobs if job.levels and job.traffic]
        if reached:
            total = sum(weight for _, weight in reached)
            share = sum(share * weight for share, weight in reached) / total
            self.add("depth.reached", share, Unit.RATIO)
        for name, shares in (
            ("cpu.user", [job.cpu_user for job in jobs if job.cpu_user is not None]),
            ("cpu.system", [job.cpu_system for job in jobs if job.cpu_system is not None]),
        ):
            if shares:
                self.add(name, sum(shares) / len(shares), Unit.RATIO)


def _percentiles(found: Latencies) -> dict[str, float]:
    if found.bins:
        return {name: percentile(found.bins, rank) for name, rank in PERCENTILES.items()}
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
