# SPDX-License-Identifier: Apache-2.0
"""fio's logs over time: *_bw, *_iops, *_lat, *_clat, *_slat.log, of all versions. Raises ParseError, nothing else.

A line is `msec, value, direction[, block size[, offset][, priority][, issue time]]`; with log_window_value=both the
maximum follows the value. Bandwidth is KiB/s; latency is microseconds before fio 3.0, nanoseconds since, which the log
itself seldom says. In a file that several jobs wrote one after another the time starts over with each.

A line of *_clat_hist.log is `msec, direction, block size, hits of each bin…`. The bins are fio's own: 64 to each
power of two. Since 3.0 there are 29 groups of nanoseconds, before 19 of microseconds; log_hist_coarseness joins 2, 4,
8, … of them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import fmean

from agents.contracts import ParseError
from agents.outputs.fio_model import percentiles

KINDS = ("bw", "iops", "slat", "clat", "lat")
LATENCIES = ("slat", "clat", "lat")
DIRECTIONS = ("read", "write", "trim", "sync", "sync", "sync")
# a time above is no run's but a clock's (log_unix_epoch)
EPOCH_MS = 10**11
_ROW = re.compile(r"\s*\d{1,20}(?:\s*,\s*(?:\d{1,20}|0x[0-9a-fA-F]{1,8})){2,7}\s*\Z")
_NAME = re.compile(
    r"(?:^|[_/\\])(bw|iops|slat|clat|lat|clat_hist)(?:\.(\d{1,6}))?\.log(?:\.txt)?\Z"
)
_VERSION = re.compile(r"fio-?(\d)\.(\d{1,2})")
# What an interval is told by: how far off a gap may be, how many are one of it, and how many are several.
OFF, OFTEN, MOST = 0.1, 0.2, 0.9
# columns at most before fio 3.0: with log_offset. 3.2x writes a priority in the place of the offset
OF_TWO = 5


def log_kind(name: str) -> tuple[str, str]:
    """Kind of log by a file's name ("bw", …, "clat_hist"; "" for no log), and the number of its job, or ""."""
    match = _NAME.search(name)
    return (match[1], match[2] or "") if match else ("", "")


def fio_version(text: str) -> tuple[int, int] | None:
    """The version of fio if a text or a file name has it, such as fio-3.33."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


class UnitUnknown(ParseError):
    """The log does not show whether its times are microseconds or nanoseconds."""


@dataclass(slots=True)
class Run:
    """One job's samples of one direction: seconds since its start, and values in base units."""

    direction: str
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def parse_runs(text: str, kind: str, version: tuple[int, int] | None) -> list[Run]:
    """The jobs' samples in the order of the file; `version`: fio's, where it is known."""
    rows = _parse_rows(text)
    at = _direction_column(rows)
    if version is None and (len(rows[0][1]) > OF_TWO or "0x" in text):
        # only these have more columns, or priorities in hexadecimal
        version = (3, 0)
    scale = _scale(kind, rows, version)
    start = rows[0][1][0] if rows and rows[0][1][0] > EPOCH_MS else 0
    runs: list[Run] = []
    current: dict[int, tuple[Run, int]] = {}
    for line, row in rows:
        msec, value, direction = row[0], row[1], row[at]
        if direction >= len(DIRECTIONS) or msec < start:
            raise ParseError("not a line of fio's log", line, str(row))
        run, last = current.get(direction, (None, 0))
        if run is None or msec < last:
            run = Run(DIRECTIONS[direction])
            runs.append(run)
        current[direction] = (run, msec)
        run.times.append((msec - start) / 1000)
        run.values.append(value * scale)
    for run in runs:
        if kind in LATENCIES:
            _join_samples_of_stalls(run)
        _averaged(run, rows)
    return runs


def _join_samples_of_stalls(run: Run) -> None:
    """Join the latencies that fio before 3.20 printed with one time, behind a wait longer than its interval.

        3550, 2459, 1
        5471, 194581, 1
        5475, 4039507, 1
        5475, 13797, 1

    It moves on by one interval for each sample, so that after a wait each I/O is a sample until it caught up. There
    are never more samples than intervals: a log of each I/O has more, and stays as it is.
    """
    if len(set(run.times)) == len(run.times):
        return
    step = interval([run])
    gaps = [b - a for a, b in pairwise([0.0, *run.times]) if b > a]
    regular = sum(abs(gap - step) <= OFF * step for gap in gaps) > len(gaps) / 2
    behind = all(number * step <= time + 2 * step for number, time in enumerate(run.times, 1))
    if not step or not regular or not behind:
        return
    samples: dict[float, list[float]] = {}
    for time, value in zip(run.times, run.values, strict=True):
        samples.setdefault(time, []).append(value)
    run.times = list(samples)
    # each of them is of about one I/O
    run.values = [fmean(values) for values in samples.values()]


