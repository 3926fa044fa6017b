# SPDX-License-Identifier: Apache-2.0
"""Results of sysbench's fileio test in any text: from what it says it will do to the fairness of its threads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from agents.contracts import Metric, ParseError, Unit
from agents.outputs import sysbench_text as text
from agents.readers import _command
from agents.readers._line_reader import NUMBER, size_in_bytes
from agents.texts.parsed_result import FRAGMENT, ParsedResult

# name -> value, as the tool's options have them
Options = dict[str, Any]
LABEL = "sysbench fileio"
KIND = "sysbench"
KEYWORDS = (
    *("Running the test with following options", "File operations:", "Operations performed:"),
    "written, MiB/s:",
)
# characters of a line that is none of sysbench's
LONGEST = 2000
# lines in which its command is looked for; more where people left lines out
ABOVE, COMMAND_REACH = 3, 6
LEFT_OUT_MARKS = ("...", "\u2026", "[...]", "[\u2026]")
BEGINS = re.compile(r"sysbench (\d+\.\d+[^ ]*?)(?: \(using .*\)|:  ?multi-threaded .*)")
# The first line of a report: of 1.0, of 0.4
SUMMARY = re.compile(r"\s*(?:File operations:\s*|(Operations performed:).*)")
OPTIONS = "Running the test with following options:"
ENDS = re.compile(r"execution time \(avg/stddev\):.*")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# 0.4 means the same by "Kb"
UNITS |= {"b": 1, "Kb": 2**10, "Mb": 2**20, "Gb": 2**30, "Tb": 2**40}
FLAGS = {"0": "none", "(none)": "none", "directio": "direct", "sync": "sync", "dsync": "dsync"}
# What its head says of an option, and how that is read.
NUMBERS = {
    "threads": re.compile(r"Number of threads: (\d{1,9})"),
    "events": re.compile(
        r"Number of (?:IO requests|random requests for (?:combined )?random IO): (\d{1,18})"
    ),
    "files": re.compile(r"(\d{1,9}) files, .*"),
    "fsync_freq": re.compile(
        r"Periodic FSYNC enabled, calling fsync\(\) each (\d{1,9}) requests\."
    ),
    "report_interval": re.compile(r"Report intermediate results every (\d{1,9}) second\(s\)"),
}
SIZES = {
    "size": re.compile(r"([\d.]{1,12})([KMGT]?(?:i?B|b)) total file size"),
    "block_size": re.compile(r"Block size ([\d.]{1,12})([KMGT]?(?:i?B|b))"),
}
RATIO = re.compile(r"Read/Write ratio for combined random IO test: ([\d.]{1,12})")
WORDED = {
    "mode": {f"Doing {words} test": mode for mode, words in text.MODES.items()},
    "io_mode": {f"Using {words} I/O mode": mode for mode, words in text.IO_MODES.items()},
    "extra_flags": {f"Extra file open flags: {text}": flag for text, flag in FLAGS.items()},
}
# Numbers of the command that the head does not print; 1.0 and 0.4.
COUNTS = {
    "file-async-backlog": "async_backlog",
    "time": "time_s",
    "max-time": "time_s",
    "events": "events",
    "max-requests": "events",
}
# Options of the command that the head prints in words
_IN_HEAD = """
file-block-size file-extra-flags file-fsync-all file-fsync-end file-fsync-freq file-io-mode file-num file-rw-ratio
file-test-mode file-total-size num-threads report-interval test threads
"""
# and those of its output.
_OUTPUT = "debug histogram percentile verbosity"
LEFT_OUT = frozenset([*_IN_HEAD.split(), *_OUTPUT.split()])
NEEDED = ("mode", "io_mode", "threads", "block_size")
# What it prints in the middle of a run: its totals may be cut off.
INTERVAL = re.compile(
    rf"\[ \d{{1,9}}s \] reads: ({NUMBER}) MiB/s writes: ({NUMBER}) MiB/s fsyncs: ({NUMBER})/s"
    rf" latency \(ms,\d{{1,3}}%\): {NUMBER}"
)
LEAST_INTERVALS = 3
# The only lines that some people keep
RATES = re.compile(rf"(read|written), MiB/s:\s{{1,60}}({NUMBER})")
# Options of a command, and what sysbench 1.0 takes for those that it leaves out
ASKED: Mapping[str, tuple[str, object]] = {
    "file-test-mode": ("mode", ""),
    "file-io-mode": ("io_mode", "sync"),
    "file-block-size": ("block_size", 16384),
    "file-num": ("files", 128),
    "file-fsync-freq": ("fsync_freq", 100),
    "file-fsync-all": ("fsync_all", False),
    "file-fsync-end": ("fsync_end", True),
    "file-extra-flags": ("extra_flags", "none"),
    "file-total-size": ("size", 2 << 30),
    "threads": ("threads", 1),
    "num-threads": ("threads", 1),
}
SWITCHES = {"on": True, "off": False, "": True}
ALL_SYNCED = "Calling fsync() after each write operation."
AT_END = "Calling fsync() at the end of test, Enabled."


def find_results(whole: str, name: str) -> list[ParsedResult]:
    lines = [line.rstrip("\r") if len(line) < LONGEST else "" for line in whole.split("\n")]
    blocks = list(_find_blocks(lines))
    results = [result for first, last in blocks if (result := _run_block(lines, first, last))]
    free = [(at, line) for at, line in enumerate(lines) if line.strip() == "Throughput:"]
    alone = [at for at, _ in free if not any(first <= at <= last for first, last in blocks)]
    return results + [result for at in alone if (result := _throughput_block(lines, at))]


def _find_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(first, last) index of each: to the report's last line, or as far as it is there."""
    starts = [at for at, _ in enumerate(lines) if _begins(lines, at)]
    starts = sorted({*starts, *_summary_starts(lines, starts)})
    for start, following in pairwise([*starts, len(lines)]):
        within = range(start, following)
        end = next((at for at in within if ENDS.fullmatch(lines[at].strip())), None)
        if end is None:
            summary = next((at for at in within if SUMMARY.fullmatch(lines[at])), following - 1)
            end = text.report_end(lines[:following], summary) - 1
        last = end
        while last > start and not lines[last].strip():
            last -= 1
        yield start, last


