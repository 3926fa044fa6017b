# SPDX-License-Identifier: Apache-2.0
"""vdbench's summaries and totals, and its flat file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agents.contracts import Metric
from agents.readers import _line_reader as common
from agents.readers._line_reader import NUMBER, LineReader, Lines, squeezed
from agents.texts.parsed_result import ParsedResult

# The first line of vdbench's headings behind `interval`, of 5.00, 5.04.06 and 5.04.07 -> its columns. A time is in ms.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "i/o MB/sec bytes read resp resp resp cpu% cpu%": (
        "iops",
        "bandwidth",
        "block_size",
        "read_percent",
        "lat.mean",
        "lat.max",
        "lat.stddev",
    ),
    "i/o MB/sec bytes read resp read write resp resp queue cpu% cpu%": (
        "iops",
        "bandwidth",
        "block_size",
        "read_percent",
        "lat.mean",
        "read.lat.mean",
        "write.lat.mean",
        "lat.max",
        "lat.stddev",
    ),
    "i/o MB/sec bytes read resp read write read write resp queue cpu% cpu%": (
        "iops",
        "bandwidth",
        "block_size",
        "read_percent",
        "lat.mean",
        "read.lat.mean",
        "write.lat.mean",
        "read.lat.max",
        "write.lat.max",
        "lat.stddev",
    ),
}
# of a workload of files: the first 13 columns, up to the size of a transfer
FILE_HEAD = re.compile(
    r".{0,20}\.+Interval\.+ \.+ReqstdOps\.+ \.+cpu%\.+ read \.+read\.+ \.+write\.+ \.+mb/sec\.+ mb/sec \.+xfer\.+.*"
)
FILE_COLUMNS = (
    "iops",
    "lat.mean",
    "",
    "",
    "read_percent",
    "read.iops",
    "read.lat.mean",
    "write.iops",
    "write.lat.mean",
    "read.bandwidth",
    "write.bandwidth",
    "bandwidth",
    "block_size",
)
HEAD = re.compile(r"(?:\w{3} \d\d, \d{4} )?interval (i/o MB/sec .*)")
# "16:35:46.092 Starting RD=rd1; I/O rate: Uncontrolled MAX; elapsed=120 warmup=30; For loops: threads=8"
START = re.compile(r"(?:[\d:.]+ )?Starting RD=([^;\s]{1,80})(.*)")
AVERAGE = re.compile(r"(?:[\d:.]+ )?avg_\d{1,9}-\d{1,9}((?: (?:[\d.]{1,20}|NaN))+)")
LOOP = re.compile(r"\b(threads|xfersize|rdpct|seekpct)=(\d{1,9}[kmg]?)\b", re.IGNORECASE)
ELAPSED = re.compile(r"\belapsed=(\d{1,9})\b")
HISTOGRAM = re.compile(r"min\(ms\) ?<? ?max\(ms\) .*")
FLAT_HEAD = re.compile(
    r"\*? ?tod (?:timestamp )?Run Interval reqrate rate MB/sec bytes/io read% resp\b.*"
)
FLAT_COLUMNS = {
    "rate": "iops",
    "MB/sec": "bandwidth",
    "bytes/io": "block_size",
    "read%": "read_percent",
    "resp": "lat.mean",
    "read_resp": "read.lat.mean",
    "write_resp": "write.lat.mean",
    "resp_max": "lat.max",
    "read_max": "read.lat.max",
    "write_max": "write.lat.max",
    "resp_std": "lat.stddev",
}
FLAT_OPTIONS = {"threads": "numjobs", "seekpct": "seekpct"}
VDBENCH_NOTE = (
    "vdbench: MB are 2^20 bytes; times are means in the measured intervals, without warm-up"
)


def read_vdbench(lines: Lines) -> Iterator[ParsedResult]:
    """One result for the averages of each run (RD) of a parameter file."""
    head, started, used, flat = -1, -1, -1, -1
    for at, line in enumerate(lines):
        words = squeezed(line)
        if START.fullmatch(words):
            started = at
        elif HEAD.fullmatch(words) or FILE_HEAD.fullmatch(words):
            head = at
        elif FLAT_HEAD.fullmatch(words):
            flat = at
        elif flat >= 0 and " avg_" in f" {words}":
            yield _flat_result(lines, flat, at)
        elif head >= 0 and (average := AVERAGE.fullmatch(words)):
            first = started if started > used else (head if head > used else at)
            yield _average_result(lines, (head, first, at), average)
            used = at
        elif HISTOGRAM.fullmatch(words):
            why = "This is vdbench's histogram: BenchLab does not read it."
            yield common.named_result("vdbench", lines, at, at, why)
    if started > used and _has_intervals(lines, started):
        why = "the run is truncated: it has no line of averages (avg_)"
        yield common.named_result("vdbench", lines, started, len(lines) - 1, why)


def _has_intervals(lines: Lines, started: int) -> bool:
    below = (squeezed(line) for line in lines[started + 1 : started + 50])
    return any(HEAD.fullmatch(words) or FILE_HEAD.fullmatch(words) for words in below)


def _average_result(
    lines: Lines, places: tuple[int, int, int], average: re.Match[str]
) -> ParsedResult:
    """The result of a line of averages. Places: headings, first line of the run, the line itself."""
    head, first, at = places
    columns = _columns(squeezed(lines[head]))
    values = average[1].split()
    if not columns or len(values) < len(columns):
        why = "the line of averages has other columns than its headings, or those are not known"
        return common.named_result("vdbench", lines, at, at, why)
    cells = dict(zip(columns, values, strict=False))
    start = START.fullmatch(squeezed(lines[first]))
    name, settings = (start[1], start[2]) if start else ("", "")
    result_head = head if head < first else -1
    result = _vdbench_result((first, at), name, cells, _loop_options(settings), result_head)
    # headings have two lines
    return result if result.trouble else replace(result, also=((head + 1, head + 2),))


def _columns(words: str) -> tuple[str, ...]:
    if match := HEAD.fullmatch(words):
        return COLUMNS.get(match[1], ())
    return FILE_COLUMNS


def _loop_options(settings: str) -> dict[str, object]:
    """Options that the line of a run's start tells."""
    names = {"threads": "numjobs", "xfersize": "block_size", "rdpct": "rwmixread"}
    options: dict[str, object] = {
        names.get(match[1].lower(), match[1].lower()): common.size_in_bytes(match[2])
        for match in LOOP.finditer(settings)
    }
    if elapsed := ELAPSED.search(settings):
        options["runtime"] = int(elapsed[1])
    return options


