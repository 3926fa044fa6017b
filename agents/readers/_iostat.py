# SPDX-License-Identifier: Apache-2.0
"""iostat's columns as figures in base units, what must agree among them, and its JSON (`iostat -o JSON`).

sysstat 9 to 12 (iostat.c): sectors are 512 bytes, kB 1024, MB 1024²; times in ms; avgrq-sz in sectors, areq-sz in kB.
With --human every size has a unit of its own, in powers of 1024 (`8.3M`), and every share its %.
FreeBSD (iostat.8): kr/s and kw/s in KiB, svc_t and ms/… in ms, qlen at the report's end.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agents.contracts import ParseError, Unit
from agents.readers import _command
from agents.readers._command import Report, Sample, Values

OPS, BPS, S, B, RATIO = (
    Unit.OPS_PER_SECOND,
    Unit.BYTES_PER_SECOND,
    Unit.SECONDS,
    Unit.BYTES,
    Unit.RATIO,
)
KIB, MIB, SECTOR = 1024.0, 1048576.0, 512.0
UNITS = {
    "iops": OPS,
    "bandwidth": BPS,
    "merges": OPS,
    "read.iops": OPS,
    "write.iops": OPS,
    "read.bandwidth": BPS,
    "write.bandwidth": BPS,
    "read.await": S,
    "write.await": S,
    "await": S,
    "queue": RATIO,
    "util": RATIO,
    "read.merges": OPS,
    "write.merges": OPS,
    "request.size": B,
    "read.request.size": B,
    "write.request.size": B,
    "service": S,
    "discard.iops": OPS,
    "discard.bandwidth": BPS,
    "discard.merges": OPS,
    "discard.await": S,
    "discard.request.size": B,
    "flush.iops": OPS,
    "flush.await": S,
    "other.await": S,
    "cpu.user": RATIO,
    "cpu.system": RATIO,
    "cpu.iowait": RATIO,
    "cpu.steal": RATIO,
    "cpu.idle": RATIO,
}
IGNORED = {
    "%rrqm",
    "%wrqm",
    "%drqm",
    # with -s
    "Blk",
    "kB",
    "MB",
    *(f"{u}_{w}" for u in ("Blk", "kB", "MB") for w in ("read", "wrtn", "dscd")),
}
PER_REQUEST = {
    "read.await": ("read.iops",),
    "write.await": ("write.iops",),
    "discard.await": ("discard.iops",),
    "flush.await": ("flush.iops",),
    "await": ("read.iops", "write.iops", "discard.iops", "iops"),
    "service": ("read.iops", "write.iops", "discard.iops", "iops"),
    "request.size": ("read.iops", "write.iops", "discard.iops", "iops"),
    "read.request.size": ("read.iops",),
    "write.request.size": ("write.iops",),
    "discard.request.size": ("discard.iops",),
}
# a row of fewer columns does not show how many decimals are printed
MIN_COMPARED_COLUMNS = 3
DECIMALS = re.compile(r"(?<=\d[.,])(\d*)[sBkMGTP%]?$")
# what two decimals everywhere look like; IGNORED columns are whole numbers
PLAIN = r"\d{1,15}\.\d\d"
CUT_NUMBER = re.compile(r"\d{1,15}(?:[.,]\d?)?")
DEVICE = ("Device:", "Device", "device", "device:")
NUMBER = re.compile(r"\d{1,15}(?:([.,])(\d{1,2}))?([sBkMGTP%]?)")
SHARE = re.compile(r"\d{1,15}(?:[.,]\d{1,2})?%?")
SIZES = {"s": SECTOR, "B": 1.0} | {unit: 1024.0**n for n, unit in enumerate("kMGTP", 1)}
# each table of --pretty has one of them
RATES = frozenset({"tps", "r/s", "w/s", "d/s", "f/s"})


@dataclass(frozen=True, slots=True)
class Heads:
    """The headings of a table of devices."""

    names: tuple[str, ...]
    # the device's name stands behind its figures: --pretty
    behind: bool = False
    # of the names: their figures are left out
    unknown: tuple[str, ...] = ()

    def named_row(self, words: Sequence[str]) -> list[str]:
        """A row with the device's name first."""
        return [words[-1], *words[:-1]] if self.behind and words else list(words)

    def without_last(self) -> Heads:
        """The headings of a row that lacks its last column."""
        return replace(self, names=self.names[:-1])

    def joined(self, other: Heads) -> Heads:
        """Heads of a table that is printed in several parts, one below the other."""
        return Heads(self.names + other.names, self.behind, self.unknown + other.unknown)


