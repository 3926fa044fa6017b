# SPDX-License-Identifier: Apache-2.0
"""FreeBSD's disks, from its `iostat -x -w 1`: rates of each second, which iostat itself computes.

Columns by their names, as versions differ: up to FreeBSD 10 r/s w/s kr/s kw/s qlen svc_t %b, later ms/r ms/w ms/o ms/t
before qlen and %b. kr/s and kw/s are KiB. The first report is the average since boot, and left out. A time per request
is NaN in a second without such requests. `queue` is qlen: the requests in flight at the end of the second, not their
mean over it as on Linux. Times are printed in whole ms from FreeBSD 12 on, where a 0 is less than half a ms: reads' and
writes' are gstat's where it runs.

Disks are kept also when idle; pass-through and optical devices only if they did something during the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import nan

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers import gstat
from agents.samplers._frames import Line, stamped_lines

LABEL = "Disks (FreeBSD's iostat -x)"
FILES: tuple[str, ...] = ()
WATCHES = (
    Watch(
        ("iostat", "-x", "-w", "1"),
        lasting=True,
        begins="*device statistics*",
        families=("freebsd",),
    ),
)

NEEDED = {"device", "r/s", "w/s", "kr/s", "kw/s", "qlen", "%b"}
ONLY_IF_USED = re.compile(r"(pass|cd)\d")
OPS, BPS, S, RATIO = Unit.OPS_PER_SECOND, Unit.BYTES_PER_SECOND, Unit.SECONDS, Unit.RATIO
UNITS = {
    "read.iops": OPS,
    "write.iops": OPS,
    "read.bandwidth": BPS,
    "write.bandwidth": BPS,
    "read.await": S,
    "write.await": S,
    "await": S,
    "queue": RATIO,
    "util": RATIO,
}

Row = Mapping[str, float]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per disk and metric, over all reports; NaN where the disk was absent. Raises ParseError."""
    reports = _reports(stamped_lines(frames, WATCHES[0]))[1:]
    times = tuple(at for at, _ in reports)
    finer = {series.metric for series in gstat.frames_to_series(frames)} & {
        "read.await",
        "write.await",
    }
    all_series: list[Series] = []
    for device in dict.fromkeys(name for _, rows in reports for name in rows):
        device_rows = [rows.get(device, {}) for _, rows in reports]
        if ONLY_IF_USED.match(device) and not any(
            v > 0 for row in device_rows for v in row.values()
        ):
            continue
        metrics = [m for m in UNITS if m not in finer and any(m in row for row in device_rows)]
        all_series += [
            Series(device, m, UNITS[m], times, tuple(row.get(m, nan) for row in device_rows))
            for m in metrics
        ]
    return all_series


def _reports(lines: Sequence[Line]) -> list[tuple[float, dict[str, Row]]]:
    """Time and rows of each report that is whole: a report ends where the next one begins."""
    reports: list[tuple[float, dict[str, Row]]] = []
    columns: list[str] = []
    for line in lines:
        words = line.text.split()
        if words == ["extended", "device", "statistics"]:
            reports.append((line.at, {}))
            columns = []
        elif words[:1] == ["device"] and reports:
            columns = words
            if not set(columns) >= NEEDED or len(set(columns)) < len(columns):
                raise ParseError("not the columns of iostat -x", line.number, line.text)
        elif not columns or len(words) != len(columns):
            raise ParseError("not a line of iostat -x", line.number, line.text)
        else:
            reports[-1][1][words[0]] = _parse_row(dict(zip(columns, words, strict=True)), line)
    return reports[:-1] if reports and len(reports) > 1 and _last_report_cut(reports) else reports


def _last_report_cut(reports: Sequence[tuple[float, dict[str, Row]]]) -> bool:
    """The last report may have been cut by the end of the run."""
    return len(reports[-1][1]) < len(reports[-2][1])


def _parse_row(cells: Mapping[str, str], line: Line) -> Row:
    values = {}
    for column, word in cells.items():
        if column != "device":
            if not re.fullmatch(r"[0-9]{1,20}(\.[0-9]+)?", word):
                raise ParseError(f"{column} is not a number", line.number, line.text)
            values[column] = float(word)
    reads, writes = values["r/s"], values["w/s"]
    figures = {
        "read.iops": reads,
        "write.iops": writes,
        "read.bandwidth": values["kr/s"] * 1024,
        "write.bandwidth": values["kw/s"] * 1024,
        "queue": values["qlen"],
        "util": min(1.0, values["%b"] / 100),
    }
    waits = {
        "read.await": ("ms/r", reads),
        "write.await": ("ms/w", writes),
        "await": ("ms/t" if "ms/t" in values else "svc_t", reads + writes),
    }
    for metric, (column, requests) in waits.items():
        if column in values:
            figures[metric] = values[column] / 1000 if requests else nan
    return figures