def _vdbench_result(
    span: tuple[int, int],
    name: str,
    cells: Mapping[str, str],
    options: Mapping[str, object],
    head: int,
) -> ParsedResult:
    line = span[1] + 1
    if not re.fullmatch(NUMBER, cells.get("iops", "")) or not float(cells["iops"]):
        why = "no I/O was measured in this run"
        title = f"vdbench {name}".strip()
        return ParsedResult("vdbench", span[0] + 1, line, title, trouble=why)
    block, share = cells.get("block_size", ""), cells.get("read_percent", "")
    own: dict[str, object] = {}
    if re.fullmatch(r"[1-9]\d{0,11}", block):
        own["block_size"] = int(block)
    reads = float(share) if re.fullmatch(NUMBER, share) else None
    if reads is not None:
        own["rwmixread"] = round(reads)
    return ParsedResult(
        "vdbench",
        span[0] + 1,
        line,
        f"vdbench {name}".strip(),
        metrics=tuple(_vdbench_metrics(cells, reads, line)),
        options={**own, **options},
        notes=(VDBENCH_NOTE,),
        head=head + 1,
    )


def _vdbench_metrics(cells: Mapping[str, str], reads: float | None, line: int) -> Iterator[Metric]:
    """Figures of a line. Where there were only reads or only writes, those of all I/Os are theirs."""
    only = {100.0: "read", 0.0: "write"}.get(-1.0 if reads is None else reads, "")
    for name, text in cells.items():
        if name in ("", "block_size", "read_percent") or not re.fullmatch(NUMBER, text):
            continue
        directed = name.startswith(("read.", "write."))
        way, figure = name.split(".", 1) if directed else (only, name)
        # zeros of what was not done, and repetitions of what was
        if only and directed and (way != only or figure in cells):
            continue
        scale = {"iops": 1.0, "bandwidth": 2.0**20}.get(figure, 1e-3)
        yield from common.io_metrics(way, line, {figure: float(text) * scale})


def _flat_result(lines: Lines, head: int, at: int) -> ParsedResult:
    """The result of a line of averages of flatfile.html."""
    names = squeezed(lines[head]).lstrip("* ").split()
    values = lines[at].split()
    row = dict(zip(names, values, strict=False))
    if len(values) != len(names) or not row["Interval"].startswith("avg_"):
        why = "the line has other columns than its heading"
        return common.named_result("vdbench", lines, at, at, why)
    cells = {figure: row[name] for name, figure in FLAT_COLUMNS.items() if name in row}
    options = {
        option: int(row[name])
        for name, option in FLAT_OPTIONS.items()
        if row.get(name, "").isdecimal() and len(row[name]) < 10
    }
    result = _vdbench_result((at, at), row["Run"][:80], cells, options, head)
    # the intervals above the averages are read with them
    return result if result.trouble else replace(result, also=((head + 1, at + 1),))


DRIVERS = {
    "vdbench": LineReader(
        "vdbench (summary, totals, flat file)",
        (re.compile(r"avg_\d{1,9}-\d"), "Starting RD=", "min(ms)"),
        read_vdbench,
    )
}