def _column_units() -> dict[str, tuple[str, float]]:
    """Heading -> metric, and what one of it is in base units."""
    units = {
        "tps": ("iops", 1.0),
        "kB/s": ("bandwidth", KIB),
        "MB/s": ("bandwidth", MIB),
        "rqm/s": ("merges", 1.0),
        "sec/s": ("bandwidth", SECTOR),
        "f/s": ("flush.iops", 1.0),
        "f_await": ("flush.await", 1e-3),
        "await": ("await", 1e-3),
        "svctm": ("service", 1e-3),
        "avgqu-sz": ("queue", 1.0),
        "aqu-sz": ("queue", 1.0),
        "avgrq-sz": ("request.size", SECTOR),
        "areq-sz": ("request.size", KIB),
        "%util": ("util", 0.01),
        "kr/s": ("read.bandwidth", KIB),
        "kw/s": ("write.bandwidth", KIB),
        "qlen": ("queue", 1.0),
        "svc_t": ("await", 1e-3),
        "ms/r": ("read.await", 1e-3),
        "ms/w": ("write.await", 1e-3),
        "ms/o": ("other.await", 1e-3),
        "ms/t": ("await", 1e-3),
        "%b": ("util", 0.01),
    }
    for letter, name, word in (
        ("r", "read", "read"),
        ("w", "write", "wrtn"),
        ("d", "discard", "dscd"),
    ):
        units |= {f"{letter}/s": (f"{name}.iops", 1.0), f"{letter}rqm/s": (f"{name}.merges", 1.0)}
        units |= {
            f"{letter}_await": (f"{name}.await", 1e-3),
            f"{letter}areq-sz": (f"{name}.request.size", KIB),
        }
        for unit, scale in (("sec", SECTOR), ("kB", KIB), ("MB", MIB)):
            units[f"{letter}{unit}/s"] = (f"{name}.bandwidth", scale)
            units[f"{'Blk' if unit == 'sec' else unit}_{word}/s"] = (f"{name}.bandwidth", scale)
    return units


COLUMNS = _column_units()