def _summary_starts(lines: Sequence[str], starts: Sequence[int]) -> Iterator[int]:
    """Indexes of the reports whose heads were left out: nothing above says what was asked."""
    begun = False
    for at, line in enumerate(lines):
        begun = begun or at in starts
        if SUMMARY.fullmatch(line):
            if not begun:
                yield at
            begun = False


def _begins(lines: Sequence[str], at: int) -> bool:
    """True at the version line, or at the options where that line was cut off."""
    if BEGINS.fullmatch(lines[at].strip().lstrip("`")):
        return True
    before = next((line for line in reversed(lines[max(at - 3, 0) : at]) if line.strip()), "")
    return lines[at].strip() == OPTIONS and not BEGINS.fullmatch(before.strip().lstrip("`"))


def _run_block(lines: Sequence[str], first: int, last: int) -> ParsedResult | None:
    """None of another test of sysbench's: cpu, oltp."""
    block = lines[first : last + 1]
    if SUMMARY.fullmatch(block[0]):
        return _summary_block(block, first)
    options = _reported_options(block)
    if not {"block_size", "mode"} & options.keys():
        return None
    start, command = _above(lines, first)
    options = {**_command_options(command), **options}
    version = BEGINS.fullmatch(block[0].strip().lstrip("`"))
    result = ParsedResult(
        KIND,
        start + 1,
        last + 1,
        " ".join(filter(None, ["sysbench fileio", str(options.get("mode", ""))])),
        tool=KIND,
        version=f"sysbench {version[1]}" if version else "",
        command=command.text,
        options_complete=bool(command),
    )
    if missing := [name for name in NEEDED if name not in options]:
        trouble = f"it does not say its {', '.join(missing)}"
        return dataclasses.replace(result, trouble=trouble, options_complete=False)
    return _parse_block(result, block, first, options)


