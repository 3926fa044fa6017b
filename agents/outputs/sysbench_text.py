# SPDX-License-Identifier: Apache-2.0
"""Parser of sysbench 1.0's fileio report. Every line is known, and what is said twice must agree; else a ParseError.

Seen of 1.0.20 (Debian 11, 12 and 13).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import Metric, ParseError, Series, Unit

MIB = 1 << 20
MODES = {
    "seqwr": "sequential write (creation)",
    "seqrewr": "sequential rewrite",
    "seqrd": "sequential read",
    "rndrd": "random read",
    "rndwr": "random write",
    "rndrw": "random r/w",
}
IO_MODES = {"sync": "synchronous", "async": "asynchronous", "mmap": "fast mmaped"}
DIRECTIONS = {"seqrd": ("read",), "rndrd": ("read",), "rndrw": ("read", "write")}
RANKS = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
# of the last decimal that the report has
HALF = 0.005
# below it the histogram's whole microseconds are some percent of a value
COARSE_MS = 0.02
NUMBER = r"(\d+\.\d+)"
SIZE = r"[\d.]+(?:[KMGTPE]i)?B"
HEAD = re.compile(
    rf"sysbench 1\.\d+[^ ]* \(using \w+ LuaJIT [^()]*\)|Running the test with following options:"
    rf"|Report intermediate results every \d+ second\(s\)"
    rf"|Initializing random number generator from (?:current time|seed \(\d+\)\.)"
    rf"|Extra file open flags: [a-z() ]+|\d+ files, {SIZE} each|{SIZE} total file size|Block size {SIZE}"
    rf"|Number of IO requests: \d+|Read/Write ratio for combined random IO test: [\d.]+"
    rf"|Periodic FSYNC enabled, calling fsync\(\) each \d+ requests\."
    rf"|Calling fsync\(\) (?:at the end of test, Enabled|after each write operation)\."
    rf"|Initializing worker threads\.\.\."
)
STARTED = "Threads started!"
MEANWHILE = re.compile(
    rf"\[ (\d+)s \] reads: {NUMBER} MiB/s writes: {NUMBER} MiB/s fsyncs: {NUMBER}/s"
    rf" latency \(ms,(\d+)%\): {NUMBER}"
)
HISTOGRAM = (
    "Latency histogram (values are in milliseconds)",
    "value  ------------- distribution ------------- count",
)
BAR = re.compile(rf"{NUMBER} \|\**\s+(\d+)")
# In this order: what stands there, and what it is called here.
REPORT: tuple[tuple[str, str], ...] = (
    ("File operations:", ""),
    (rf"reads/s:\s+{NUMBER}", "reads"),
    (rf"writes/s:\s+{NUMBER}", "writes"),
    (rf"fsyncs/s:\s+{NUMBER}", "fsyncs"),
    ("Throughput:", ""),
    (rf"read, MiB/s:\s+{NUMBER}", "read"),
    (rf"written, MiB/s:\s+{NUMBER}", "write"),
    ("General statistics:", ""),
    (rf"total time:\s+{NUMBER}s", "runtime"),
    (r"total number of events:\s+(\d+)", "events"),
    (r"Latency \(ms\):", ""),
    (rf"min:\s+{NUMBER}", "min"),
    (rf"avg:\s+{NUMBER}", "avg"),
    (rf"max:\s+{NUMBER}", "max"),
    (rf"(\d+)th percentile:\s+{NUMBER}", "percentile"),
    (rf"sum:\s+{NUMBER}", "sum"),
    ("Threads fairness:", ""),
    (rf"events \(avg/stddev\):\s+{NUMBER}/{NUMBER}", "fair"),
    (rf"execution time \(avg/stddev\):\s+{NUMBER}/{NUMBER}", "execution"),
)
RATES = {"reads": "read", "writes": "write"}


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """Options asked for, and the kind of the printed times: "lat" of I/Os, "event" of whatever sysbench counts."""

    mode: str
    io_mode: str
    threads: int
    block_size: int
    times: str

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS.get(self.mode, ("write",))


def times_are(mode: str, io_mode: str, *, synced: bool) -> str:
    """ "lat" where the printed times are those of I/Os; "event" where some are of fsyncs, or of a mere submission."""
    writes = mode not in ("seqrd", "rndrd")
    return "event" if (writes and synced) or io_mode == "async" else "lat"


@dataclass(slots=True)
class Report:
    """Figures as they are printed, with the line of each, from 1."""

    figures: dict[str, float] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    # of the percentile in the report
    rank: int = 0
    # ms, events, line
    bars: list[tuple[float, int, int]] = field(default_factory=list)
    # s, MiB/s twice, op/s, %, ms
    meanwhile: list[tuple[float, ...]] = field(default_factory=list)


def parse_report(lines: Sequence[str], wish: RequestedRun) -> Report:
    """Parse the report. Raises ParseError."""
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ParseError("empty: sysbench printed nothing")
    for number, row in rows:
        if row.startswith(("FATAL:", "ERROR:", "WARNING:", "ALERT:")):
            raise ParseError(f"sysbench says: {row[:200]}", number, row)
    report, remaining_rows = Report(), iter(rows)
    _check_head(remaining_rows, wish)
    waiting = list(REPORT)
    for number, row in remaining_rows:
        if len(waiting) == len(REPORT) and _parse_before_report(report, number, row):
            continue
        if not waiting or not (match := re.fullmatch(waiting[0][0], row)):
            raise ParseError("not understood", number, row)
        _store_values(report, waiting.pop(0)[1], [*map(float, match.groups())], number)
    if waiting:
        raise ParseError("truncated: the report is missing or incomplete", *rows[-1])
    _check_report(report, wish)
    return report


def _check_head(rows: Iterator[tuple[int, str]], wish: RequestedRun) -> None:
    """Up to where the threads started: what it says it does is what was asked."""
    expected = {
        f"Number of threads: {wish.threads}",
        f"Using {IO_MODES[wish.io_mode]} I/O mode",
        f"Doing {MODES[wish.mode]} test",
    }
    number, row = 0, ""
    for number, row in rows:
        if row == STARTED:
            if expected:
                raise ParseError(f"missing: {', '.join(sorted(expected))}", number, row)
            return
        if row in expected:
            expected.remove(row)
        elif not HEAD.fullmatch(row):
            raise ParseError("not understood, or not what was asked", number, row)
    raise ParseError("truncated: its threads did not start", number, row)


def _parse_before_report(report: Report, number: int, row: str) -> bool:
    """True when the row may stand before the report; what it says is put into the report."""
    if match := MEANWHILE.fullmatch(row):
        if report.bars:
            return False
        report.meanwhile.append(tuple(map(float, match.groups())))
        return True
    if match := BAR.fullmatch(row):
        report.bars.append((float(match[1]), int(match[2]), number))
        return True
    return row in HISTOGRAM and not report.bars


def _store_values(report: Report, name: str, values: Sequence[float], number: int) -> None:
    if name == "percentile":
        report.rank = int(values[0])
    if name:
        report.figures[name], report.lines[name] = values[-1 if name == "percentile" else 0], number


def _check_report(report: Report, wish: RequestedRun) -> None:
    """Figures that tell of the same thing. Raises ParseError naming the line of one of them."""
    figures = report.figures
    if not figures["events"]:
        raise ParseError("no request was made", report.lines["events"])
    for rate, name in RATES.items():
        moved = figures[rate] * wish.block_size / MIB
        off = abs(figures[name] - moved) - HALF * (1 + wish.block_size / MIB)
        if off > 1e-9 * moved + 1e-6:
            raise _disagreement(report, name, f"{figures[rate]} {rate}/s of {wish.block_size} B")
        if figures[rate] and name not in wish.directions:
            raise _disagreement(report, rate, f"the test mode {wish.mode}")
    if abs(figures["sum"] / figures["events"] - figures["avg"]) > HALF + 1e-6:
        raise _disagreement(report, "avg", f"{figures['sum']} ms of {figures['events']:.0f} events")
    if (
        abs(figures["fair"] * wish.threads - figures["events"])
        > wish.threads * 5e-5 + 1e-6 * figures["events"]
    ):
        raise _disagreement(report, "fair", f"{figures['events']:.0f} events")
    if not figures["min"] <= figures["avg"] <= figures["max"]:
        raise _disagreement(report, "avg", "the least and the largest")
    if report.bars:
        _check_bars(report)


def _check_bars(report: Report) -> None:
    counted = sum(count for _, count, _ in report.bars)
    if counted != report.figures["events"]:
        raise _disagreement(report, "events", f"the histogram's {counted}")
    if any(a[0] > b[0] for a, b in zip(report.bars, report.bars[1:], strict=False)):
        raise ParseError("the histogram is not in order", report.bars[0][2])
    at = _percentile(report, report.rank)[0]
    if report.rank and abs(at - report.figures["percentile"]) > HALF + 0.0005 + 1e-6:
        raise _disagreement(report, "percentile", f"the histogram's {at} ms")


def _disagreement(report: Report, name: str, other: str) -> ParseError:
    figure = f"{report.figures[name]:g}"
    return ParseError(f"{name}: {figure} and {other} do not agree", report.lines[name])


def _percentile(report: Report, rank: float) -> tuple[float, int]:
    """Milliseconds below or at which so many percent of the events are, by sysbench's own rule, and the line."""
    rank_count, cumulated = int(report.figures["events"] * rank / 100 + 0.5), 0
    for at, count, line in report.bars:
        cumulated += count
        if cumulated >= rank_count:
            return at, line
    return report.bars[-1][0], report.bars[-1][2]


