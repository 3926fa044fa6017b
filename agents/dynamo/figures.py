# SPDX-License-Identifier: Apache-2.0
"""Figures of a worker or target in base units, and their sums. Runs on the host."""

from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

from agents.dynamo.results import BINS, RawResult

# Seconds; upper ends (exclusive) of dynamo's latency bins. The last bin stays empty: what takes 10 s is in none.
BOUNDS = (
    50e-6,
    100e-6,
    200e-6,
    500e-6,
    1e-3,
    2e-3,
    5e-3,
    10e-3,
    1 / 67,
    20e-3,
    1 / 33,
    50e-3,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    4.0,
    5.0,
    10.0,
)


class DirectionFigures(NamedTuple):
    """Figures of reads, of writes, or of both."""

    ios: int
    bytes: int
    errors: int
    # 1/s
    iops: float
    # B/s
    bandwidth: float
    # s: sum of all latencies
    waited: float
    # s
    slowest: float

    @property
    def mean(self) -> Optional[float]:
        """Mean latency in seconds; None without I/O."""
        return self.waited / self.ios if self.ios else None


class Figures(NamedTuple):
    reads: DirectionFigures
    writes: DirectionFigures
    # measured time, the longest
    seconds: float
    # () if dynamo has no bins
    bins: Tuple[int, ...]

    @property
    def combined(self) -> DirectionFigures:
        return sum_directions((self.reads, self.writes))


def sum_directions(ways: Iterable[DirectionFigures]) -> DirectionFigures:
    """Sum the rates, counts and summed latencies. A mean is computed from these sums, never from means."""
    parts: List[DirectionFigures] = list(ways)
    return DirectionFigures(
        sum(way.ios for way in parts),
        sum(way.bytes for way in parts),
        sum(way.errors for way in parts),
        sum(way.iops for way in parts),
        sum(way.bandwidth for way in parts),
        sum(way.waited for way in parts),
        max((way.slowest for way in parts), default=0.0),
    )


def target_figures(raw: RawResult, seconds: float, ticks: float) -> Figures:
    """Figures of one target. `seconds` > 0 is its worker's measured time; `ticks` is the clock rate per second."""
    reads = DirectionFigures(
        raw.read_count,
        raw.bytes_read,
        raw.read_errors,
        raw.read_count / seconds,
        raw.bytes_read / seconds,
        raw.read_latency_sum / ticks,
        raw.max_read_latency / ticks,
    )
    writes = DirectionFigures(
        raw.write_count,
        raw.bytes_written,
        raw.write_errors,
        raw.write_count / seconds,
        raw.bytes_written / seconds,
        raw.write_latency_sum / ticks,
        raw.max_write_latency / ticks,
    )
    return Figures(reads, writes, seconds, raw.bins)


def sum_figures(parts: Sequence[Figures]) -> Figures:
    """Sum the figures of targets or workers; with bins only if all have them."""
    whole = all(part.bins for part in parts)
    bins = tuple(sum(part.bins[n] for part in parts) for n in range(BINS)) if whole else ()
    return Figures(
        sum_directions(part.reads for part in parts),
        sum_directions(part.writes for part in parts),
        max(part.seconds for part in parts),
        bins,
    )


def bin_edges(number: int, scale: float = 1.0) -> Tuple[float, float]:
    """Bounds of a bin in seconds, from (inclusive) and to (exclusive); `scale` is reported/used ticks per second.

    dynamo computes the bins with its own rate, so they are wider or narrower if that is wrong.
    """
    low = BOUNDS[number - 1] if number else 0.0
    high = BOUNDS[number] if number < len(BOUNDS) else float("inf")
    return low * scale, high * scale


def percentile_bounds(
    measured: Figures, rank: float, scale: float = 1.0
) -> Optional[Tuple[float, float]]:
    """Bounds (s) of the latency that `rank` percent of all I/Os do not exceed; None if they are unknown."""
    ios = measured.combined.ios
    if not measured.bins or not ios:
        return None
    reached, slowest = 0, measured.combined.slowest
    for number in range(len(BOUNDS)):
        reached += measured.bins[number]
        if reached and reached >= rank / 100.0 * ios:
            low, high = bin_edges(number, scale)
            return low, max(low, min(high, slowest))
    return BOUNDS[-1] * scale, max(slowest, BOUNDS[-1] * scale)
