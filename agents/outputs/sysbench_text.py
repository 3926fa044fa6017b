# SPDX-License-Identifier: Apache-2.0
"""Parser of sysbench's fileio report. Every line is known, and what is said twice must agree; else a ParseError.

Seen of 1.0.20 (Debian 11, 12 and 13), and of 0.4.12 and 0.5, which count operations where 1.0 prints rates, and print
sizes in powers of 1024 as "Mb". Its times are those of reads and writes alone, unless each write is synced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
# as rates and times are printed: with fewer, the text ends within it
HUNDREDTHS = r"(\d+\.\d\d)"
SIZE = r"[\d.]+(?:(?:[KMGTPE]i)?B|[KMGT]?b)"
HEAD = re.compile(
    rf"sysbench 1\.\d+[^ ]* \(using \w+ LuaJIT [^()]*\)"
    rf"|sysbench 0\.\d+[^ ]*:  ?multi-threaded system evaluation benchmark|Running the test with following options:"
    rf"|Report intermediate results every \d+ second\(s\)"
    rf"|Initializing random number generator from (?:current time|timer\.|seed \(\d+\)\.)"
    rf"|Random number generator seed is \d+ and will be ignored"
    rf"|Extra file open flags: (?:[a-z() ]+|\d+)"
    rf"|\d+ files, {SIZE} each|{SIZE} total file size|Block size {SIZE}"
    rf"|Number of (?:IO requests|random requests for (?:combined )?random IO): \d+"
    rf"|Read/Write ratio for combined random IO test: [\d.]+"
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
    (rf"reads/s:\s+{HUNDREDTHS}", "reads"),
    (rf"writes/s:\s+{HUNDREDTHS}", "writes"),
    (rf"fsyncs/s:\s+{HUNDREDTHS}", "fsyncs"),
    ("Throughput:", ""),
    (rf"read, MiB/s:\s+{HUNDREDTHS}", "read"),
    (rf"written, MiB/s:\s+{HUNDREDTHS}", "write"),
    ("General statistics:", ""),
    (rf"total time:\s+{NUMBER}s", "runtime"),
    (r"total number of events:\s+(\d+)", "events"),
    (r"Latency \(ms\):", ""),
    (rf"min:\s+{HUNDREDTHS}", "min"),
    (rf"avg:\s+{HUNDREDTHS}", "avg"),
    (rf"max:\s+{HUNDREDTHS}", "max"),
    (rf"(\d+)th percentile:\s+{HUNDREDTHS}", "percentile"),
    (rf"sum:\s+{HUNDREDTHS}", "sum"),
    ("Threads fairness:", ""),
    (rf"events \(avg/stddev\):\s+{NUMBER}/{NUMBER}", "fair"),
    (rf"execution time \(avg/stddev\):\s+{NUMBER}/{NUMBER}", "execution"),
)
# The same of 0.4: operations instead of rates, and the sum of times in seconds.
BITS = r"([\d.]+)([KMGT]?)b"
OLD_REPORT: tuple[tuple[str, str], ...] = (
    (
        r"Operations performed:\s+(\d+) (?:Read|reads), (\d+) (?:Write|writes), (\d+) Other = (\d+) Total",
        "counts",
    ),
    (rf"Read {BITS}\s+Written {BITS}\s+Total transferred {BITS}\s+\({BITS}/sec\)", "moved"),
    (rf"{NUMBER} Requests/sec executed", "requests"),
    ("Test execution summary:|General statistics:", ""),
    (rf"total time:\s+{NUMBER}s", "runtime"),
    (r"total number of events:\s+(\d+)", "events"),
    (rf"total time taken by event execution: {NUMBER}s?", "busy"),
    ("per-request statistics:|response time:", ""),
    (rf"min:\s+{NUMBER}ms", "min"),
    (rf"avg:\s+{NUMBER}ms", "avg"),
    (rf"max:\s+{NUMBER}ms", "max"),
    (rf"approx\.\s+(\d+) percentile:\s+{NUMBER}ms", "percentile"),
    *REPORT[-3:],
)
REPORT_LINE = re.compile(
    r"[A-Za-z0-9/, ()]{2,40}:\s+[\d.]*|"
    + "|".join(f"(?:{pattern})" for pattern, _ in (*REPORT, *OLD_REPORT))
)
OLD_DONE = re.compile(
    r"Time limit exceeded, exiting\.\.\.|\(last message repeated \d+ times\)|Done\."
)
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
# 0.4 prints five digits of a size
OLD_SLACK = 1e-4
TRUNCATED = "truncated: the report is missing or incomplete"
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
    # the line that the text ends within
    cut: str = ""
    # whether lines are missing at its end
    is_truncated: bool = False


def parse_report(
    lines: Sequence[str], wish: RequestedRun | None, *, partial: bool = False
) -> Report:
    """Parse the report. Without a wish, the text has no head: it begins with the first line of the report.

    `partial`: the report may end early, behind its rates. Raises ParseError.
    """
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ParseError("empty: sysbench printed nothing")
    for number, row in rows:
        if row.startswith(("FATAL:", "ERROR:", "WARNING:", "ALERT:")):
            raise ParseError(f"sysbench says: {row[:200]}", number, row)
    report, remaining_rows = Report(), iter(rows)
    if wish:
        _check_head(remaining_rows, wish)
    waiting = list(REPORT)
    for number, row in remaining_rows:
        if len(waiting) == len(REPORT) and _parse_before_report(report, number, row):
            continue
        if not waiting or not (match := re.fullmatch(waiting[0][0], row)):
            if partial and number == rows[-1][0]:
                report.cut = row
                break
            raise ParseError("not understood", number, row)
        _store_values(report, waiting.pop(0)[1], [*map(float, match.groups())], number)
    report.is_truncated = bool(waiting)
    if waiting and report.lines.get("events") == rows[-1][0]:
        # nothing shows that all its digits are there
        del report.figures["events"], report.lines["events"]
        report.cut = rows[-1][1]
    if waiting and not (partial and "write" in report.figures):
        raise ParseError(TRUNCATED, *rows[-1])
    _check_report(report, wish or requested_run(report))
    return report


def report_end(lines: Sequence[str], start: int) -> int:
    """Index behind the last line of the report that begins at lines[start]; one that ends within a value is of it."""
    end = at = start + 1
    while at < len(lines) and (not (row := lines[at].strip()) or REPORT_LINE.fullmatch(row)):
        at += 1
        end = at if row else end
    return end


def requested_run(report: Report) -> RequestedRun:
    """Options as far as the figures of a report without its head show them."""
    figures = report.figures
    moved = {name: rate for rate, name in RATES.items() if figures[rate]}
    if not moved:
        raise ParseError("no request was made", report.lines["reads"])
    mode = "rndrw" if len(moved) > 1 else "rndrd" if "read" in moved else "rndwr"
    name, rate = next(iter(moved.items()))
    size = figures[name] * MIB / figures[rate]
    threads = round(figures["events"] / figures["fair"]) if figures.get("fair") else 1
    # no block is off a power of two
    block_size = 1 << round(math.log2(size)) if size >= 1 else 0
    return RequestedRun(mode, "", threads, block_size, "event")


def parse_old_report(lines: Sequence[str], wish: RequestedRun | None) -> Report:
    """Parse the report of sysbench 0.4 as 1.0 would have printed it, without a wish as above. Raises ParseError."""
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    remaining_rows = iter(rows)
    if wish:
        _check_head(remaining_rows, wish)
    cells: dict[str, tuple[str, ...]] = {}
    report, waiting = Report(), list(OLD_REPORT)
    for number, row in remaining_rows:
        if len(waiting) == len(OLD_REPORT) and OLD_DONE.fullmatch(row):
            continue
        if not waiting or not (match := re.fullmatch(waiting[0][0], row)):
            raise ParseError("not understood", number, row)
        name = waiting.pop(0)[1]
        cells[name], report.lines[name] = match.groups(), number
    if waiting:
        raise ParseError(TRUNCATED, *rows[-1])
    _store_old_figures(report, cells)
    run = wish or requested_run(report)
    for rate, name in RATES.items():
        count, printed = report.figures[rate], report.figures[name]
        # the counts are exact, and sizes have five digits
        exact = count * run.block_size / MIB
        if abs(printed - exact) > OLD_SLACK * exact:
            raise _disagreement(report, name, f"{count:g} {rate}/s of {run.block_size} B")
        report.figures[name] = exact
    _check_report(report, run)
    return report


def _store_old_figures(report: Report, cells: Mapping[str, tuple[str, ...]]) -> None:
    """Rates by counts and time. Raises ParseError where what is printed of them does not agree."""
    figures, lines = report.figures, report.lines
    for name in ("runtime", "events", "min", "avg", "max", "fair"):
        figures[name] = float(cells[name][0])
    figures["percentile"], report.rank = float(cells["percentile"][1]), int(cells["percentile"][0])
    figures["sum"], lines["sum"] = float(cells["busy"][0]) * 1e3, lines["busy"]
    reads, writes, others, total = map(float, cells["counts"])
    if not figures["runtime"]:
        raise ParseError("no time", lines["runtime"])
    for rate, count in (("reads", reads), ("writes", writes), ("fsyncs", others)):
        figures[rate], lines[rate] = count / figures["runtime"], lines["counts"]
    for at, name in enumerate(RATES.values()):
        number, unit = cells["moved"][2 * at : 2 * at + 2]
        moved = float(number) * 1024.0 ** POWERS[unit]
        figures[name], lines[name] = moved / MIB / figures["runtime"], lines["moved"]
    figures["requests"] = float(cells["requests"][0])
    if reads + writes + others != total or reads + writes != figures["events"]:
        raise _disagreement(report, "events", f"the operations {' + '.join(cells['counts'][:3])}")
    if abs(figures["requests"] - figures["events"] / figures["runtime"]) > 2 * HALF:
        raise _disagreement(report, "requests", f"{figures['events']:.0f} events")


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
    """Figures that tell of the same thing, as far as the report goes. Raises ParseError naming the line of one."""
    figures = report.figures
    events = figures.get("events")
    if events == 0:
        raise ParseError("no request was made", report.lines["events"])
    for rate, name in RATES.items():
        moved = figures[rate] * wish.block_size / MIB
        off = abs(figures[name] - moved) - HALF * (1 + wish.block_size / MIB)
        if off > 1e-9 * moved + 1e-6:
            raise _disagreement(report, name, f"{figures[rate]} {rate}/s of {wish.block_size} B")
        if figures[rate] and name not in wish.directions:
            raise _disagreement(report, rate, f"the test mode {wish.mode}")
    if events and "sum" in figures and abs(figures["sum"] / events - figures["avg"]) > HALF + 1e-6:
        raise _disagreement(report, "avg", f"{figures['sum']} ms of {events:.0f} events")
    if (
        events
        and "fair" in figures
        and abs(figures["fair"] * wish.threads - events) > wish.threads * 5e-5 + 1e-6 * events
    ):
        raise _disagreement(report, "fair", f"{events:.0f} events")
    if "max" in figures and not figures["min"] <= figures["avg"] <= figures["max"]:
        raise _disagreement(report, "avg", "the least and the largest")
    if report.bars:
        _check_bars(report)


def _check_bars(report: Report) -> None:
    counted = sum(count for _, count, _ in report.bars)
    if counted != report.figures.get("events", counted):
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
    if "sum" in figures:
        mean = figures["sum"] / figures["events"] / 1e3
        yield Metric(f"{kind}.mean", mean, Unit.SECONDS, line=lines["sum"])
    elif "avg" in figures:
        rounded = _rounded(f"{kind}.mean", figures["avg"], lines["avg"])
        yield replace(rounded, note=rounded.note or "printed in hundredths of a millisecond")
    for name in ("min", "max"):
        if name in figures:
            yield _rounded(f"{kind}.{name}", figures[name], lines[name])
    if not report.bars or "events" not in figures:
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
    for name, unit in (("events", Unit.RATIO), ("runtime", Unit.SECONDS)):
        if name in report.figures:
            yield Metric(name, report.figures[name], unit, line=report.lines[name])


def report_details(report: Report) -> Iterator[Metric]:
    """Events and seconds of the mean thread: what is missing to the run's time it spent outside of requests."""
    for name, figure, unit in (
        ("thread.events", "fair", Unit.RATIO),
        ("thread.time", "execution", Unit.SECONDS),
    ):
        if figure in report.figures:
            yield Metric(name, report.figures[figure], unit, line=report.lines[figure])


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