def _parse_block(
    result: ParsedResult, block: Sequence[str], first: int, options: Options
) -> ParsedResult:
    wish = text.RequestedRun(
        options["mode"],
        options["io_mode"],
        options["threads"],
        options["block_size"],
        text.times_are(
            options["mode"],
            options["io_mode"],
            synced=bool(options.get("fsync_all") or options["fsync_freq"]),
        ),
    )
    try:
        report = _parse_report(block, wish)
        metrics, over_time = text.report_metrics(report, wish), text.report_series(report, wish)
    except ParseError as error:
        if cut := _interval_result(result, block, first, options):
            return cut
        # its line counts from the block's beginning, and would mislead
        return dataclasses.replace(result, trouble=str(error).partition(" (line ")[0])
    return dataclasses.replace(
        result,
        metrics=tuple(dataclasses.replace(metric, line=metric.line + first) for metric in metrics),
        details=tuple(
            dataclasses.replace(metric, line=metric.line + first)
            for metric in text.report_details(report)
        ),
        series=tuple(over_time),
        options=options,
        outstanding=options["threads"] if options["io_mode"] != "async" else None,
        notes=(
            *(["the number of queued requests is unknown"] * (options["io_mode"] == "async")),
            *_cut_notes(report),
        ),
    )


def _parse_report(block: Sequence[str], wish: text.RequestedRun | None) -> text.Report:
    """The report of either version, as far as it goes. Raises ParseError."""
    summaries = (match for line in block if (match := SUMMARY.fullmatch(line)))
    if (first := next(summaries, None)) and first[1]:
        return text.parse_old_report(block, wish)
    return text.parse_report(block, wish, partial=True)


def _summary_block(block: Sequence[str], first: int) -> ParsedResult:
    """A report without its head: neither mode nor threads are known."""
    result = ParsedResult(KIND, first + 1, first + len(block), "sysbench fileio", tool=KIND)
    try:
        report = _parse_report(block, None)
        metrics = text.report_metrics(report, text.requested_run(report))
    except ParseError as error:
        return dataclasses.replace(result, trouble=str(error).partition(" (line ")[0])
    return dataclasses.replace(
        result,
        metrics=tuple(dataclasses.replace(metric, line=metric.line + first) for metric in metrics),
        details=tuple(
            dataclasses.replace(metric, line=metric.line + first)
            for metric in text.report_details(report)
        ),
        notes=(FRAGMENT, *_cut_notes(report)),
    )


def _cut_notes(report: text.Report) -> list[str]:
    notes = ["truncated: the end of the report is missing"] if report.is_truncated else []
    return notes + ([f"ends within a value ({report.cut[-60:]}): left out"] if report.cut else [])


def _throughput_block(lines: Sequence[str], at: int) -> ParsedResult | None:
    """Read and written MiB/s without anything else; None without both, or without the command."""
    rows = [RATES.fullmatch(line.strip()) for line in lines[at + 1 : at + 3]]
    start, command = _above(lines, at, COMMAND_REACH)
    options = _asked_options(command)
    if len(rows) < 2 or not all(rows) or not options.get("mode") or not options["block_size"]:
        return None
    metrics = []
    for number, row in enumerate(filter(None, rows), at + 2):
        way, rate = "read" if row[1] == "read" else "write", float(row[2]) * 2**20
        if rate:
            metrics += _rates(way, rate, options["block_size"], number)
    return ParsedResult(
        KIND,
        start + 1,
        at + 3,
        f"sysbench fileio {options['mode']}",
        tool=KIND,
        command=command.text,
        metrics=tuple(metrics),
        options=options,
        outstanding=options["threads"] if options["io_mode"] != "async" else None,
        notes=(FRAGMENT, RATES_ALONE),
    )


RATES_ALONE = "IOPS are computed from MiB/s and the block size"


def _rates(way: str, rate: float, block: int, line: int) -> list[Metric]:
    return [
        Metric(f"{way}.bandwidth", rate, Unit.BYTES_PER_SECOND, line=line),
        Metric(f"{way}.iops", rate / block, Unit.OPS_PER_SECOND, line=line),
    ]


