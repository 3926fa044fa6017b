# SPDX-License-Identifier: Apache-2.0
"""Parser of `zpool iostat`: shared by the sampler and by the reader of pasted text.

OpenZFS's cmd/zpool/zpool_main.c. Two lines of headings, the first of which groups the columns of the second; a row per
pool and, with -v, per vdev, indented below it; classes of vdevs ("logs", "cache") as rows of dashes. With -p numbers
are exact (rates cut to whole ones, times in ns), else rounded to three digits: powers of 1024, times of 1000.
Up to ZFS 0.8 the vdevs of a pool have no numbers ("mirror" twice): they get those that later versions print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agents.contracts import ParseError, Unit

OPS, BPS, S, BYTES = Unit.OPS_PER_SECOND, Unit.BYTES_PER_SECOND, Unit.SECONDS, Unit.BYTES
UNITS = {
    "zpool.read.iops": OPS,
    "zpool.write.iops": OPS,
    "zpool.read.bandwidth": BPS,
    "zpool.write.bandwidth": BPS,
    "zpool.read.wait": S,
    "zpool.write.wait": S,
    "zpool.read.disk_wait": S,
    "zpool.write.disk_wait": S,
    "zpool.alloc": BYTES,
    "zpool.free": BYTES,
}
GROUPS = {
    "capacity": ("zpool.alloc", "zpool.free"),
    "operations": ("zpool.read.iops", "zpool.write.iops"),
    "bandwidth": ("zpool.read.bandwidth", "zpool.write.bandwidth"),
    "total_wait": ("zpool.read.wait", "zpool.write.wait"),
    "disk_wait": ("zpool.read.disk_wait", "zpool.write.disk_wait"),
}
# groups of one column; every other has two
SINGLE = {"scrub", "trim", "rebuild"}
CLASSES = {"logs", "log", "cache", "special", "dedup", "spares", "spare"}
COLUMNS = {"alloc", "free", "used", "avail", "read", "write", "wait", "pend", "activ"}
LOWER_HEADS = (["alloc", "free"], ["used", "avail"])
# vdevs that were printed without a number
UNNUMBERED = re.compile(r"mirror|raidz[123]?|replacing|spare")
WORD = re.compile(r"\S+")
DASHES = re.compile(r"\s*-{4,}(?:\s+-{3,})+\s*")
# a decimal comma comes from the locale, and has at most two digits behind it
NUMBER = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,3}|,[0-9]{1,2})?)(ns|us|ms|s|[KMGTPEZ])?")
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Row:
    # "zp1", "zp1/mirror-0/sdb", "zp1/logs/sdc"
    device: str
    # of its line
    number: int
    # None: a dash
    values: Mapping[str, float | None]


@dataclass(slots=True)
class Report:
    # number of its first line
    at: int
    rows: dict[str, Row] = field(default_factory=dict)
    rounded: bool = False
    # (number of its line, what is left) of each row that ends within its last value
    cut_values: list[tuple[int, str]] = field(default_factory=list)


def heads(line: str) -> bool:
    """True for the first line of the headings."""
    return line.split()[:3] == ["capacity", "operations", "bandwidth"]


def is_lower_heading(line: str) -> bool:
    """True for the second line of the usual headings, which tells its columns also where the first was cut off."""
    words = line.split()
    return (
        words[:1] == ["pool"] and words[1:3] in LOWER_HEADS and words[3:] == ["read", "write"] * 2
    )


def reports(
    lines: Iterable[tuple[int, str]],
    flat: bool = False,
    verbose: bool = True,
    decimal_sign: str = ".",
) -> Iterator[Report]:
    """Reports in numbered lines, which begin with a heading. `flat`: white space tells nothing, for it was collapsed;
    then the rows after a pool's are its vdevs if `verbose`, else pools. With the decimal sign "", the first figure that
    has one decides for all. Raises ParseError.
    """
    reader = _Reader(flat, verbose, decimal_sign)
    for number, line in lines:
        if complete := reader.add_line(number, line):
            yield complete
    if reader.report.rows:
        yield reader.report


class _Reader:
    def __init__(self, flat: bool, verbose: bool, decimal_sign: str) -> None:
        self.flat, self.verbose, self.decimal_sign = flat, verbose, decimal_sign
        self.groups: list[str] = []
        self.columns: list[str] = []
        self.report = Report(0)
        self.pool = ""
        # (indentation, name) of the vdevs above
        self.above: list[tuple[int, str]] = []
        # where each heading ends, and its figures below it
        self.column_ends: list[int] = []

    def add_line(self, number: int, line: str) -> Report | None:
        """The report that is whole now that this line came."""
        words = line.split()
        if not words:
            return None
        if DASHES.fullmatch(line):
            self.pool = ""
            return None
        if heads(line):
            self.groups, self.columns, self.pool = words, [], ""
            return self._begin_report(number)
        if (not self.groups or self.columns) and is_lower_heading(line):
            self.groups, self.pool = ["capacity", "operations", "bandwidth"], ""
            self.columns = self._parse_columns(words, number, line)
            self.column_ends = _word_ends(line)
            return self._begin_report(number)
        if self.groups and not self.columns:
            self.columns = self._parse_columns(words, number, line)
            self.column_ends = _word_ends(line)
            return None
        if not self.columns or len(words) != len(self.columns) + 1:
            raise ParseError("not a row of zpool iostat", number, line)
        return self._parse_row(words, number, line)

    def _begin_report(self, number: int) -> Report | None:
        complete, self.report = self.report, Report(number)
        return complete if complete.rows else None

    def _parse_columns(self, words: list[str], number: int, line: str) -> list[str]:
        expected = [(g, at) for g in self.groups for at in range(1 if g in SINGLE else 2)]
        if words[0] not in ("pool", "vdev") or not set(words[1:]) <= COLUMNS:
            raise ParseError("not the headings of zpool iostat", number, line)
        if len(words) - 1 != len(expected):
            raise ParseError("headings of zpool iostat that do not match", number, line)
        return [GROUPS[g][at] if g in GROUPS else "" for g, at in expected]

    def _parse_row(self, words: list[str], number: int, line: str) -> Report | None:
        name, cells = words[0], words[1:]
        indent = 0 if self.flat else len(line) - len(line.lstrip())
        if name in CLASSES and set(cells) == {"-"} and self.pool:
            self.above = [(0, name)]
            return None
        complete = None
        top = indent == 0 and not (self.flat and self.verbose)
        if top or not self.pool or name == self.pool:
            if name in self.report.rows:
                complete = self._begin_report(number)
            self.pool, self.above, device = name, [], name
        else:
            device = self._parent_path(name, indent)
        if device in self.report.rows:
            raise ParseError(f"{device} twice in one report", number, line)
        columns = self.columns
        for word in cells:
            self._check_decimal_sign(word, number, line)
        if self._is_cut(line):
            self.report.cut_values.append((number, cells.pop()))
            columns = columns[:-1]
        values = {
            metric: _parse_value(metric, word, number, line)
            for metric, word in zip(columns, cells, strict=True)
            if metric
        }
        if not values.get("zpool.alloc") and not values.get("zpool.free") and device != self.pool:
            # Space is known of what stands right below the pool: -p prints 0 for the others.
            values = {m: v for m, v in values.items() if m not in GROUPS["capacity"]}
        self.report.rounded |= any(w[-1].isalpha() for w in cells)
        self.report.rows[device] = Row(device, number, values)
        return complete

    def _check_decimal_sign(self, word: str, number: int, line: str) -> None:
        sign = "," if "," in word else "." if "." in word else ""
        self.decimal_sign = self.decimal_sign or sign
        if sign and sign != self.decimal_sign:
            raise _not_a_figure(word, number, line)

    def _is_cut(self, line: str) -> bool:
        """True if all figures but the last end below their headings: the line ends within the last value."""
        ends = _word_ends(line)
        aligned = ends[1:-1] == self.column_ends[1:-1]
        return aligned and ends[-1] < self.column_ends[-1]

    def _parent_path(self, name: str, indent: int) -> str:
        while self.above and self.above[-1][0] >= indent and self.above[-1][1] not in CLASSES:
            self.above.pop()
        parent = "/".join((self.pool, *(vdev for _, vdev in self.above)))
        if UNNUMBERED.fullmatch(name):
            name = self._numbered_name(parent, name)
        path = f"{parent}/{name}"
        if not self.flat:
            self.above.append((indent, name))
        return path

    def _numbered_name(self, parent: str, name: str) -> str:
        """The name with a number where its parent has several such vdevs; the first of them is numbered, too."""
        rows, first = self.report.rows, f"{parent}/{name}"
        if first in rows:
            renamed = (_moved_row(row, first, f"{first}-0") for row in rows.values())
            self.report.rows = {row.device: row for row in renamed}
            return f"{name}-1"
        number = 0
        while f"{first}-{number}" in rows:
            number += 1
        return f"{name}-{number}" if number else name


def _moved_row(row: Row, old: str, new: str) -> Row:
    """The row under its new name, if it is that vdev or a member of it."""
    if row.device != old and not row.device.startswith(f"{old}/"):
        return row
    return replace(row, device=new + row.device.removeprefix(old))


def _word_ends(line: str) -> list[int]:
    return [word.end() for word in WORD.finditer(line)]


def _parse_value(metric: str, word: str, number: int, line: str) -> float | None:
    """The value in base units. Raises ParseError."""
    if word == "-":
        return None
    match = NUMBER.fullmatch(word)
    time = metric.endswith("wait")
    unit = match[2] if match else None
    if not match or (unit and time != (unit in TIMES)):
        raise _not_a_figure(word, number, line)
    figure = float(match[1].replace(",", "."))
    if time:
        return figure * TIMES[unit or "ns"]
    return figure * float(1024 ** (" KMGTPEZ".index(unit) if unit else 0))


def _not_a_figure(word: str, number: int, line: str) -> ParseError:
    return ParseError(f"{word!r} is not a figure of zpool iostat", number, line)