def _averaged(run: Run, rows: list[tuple[int, list[int]]]) -> None:
    """Raises ParseError for a log of each I/O, in which many fall into the same millisecond."""
    if len(run.times) > 1 and run.times[-1] <= run.times[-2]:
        # what was left when the job ended, a moment after the last interval: an interval of no length
        del run.times[-1], run.values[-1]
    if any(b <= a for a, b in pairwise(run.times)):
        raise ParseError(
            "a sample for each I/O, not averaged over time: run fio with log_avg_msec",
            *_first_row(rows),
        )


def _parse_rows(text: str) -> list[tuple[int, list[int]]]:
    """Line and its numbers; all lines have as many."""
    rows: list[tuple[int, list[int]]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        if not _ROW.match(raw):
            raise ParseError("not a line of fio's log", number, raw)
        row = [int(part, 0) if "x" in part else int(part) for part in raw.split(",")]
        if rows and len(row) != len(rows[0][1]):
            raise ParseError(
                f"{len(row)} columns, the first line has {len(rows[0][1])}", number, raw
            )
        rows.append((number, row))
    if not rows:
        raise ParseError("an empty log: it holds no sample")
    return rows


def _direction_column(rows: list[tuple[int, list[int]]]) -> int:
    """2, or 3 where the maximum of the window follows its mean: each is told by what the columns may hold."""
    width = len(rows[0][1])
    plain = all(row[2] < len(DIRECTIONS) for _, row in rows)
    if width < 5 or not all(row[3] < len(DIRECTIONS) and row[2] >= row[1] for _, row in rows):
        return 2
    if plain:
        raise ParseError("which column is the direction cannot be told", *_first_row(rows))
    return 3


def _scale(kind: str, rows: list[tuple[int, list[int]]], version: tuple[int, int] | None) -> float:
    if kind not in LATENCIES:
        return 1024.0 if kind == "bw" else 1.0
    if version is not None:
        return 1e-9 if version >= (3, 0) else 1e-6
    raise UnitUnknown(
        "microseconds (fio before 3.0) or nanoseconds? The log does not say: put the version into the file's name, "
        "as in fio-3.19_lat.1.log",
        *_first_row(rows),
    )


def _first_row(rows: list[tuple[int, list[int]]]) -> tuple[int, str]:
    return rows[0][0], ", ".join(map(str, rows[0][1]))


def interval(all_runs: list[Run]) -> float:
    """Seconds between samples as they were asked for; 0 where there is none.

    Where nothing was done there is no sample: so it is the shortest gap that comes often, and that the others are so
    many of. Where none is, about the median.
    """
    gaps = sorted(b - a for run in all_runs for a, b in pairwise([0.0, *run.times]) if b > a)
    if not gaps:
        return 0.0
    shortest = (gaps[int(len(gaps) * share)] for share in (0.1, 0.2, 0.3, 0.4))
    near = next((step for step in map(partial(_alike, gaps), shortest) if step), gaps)
    median = near[len(near) // 2]
    for grid in (1.0, 0.5, 0.1, 0.05, 0.01):
        rounded = round(median / grid) * grid
        if rounded and abs(rounded - median) < 0.05 * median:
            # fio is some ms late each time: over a long run that adds up to intervals
            return rounded
    return median


def _alike(gaps: Sequence[float], step: float) -> Sequence[float]:
    """Those of about that length; none where they are few, or others are not so many of it."""
    near = [gap for gap in gaps if abs(gap - step) <= OFF * step]
    whole = sum(abs(gap / step - round(gap / step)) <= OFF for gap in gaps)
    often = len(near) >= max(2, OFTEN * len(gaps)) and whole >= MOST * len(gaps)
    return near if often else ()


GROUP_BITS = 6
# bins -> units per second
LAYOUTS = {29 << GROUP_BITS: 1e9, 19 << GROUP_BITS: 1e6}
COARSEST = 6
RANKS = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
HISTOGRAM_ROW = re.compile(r"[\d,\s]{1,50000}\Z")


@dataclass(slots=True)
class HistogramRun:
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


def parse_histogram_runs(text: str) -> list[HistogramRun]:
    """The runs of each job and direction, in the order of the file."""
    runs: list[HistogramRun] = []
    current: dict[int, tuple[HistogramRun, int]] = {}
    layout: list[float] = []
    start = None
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        row = _parse_histogram_row(raw, number)
        layout = layout or bin_latencies(len(row) - 3, number)
        start = (row[0] if row[0] > EPOCH_MS else 0) if start is None else start
        if len(row) - 3 != len(layout) or row[1] >= len(DIRECTIONS) or row[0] < start:
            raise ParseError("not a line of fio's histogram log", number, raw)
        run, last = current.get(row[1], (None, 0))
        if run is None or row[0] < last:
            run = HistogramRun(DIRECTIONS[row[1]], layout)
            runs.append(run)
        current[row[1]] = (run, row[0])
        run.times.append((row[0] - start) / 1000)
        hit = array("H", (at for at, hits in enumerate(row[3:]) if hits))
        run.packed.append((hit, array("Q", filter(None, row[3:]))))
    if not runs:
        raise ParseError("an empty log: it holds no sample")
    return runs


def _parse_histogram_row(raw: str, number: int) -> list[int]:
    if not HISTOGRAM_ROW.match(raw):
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