def report_metrics(report: Report, wish: RequestedRun) -> list[Metric]:
    """Rates of each direction and of both, the times, and what was done."""
    return [*_rate_metrics(report, wish), *_times(report, wish.times), *_count_metrics(report)]


def _rate_metrics(report: Report, wish: RequestedRun) -> Iterator[Metric]:
    figures, lines = report.figures, report.lines
    rates = {name: rate for rate, name in RATES.items() if name in wish.directions}
    for name, rate in rates.items():
        yield Metric(f"{name}.iops", figures[rate], Unit.OPS_PER_SECOND, line=lines[rate])
        moved = figures[name] * MIB
        yield Metric(f"{name}.bandwidth", moved, Unit.BYTES_PER_SECOND, line=lines[name])
    iops, moved = (
        sum(figures[rate] for rate in rates.values()),
        sum(figures[name] for name in rates),
    )
    first = next(iter(rates))
    yield Metric("iops", iops, Unit.OPS_PER_SECOND, line=lines[rates[first]])
    yield Metric("bandwidth", moved * MIB, Unit.BYTES_PER_SECOND, line=lines[first])
    if figures["fsyncs"]:
        yield Metric("fsync.ops", figures["fsyncs"], Unit.OPS_PER_SECOND, line=lines["fsyncs"])


