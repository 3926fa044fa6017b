# SPDX-License-Identifier: Apache-2.0
"""FreeBSD's GEOM providers, disks and all that stands on them: `gstat -B -d -o -I 1s`.

usr.sbin/gstat/gstat.c. What iostat says of its disks already (rates and busy, which gstat rounds to whole ones) is left
to freebsd_iostat; waits are from here, for gstat prints them to 0.1 ms, newer ones to 0.001, and iostat in whole ms.
kBps are KiB/s. The first report is the moment since gstat began, and left out. A wait is NaN in a second without such
requests. Providers above the disks (partitions, labels) are kept only if they did something during the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import nan

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import Line, rows_to_series, stamped_lines

LABEL = "GEOM providers (FreeBSD's gstat)"
FILES: tuple[str, ...] = ()
WATCHES = (
    Watch(
        ("gstat", "-B", "-d", "-o", "-I", "1s"), lasting=True, begins="dT:*", families=("freebsd",)
    ),
)
# freebsd_iostat's Watch.key
IOSTAT = "|iostat -x -w 1"

COLUMNS = [
    *("L(q)", "ops/s", "r/s", "kBps", "ms/r", "w/s", "kBps", "ms/w"),
    *("d/s", "kBps", "ms/d", "o/s", "ms/o", "%busy", "Name"),
]
OPS, BPS, S, RATIO = Unit.OPS_PER_SECOND, Unit.BYTES_PER_SECOND, Unit.SECONDS, Unit.RATIO
FINER = {
    "read.await": S,
    "write.await": S,
    "discard.iops": OPS,
    "discard.bandwidth": BPS,
    "discard.await": S,
    "other.iops": OPS,
    "other.await": S,
}
UNITS = {
    "read.iops": OPS,
    "write.iops": OPS,
    "read.bandwidth": BPS,
    "write.bandwidth": BPS,
    "queue": RATIO,
    "util": RATIO,
    **FINER,
}

Row = dict[str, float]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per provider and metric, over all reports. Raises ParseError."""
    reports = _reports(stamped_lines(frames, WATCHES[0]))[1:]
    disks = _disks_of_iostat(frames)
    all_series: list[Series] = []
    for device in dict.fromkeys(name for _, rows in reports for name in rows):
        rows = [(at, rows.get(device, {})) for at, rows in reports]
        if device in disks:
            all_series += rows_to_series(device, rows, FINER)
        elif any(value > 0 for _, row in rows for value in row.values()):
            all_series += rows_to_series(device, rows, UNITS)
    return all_series


def _disks_of_iostat(frames: Sequence[Frame]) -> set[str]:
    first_words = (
        line.split()[1:2] for f in frames for line in f.files.get(IOSTAT, "").splitlines()
    )
    return {word for words in first_words for word in words}


def _reports(lines: Sequence[Line]) -> list[tuple[float, dict[str, Row]]]:
    reports: list[tuple[float, dict[str, Row]]] = []
    headed = False
    for line in lines:
        words = line.text.split()
        if not reports and words[:1] != ["dT:"]:
            # the frames of a live page may begin in the middle of a report
            continue
        if words[:1] == ["dT:"]:
            reports.append((line.at, {}))
            headed = False
        elif words == COLUMNS:
            headed = True
        elif words == ["*"] or not words:
            # a provider that was busy while it was looked at
            continue
        elif not headed or len(words) < len(COLUMNS):
            raise ParseError("not a line of gstat", line.number, line.text)
        else:
            # A name may hold blanks.
            reports[-1][1][" ".join(words[len(COLUMNS) - 1 :])] = _parse_row(words, line)
    cut = len(reports) > 1 and len(reports[-1][1]) < len(reports[-2][1])
    return reports[:-1] if cut else reports


def _parse_row(words: Sequence[str], line: Line) -> Row:
    cells = words[: len(COLUMNS) - 1]
    if not all(re.fullmatch(r"[0-9]{1,20}(\.[0-9]+)?", word) for word in cells):
        raise ParseError("not a figure of gstat", line.number, line.text)
    queue, _, r, rk, rms, w, wk, wms, d, dk, dms, o, oms, busy = map(float, cells)
    return {
        "read.iops": r,
        "write.iops": w,
        "read.bandwidth": rk * 1024,
        "write.bandwidth": wk * 1024,
        "queue": queue,
        "util": min(1.0, busy / 100),
        "read.await": rms / 1000 if r else nan,
        "write.await": wms / 1000 if w else nan,
        "discard.iops": d,
        "discard.bandwidth": dk * 1024,
        "discard.await": dms / 1000 if d else nan,
        "other.iops": o,
        "other.await": oms / 1000 if o else nan,
    }
