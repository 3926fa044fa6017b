# SPDX-License-Identifier: Apache-2.0
"""fio's *_clat_hist.log: how many I/Os fell into each latency bin, by interval. Raises ParseError, nothing else.

A line is `msec, direction, block size, hits of each bin…`. The bins are fio's own: 64 to each power of two. Since 3.0
there are 29 groups of nanoseconds, before 19 of microseconds; log_hist_coarseness joins 2, 4, 8, … of them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.contracts import ParseError
from agents.outputs.fio_log import DIRECTIONS, EPOCH_MS
from agents.outputs.fio_model import percentiles

GROUP_BITS = 6
# bins -> units per second
LAYOUTS = {29 << GROUP_BITS: 1e9, 19 << GROUP_BITS: 1e6}
COARSEST = 6
RANKS = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
_ROW = re.compile(r"[\d,\s]{1,50000}\Z")


@dataclass(slots=True)
class Run:
    """One job's intervals of one direction: seconds since its start, and hits by latency (s)."""

    direction: str
    # the latency of each bin
    layout: list[float]
    times: list[float] = field(default_factory=list)
    # Which bins were hit, and how often: as dicts, hours of many jobs would fill the memory.
    packed: list[tuple[array[int], array[int]]] = field(default_factory=list)

    @property
    def sample_bins(self) -> Iterator[dict[float, int]]:
        for hit, hits in self.packed:
            yield {self.layout[at]: count for at, count in zip(hit, hits, strict=True)}


def parse_runs(text: str) -> list[Run]:
    """The runs of each job and direction, in the order of the file."""
    runs: list[Run] = []
    current: dict[int, tuple[Run, int]] = {}
    layout: list[float] = []
    start = None
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        row = _parse_row(raw, number)
        layout = layout or bin_latencies(len(row) - 3, number)
        start = (row[0] if row[0] > EPOCH_MS else 0) if start is None else start
        if len(row) - 3 != len(layout) or row[1] >= len(DIRECTIONS) or row[0] < start:
            raise ParseError("not a line of fio's histogram log", number, raw)
        run, last = current.get(row[1], (None, 0))
        if run is None or row[0] < last:
            run = Run(DIRECTIONS[row[1]], layout)
            runs.append(run)
        current[row[1]] = (run, row[0])
        run.times.append((row[0] - start) / 1000)
        hit = array("H", (at for at, hits in enumerate(row[3:]) if hits))
        run.packed.append((hit, array("Q", filter(None, row[3:]))))
    if not runs:
        raise ParseError("an empty log: it holds no sample")
    return runs


def _parse_row(raw: str, number: int) -> list[int]:
    if not _ROW.match(raw):
        raise ParseError("not a line of fio's histogram log", number, raw)
    try:
        row = [int(part) for part in raw.split(",")]
    except ValueError:
        raise ParseError("not a line of fio's histogram log", number, raw) from None
    if max(row) >= 1 << 64:
        raise ParseError("a number that is not fio's", number, raw)
    return row


def bin_latencies(count: int, line: int = 0) -> list[float]:
    """The middle (s) of each of `count` bins."""
    for whole, per_second in LAYOUTS.items():
        for coarseness in range(COARSEST + 1):
            stride = 1 << coarseness
            if count == whole // stride:
                return [middle(at, stride) / per_second for at in range(0, whole, stride)]
    raise ParseError(f"{count} bins: fio has no such histogram", line, f"{count} bins")


def middle(first: int, stride: int = 1) -> float:
    """Latency of so many bins from this one on, in the units of the layout."""
    if stride == 1 and first < 2 << GROUP_BITS:
        # a bin of its own for each of the least
        return float(first)
    begin, _ = _bin_span(first)
    return (begin + sum(_bin_span(first + stride - 1))) / 2


def _bin_span(at: int) -> tuple[int, int]:
    """Start and width of a bin, in the log's unit."""
    if at < 2 << GROUP_BITS:
        return at, 1
    bits = (at >> GROUP_BITS) - 1
    return (1 << (bits + GROUP_BITS)) + (at % (1 << GROUP_BITS) << bits), 1 << bits


def ranks(bins: dict[float, int]) -> dict[str, float]:
    return dict(zip(RANKS, percentiles(bins, RANKS.values()), strict=True))