def _asked_options(command: _command.Command) -> Options:
    """Options of a command with sysbench's defaults; no mode if it runs no test of files."""
    words = [word.removeprefix("--").partition("=") for word in command.arguments]
    given = {name: value for name, _, value in words}
    if "run" not in given or not {"fileio", "file-test-mode"} & given.keys():
        return {}
    options: Options = dict(ASKED.values())
    for name, value in given.items():
        if name not in ASKED:
            continue
        option, default = ASKED[name]
        if isinstance(default, bool):
            options[option] = SWITCHES.get(value, default)
        elif isinstance(default, int):
            size = size_in_bytes(value)
            options[option] = default if size is None else size
        else:
            options[option] = value
    return options


def _interval_result(
    result: ParsedResult, block: Sequence[str], first: int, options: Options
) -> ParsedResult | None:
    """Means of what it printed meanwhile; None where that is too little."""
    rows = [
        (match, first + at)
        for at, line in enumerate(block, 1)
        if (match := INTERVAL.fullmatch(line.strip()))
    ]
    if len(rows) < LEAST_INTERVALS:
        return None
    reads, writes, fsyncs = (fmean(float(row[place]) for row, _ in rows) for place in (1, 2, 3))
    line = rows[-1][1]
    metrics = [Metric("fsync.ops", fsyncs, Unit.OPS_PER_SECOND, line=line)] if fsyncs else []
    for way, rate in (("read", reads), ("write", writes)):
        metrics += _rates(way, rate * 2**20, options["block_size"], line) if rate else []
    cut = f"the report is cut off: means of the {len(rows)} intervals that are there"
    return dataclasses.replace(
        result,
        metrics=tuple(metrics),
        options=options,
        outstanding=options["threads"] if options["io_mode"] != "async" else None,
        notes=(cut, RATES_ALONE),
    )


def _reported_options(block: Sequence[str]) -> Options:
    """Options of the tool, as far as the result shows them: what its head does not name is off."""
    options: Options = {"fsync_freq": 0, "fsync_all": False, "fsync_end": False}
    for line in map(str.strip, block):
        if line == text.STARTED:
            break
        for name, pattern in NUMBERS.items():
            if match := pattern.fullmatch(line):
                options[name] = int(match[1])
        for name, pattern in SIZES.items():
            if (match := pattern.fullmatch(line)) and (size := _rounded_bytes(match[1], match[2])):
                options[name] = size
        for name, words in WORDED.items():
            if line in words:
                options[name] = words[line]
        if match := RATIO.fullmatch(line):
            options["rw_ratio"] = float(match[1])
        options["fsync_all"] |= line == ALL_SYNCED
        options["fsync_end"] |= line == AT_END
    return options


def _rounded_bytes(number: str, unit: str) -> int:
    """0 of what was rounded to no whole number of bytes, or is no number."""
    try:
        size = float(number) * UNITS[unit]
    except (KeyError, ValueError):
        return 0
    return int(size) if size.is_integer() else 0


def _command_options(command: _command.Command) -> dict[str, object]:
    """Options of the command that the head does not print, verbatim where the tool here has none of that name."""
    options: dict[str, object] = {}
    for word in command.arguments:
        name, assigned, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name in LEFT_OUT:
            continue
        if name == "file-fsync-mode":
            options["fsync_mode"] = value
        elif name in COUNTS and value.isdecimal():
            options[COUNTS[name]] = int(value[:18])
        else:
            options[name] = value if assigned else True
    return options


def _above(lines: Sequence[str], first: int, reach: int = ABOVE) -> tuple[int, _command.Command]:
    """Line and command right above the result; else the first line of the result, and no command."""
    for at in range(first - 1, max(first - 1 - reach, -1), -1):
        if lines[at].strip() in LEFT_OUT_MARKS:
            continue
        if command := _command.find_command(lines[at], KIND):
            return at, command
        if lines[at].strip() and not _command.may_stand_between(lines[at]):
            break
    return first, _command.NONE
