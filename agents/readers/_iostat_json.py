# SPDX-License-Identifier: Apache-2.0
"""`iostat -o JSON`: the reports of one document. Its keys are the headings of the text, without their %.

What was cut short is read as far as whole reports go. Older versions wrote a locale's comma as decimal sign: no JSON,
but there is one way to read it, since every comma of iostat's own has a quotation mark or a brace behind it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import ParseError
from agents.readers import _iostat_columns as table
from agents.readers import _watched
from agents.readers._iostat_columns import Heads
from agents.readers._watched import Report, Sample

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
            values = table.cpu([cpu[column] for column in CPU], first)
            rows[""] = Sample(first, values)
        clock = statistics.get("timestamp")
        when = _watched.when(clock)[1] if isinstance(clock, str) and len(clock) < 60 else None
        yield Report(first, self.line_at(self.at), rows, when)

    def _parse_disk(
        self, disk: Mapping[str, object], line: int, notes: dict[str, None]
    ) -> tuple[str, Sample]:
        figures = {f"%{key}" if key in SHARES else key: value for key, value in disk.items()}
        name = figures.pop("disk_device", None)
        texts = [figure for figure in (name, *figures.values()) if isinstance(figure, str)]
        if not isinstance(name, str) or len(texts) != 1 + len(figures):
            raise ParseError("a figure of iostat's that is not a number", line, str(disk)[:120])
        heads = table.parse_heading(["Device", *figures])
        if heads is None:
            heads = Heads(
                tuple(figures), unknown=tuple(k for k in figures if not table.is_known_heading(k))
            )
        for unknown in heads.unknown:
            notes[f"the key {unknown} is not known, and left out"] = None
        return name, Sample(line, table.parse_row(texts, heads, line, str(disk)[:120]))


def _behind_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at