def parse_heading(words: Sequence[str]) -> Heads | None:
    """The columns of a line that heads a table of devices; None if it is no such line. Raises ParseError."""
    if not words:
        return None
    if words[0] in DEVICE:
        names, behind = tuple(words[1:]), False
        if not {"r/s", "w/s"} <= set(names) and "tps" not in names:
            return None
    elif words[-1] in DEVICE and RATES & set(words):
        names, behind = tuple(words[:-1]), True
    else:
        return None
    unknown = tuple(name for name in names if not is_known_heading(name))
    if len(unknown) > max(1, len(names) // 4):
        raise ParseError(f"columns of iostat that are not known: {', '.join(unknown)[:200]}")
    if len(set(names)) < len(names):
        raise ParseError("a column of iostat twice")
    return Heads(names, behind, unknown)


def is_known_heading(name: str) -> bool:
    return name in COLUMNS or name in IGNORED


def parse_cpu(words: Sequence[str], number: int) -> Values:
    """user includes nice, as in the samples of a run. Raises ParseError."""
    if len(words) != 6 or not all(SHARE.fullmatch(word) for word in words):
        raise ParseError("not the figures of avg-cpu", number, " ".join(words))
    user, nice, system, iowait, steal, idle = (
        float(w.rstrip("%").replace(",", ".")) for w in words
    )
    shares = {"user": user + nice, "system": system, "iowait": iowait, "steal": steal, "idle": idle}
    if not 98 <= sum(shares.values()) <= 102:
        raise ParseError("the shares of avg-cpu do not add up", number, " ".join(words))
    return {f"cpu.{name}": value / 100 for name, value in shares.items()}


def looks_like_row(words: Sequence[str], wide: int) -> bool:
    """Numbers behind a name, though maybe too few or not well written."""
    digits = sum(word[0].isdigit() for word in words[1:])
    begins_with_name = bool(words) and not NUMBER.fullmatch(words[0])
    return begins_with_name and len(words) > max(3, wide // 3) and digits >= 0.7 * (len(words) - 1)


def cut_value(words: Sequence[str]) -> str:
    """The last word, if the row ends within it: sysstat prints as many decimals in every column."""
    if not CUT_NUMBER.fullmatch(words[-1]):
        return ""
    *decimals, last = map(_decimals, words[1:])
    alike = len(decimals) >= MIN_COMPARED_COLUMNS and len(set(decimals)) == 1
    return words[-1] if alike and last < decimals[0] else ""


def _decimals(word: str) -> int:
    match = DECIMALS.search(word)
    return len(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class PlainColumns:
    """Columns of rows with two decimals everywhere, as sysstat prints nearly all: read without a look at each word."""

    pattern: re.Pattern[str]
    # (its place in the row, metric, factor, divisor)
    figures: tuple[tuple[int, str, float, float], ...]
    margin: Mapping[str, float]
    # (metric, the rates of its requests)
    per_request: tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(maxsize=64)
def plain_columns(heads: Heads) -> PlainColumns:
    """The columns of tables with these headings."""
    words = [PLAIN if name in COLUMNS else r"\S+" for name in heads.names]
    known = [(at, *COLUMNS[name]) for at, name in enumerate(heads.names, 1) if name in COLUMNS]
    metrics = {metric for _, metric, _ in known}
    return PlainColumns(
        re.compile(r"\s*[A-Za-z]\S*\s+" + r"\s+".join(words) + r"\s*"),
        tuple(
            (at, metric, max(scale, 1.0), 1.0 if scale >= 1 else float(round(1 / scale)))
            for at, metric, scale in known
        ),
        {metric: scale * 0.5 * 10.0**-2 for _, metric, scale in known},
        tuple((metric, rates) for metric, rates in PER_REQUEST.items() if metric in metrics),
    )


def parse_plain_row(words: Sequence[str], columns: PlainColumns, number: int, line: str) -> Values:
    """The figures of a row that fits the pattern, as `parse_row` has them. Raises ParseError."""
    values: Values = {
        metric: float(words[at]) * factor / divisor
        for at, metric, factor, divisor in columns.figures
    }
    _check_row(values, columns.margin, number, line)
    for metric, rates in columns.per_request:
        if not any(values.get(rate) for rate in rates):
            values[metric] = None
    return values


def parse_row(words: Sequence[str], heads: Heads, number: int, line: str) -> Values:
    """The figures of one device, its name first. Raises ParseError."""
    if len(words) != len(heads.names) + 1:
        raise ParseError(
            f"{len(words) - 1} figures under {len(heads.names)} headings of iostat", number, line
        )
    pairs = [
        (head, NUMBER.fullmatch(word))
        for head, word in zip(heads.names, words[1:], strict=True)
        if head not in heads.unknown
    ]
    cells = [cell for _, cell in pairs if cell]
    # points or commas
    alike = len({cell[1] for cell in cells if cell[1]}) < 2
    if len(cells) < len(pairs) or not alike or not _units_fit(pairs):
        raise ParseError("not a row of iostat's figures", number, line)
    values: Values = {}
    margin: dict[str, float] = {}
    for head, cell in pairs:
        if head in COLUMNS and cell:
            metric, scale = COLUMNS[head]
            scale = SIZES.get(cell[3], scale)
            # What a person reads, 0.01 * 59: not 0.59000000001.
            figure = cell[0].rstrip("sBkMGTP%").replace(",", ".")
            values[metric] = _scaled(float(figure), scale)
            margin[metric] = scale * 0.5 * 10.0 ** -len(cell[2] or "")
    _check_row(values, margin, number, line)
    for metric, rates in PER_REQUEST.items():
        if metric in values and not any(values.get(rate) for rate in rates):
            values[metric] = None
    return values


def _units_fit(pairs: Sequence[tuple[str, re.Match[str] | None]]) -> bool:
    """Either nothing has a unit, or every size has, as with --human; a share its % or not."""
    units = [(head, cell[3]) for head, cell in pairs if cell]
    if not any(unit for _, unit in units):
        return True
    return all(
        unit in ("%", "") if head[0] == "%" else unit in SIZES if _is_size(head) else not unit
        for head, unit in units
    )


def _is_size(head: str) -> bool:
    """Also of what is not read."""
    return head not in COLUMNS or UNITS[COLUMNS[head][0]] in (BPS, B)


def _scaled(value: float, scale: float) -> float:
    return value * scale if scale >= 1 else value / round(1 / scale)


def _check_row(values: Values, margin: Mapping[str, float], number: int, line: str) -> None:
    """Bytes per request are bytes over requests. Raises ParseError."""
    for prefix in ("read.", "write.", "discard.", ""):
        size = values.get(f"{prefix}request.size")
        parts = (prefix,) if prefix or "bandwidth" in values else ("read.", "write.", "discard.")
        directions = [p for p in parts if f"{p}bandwidth" in values]
        if size is None or not directions:
            continue
        many = sum(values.get(f"{p}iops") or 0.0 for p in directions)
        much = sum(values[f"{p}bandwidth"] or 0.0 for p in directions)
        many_off = sum(margin.get(f"{p}iops", 0.0) for p in directions)
        much_off = sum(margin[f"{p}bandwidth"] for p in directions)
        if many <= 2 * many_off:
            continue
        off = margin[f"{prefix}request.size"]
        low, high = (much - much_off) / (many + many_off), (much + much_off) / (many - many_off)
        if not low * 0.99 - off <= size <= high * 1.01 + off:
            raise ParseError(
                f"{size:.0f} B per request, but {much / many:.0f} by the rates", number, line
            )


BEGINS = re.compile(r'(?:\{\s*)?"sysstat"\s*:\s*(?:\{|$)')
STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
COMMA = re.compile(r"(:\s*\d+),(\d+)(?=\s*[,}\n])")
DISK_NAME = re.compile(r'"disk_device"\s*:\s*"')
CLOSED = re.compile(r"\s*\]\s*\}\s*\]\s*\}(?:\s*\})?")
SPACE = re.compile(r"[\s,]*")
SHARES = frozenset({"util", "rrqm", "wrqm", "drqm"})
CPU = ("user", "nice", "system", "iowait", "steal", "idle")

# Figures as they were printed; a paste may have made a tab of a date's space
_decoder = json.JSONDecoder(parse_float=str, parse_int=str, strict=False)


@dataclass(frozen=True, slots=True)
class Document:
    # line, from 1
    first: int
    last: int
    reports: Sequence[Report] = ()
    notes: Sequence[str] = ()
    trouble: str = ""


def begins(line: str) -> bool:
    """True for the first line of a document, except a line above it with only the opening brace."""
    return line.startswith(("{", '"')) and bool(BEGINS.match(line))


def parse_document(lines: Sequence[str], number: int) -> Document:
    """The document that begins in that line."""
    first = number - (number > 1 and lines[number - 2].strip() == "{")
    end = next((at for at in range(number, len(lines)) if begins(lines[at].strip())), len(lines))
    walk = _Walk(COMMA.sub(r"\1.\2", "\n".join(lines[first - 1 : end])), first)
    reports: list[Report] = []
    notes: dict[str, None] = {}
    try:
        for report in walk.reports():
            reports += walk.parse_reports(report, notes)
    except ParseError as error:
        return Document(first, walk.line_at(walk.at), trouble=str(error))
    closed = CLOSED.match(walk.text, walk.at)
    last = walk.line_at(closed.end() - 1 if closed else walk.at)
    where = f"line {last}: the JSON is truncated or invalid"
    if not reports:
        why = "no report of devices: iostat -d -o JSON has them" if closed else where
        return Document(first, last, trouble=f"iostat's JSON: {why}")
    if not closed:
        notes[f"{where}; the complete reports above are used"] = None
    return Document(first, last, reports, list(notes))


def _json_value(text: str, at: int) -> tuple[object, int]:
    """Value that begins there and its end; None and the same place where it is broken."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


class _Walk:
    """Through a document, report by report, with their lines."""

    def __init__(self, text: str, first: int) -> None:
        self.text, self.first, self.at = text, first, 0
        # where the present report begins
        self.begin = 0
        self.ends = [at for at, char in enumerate(text) if char == "\n"]

    def line_at(self, at: int) -> int:
        return self.first + bisect_left(self.ends, at)

    def reports(self) -> Iterator[Mapping[str, object]]:
        """The whole ones; `at` is behind the last of them then."""
        match = STATISTICS.search(self.text)
        self.at = match.end() if match else 0
        while match:
            begin = _behind_space(self.text, self.at)
            statistics, at = _json_value(self.text, begin)
            if not isinstance(statistics, dict):
                return
            self.begin, self.at = begin, at
            yield statistics

    def parse_reports(
        self, statistics: Mapping[str, object], notes: dict[str, None]
    ) -> Iterator[Report]:
        """None where it speaks of no device. Raises ParseError."""
        disks = statistics.get("disk")
        if not isinstance(disks, list):
            return
        first, at = self.line_at(self.begin), self.begin
        rows: dict[str, Sample] = {}
        for disk in disks:
            match = DISK_NAME.search(self.text, at, self.at)
            if not isinstance(disk, dict) or match is None:
                raise ParseError('an entry of "disk" without its "disk_device"', self.line_at(at))
            at = match.end()
            name, row = self._parse_disk(disk, self.line_at(match.start()), notes)
            if name in rows:
                raise ParseError(f"{name} twice in one report", row.line)
            rows[name] = row
        cpu = statistics.get("avg-cpu")
        if isinstance(cpu, dict) and all(isinstance(cpu.get(column), str) for column in CPU):
            values = parse_cpu([cpu[column] for column in CPU], first)
            rows[""] = Sample(first, values)
        clock = statistics.get("timestamp")
        when = _command.when(clock)[1] if isinstance(clock, str) and len(clock) < 60 else None
        yield Report(first, self.line_at(self.at), rows, when)

    def _parse_disk(
        self, disk: Mapping[str, object], line: int, notes: dict[str, None]
    ) -> tuple[str, Sample]:
        figures = {f"%{key}" if key in SHARES else key: value for key, value in disk.items()}
        name = figures.pop("disk_device", None)
        texts = [figure for figure in (name, *figures.values()) if isinstance(figure, str)]
        if not isinstance(name, str) or len(texts) != 1 + len(figures):
            raise ParseError("a figure of iostat's that is not a number", line, str(disk)[:120])
        heads = parse_heading(["Device", *figures])
        if heads is None:
            heads = Heads(
                tuple(figures), unknown=tuple(k for k in figures if not is_known_heading(k))
            )
        for unknown in heads.unknown:
            notes[f"the key {unknown} is not known, and left out"] = None
        return name, Sample(line, parse_row(texts, heads, line, str(disk)[:120]))


def _behind_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at