def _times(report: Report, kind: str) -> Iterator[Metric]:
    """The mean is the sum's part: it has more digits than the average beside it."""
    figures, lines = report.figures, report.lines
    mean = figures["sum"] / figures["events"] / 1e3
    yield Metric(f"{kind}.mean", mean, Unit.SECONDS, line=lines["sum"])
    for name in ("min", "max"):
        yield _rounded(f"{kind}.{name}", figures[name], lines[name])
    if not report.bars:
        if report.rank:
            yield _rounded(f"{kind}.p{report.rank}", figures["percentile"], lines["percentile"])
        return
    for name, rank in RANKS.items():
        at, line = _percentile(report, rank)
        note = "it prints whole microseconds" if at < COARSE_MS else ""
        yield Metric(f"{kind}.{name}", at / 1e3, Unit.SECONDS, note=note, line=line)


def _rounded(name: str, printed: float, line: int) -> Metric:
    if printed:
        return Metric(name, printed / 1e3, Unit.SECONDS, line=line)
    return Metric(name, None, Unit.SECONDS, note="below 5 µs: it prints 0.00 ms", line=line)


def _count_metrics(report: Report) -> Iterator[Metric]:
    figures, lines = report.figures, report.lines
    yield Metric("events", figures["events"], Unit.RATIO, line=lines["events"])
    yield Metric("runtime", figures["runtime"], Unit.SECONDS, line=lines["runtime"])


def report_series(report: Report, wish: RequestedRun) -> list[Series]:
    """Series of the reports that it printed meanwhile, at the end of each interval; [] without any."""
    rows = report.meanwhile
    if not rows:
        return []
    columns: Mapping[str, tuple[Unit, Iterable[float]]] = {
        **{
            f"{name}.bandwidth": (Unit.BYTES_PER_SECOND, [row[at] * MIB for row in rows])
            for name, at in (("read", 1), ("write", 2))
            if name in wish.directions
        },
        "fsync.ops": (Unit.OPS_PER_SECOND, [row[3] for row in rows]),
        f"{wish.times}.p{rows[0][4]:.0f}": (Unit.SECONDS, [row[5] / 1e3 for row in rows]),
    }
    at = tuple(row[0] for row in rows)
    return [Series("", name, unit, at, tuple(values)) for name, (unit, values) in columns.items()]
