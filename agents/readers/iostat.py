"""iostat's tables of devices in any text: sysstat 9 to 12 with any of its columns, and FreeBSD's `iostat -x`.

A report is a table below its headings; avg-cpu and a date above it belong to it. Reports one after another are one run
of iostat. Rows without headings are read where the same text showed such a table before, and their sizes agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agents.contracts import ParseError
from agents.found import Found
from agents.readers import _command, _watched
from agents.readers import _iostat_columns as table
from agents.readers._command import Command
from agents.readers._watched import Report, Sample, Values

LABEL = "iostat"
WORDS = ("evice",)
LEFT_OUT = " (with -z, idle devices are left out: their zeros are missing in it)"
KIND = _watched.Kind("iostat", table.UNITS, table.PER_REQUEST, LEFT_OUT)

ARGUMENT = re.compile(r"[-\w.,/=:]+", re.ASCII)
BANNER = re.compile(r"Linux \S+ \(.+\) .*\(\d+ CPU\)|Linux \S+ \(.+\) \d\S+( _\w+_)?")
CPU = ["avg-cpu:", "%user", "%nice", "%system", "%iowait", "%steal", "%idle"]
TITLE = ["extended", "device", "statistics"]
NAME = re.compile(r"[a-z][A-Za-z0-9!/_.-]{1,60}")
TWO_DIGITS = re.compile(r"\d+[.,]\d\d")


@dataclass
class _Run:
    """One run of iostat while its lines are read."""

    command: Command = _command.NONE
    first: int = 0  # line of the command or banner
    reports: list[Report] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    head: int = 0  # line of the headings, where they are those of another table


@dataclass
class _Ahead:
    """What was said above a table and belongs to it."""

    first: int = 0
    when: float | None = None
    cpu: Sample | None = None


def find(text: str, name: str) -> list[Found]:
    return list(_Reader(text.replace("\xa0", " ").split("\n")).read())


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.run = _Run()
        self.ahead = _Ahead()
        self.known: list[str] = []  # the last headings of the text
        self.known_at = 0  # their line
        self.at = 0  # index of the line to be read

    def read(self) -> Iterator[Found]:
        while self.at < len(self.lines):
            yield from self._line(self.lines[self.at].split())
        yield from self._end()

    def _line(self, words: list[str]) -> Iterator[Found]:
        """Reads on from self.at, by one line or a table."""
        number, line = self.at + 1, " ".join(words)
        self.at += 1
        dated, second = _watched.when(line) if words and len(line) < 60 else (False, None)
        if not words:
            return
        if command := _said(line):
            yield from self._end()
            self.run = _Run(command, number)
        elif BANNER.fullmatch(line[:300]):
            if self.run.reports:
                yield from self._end()
            self.run.first = self.run.first or number
        elif words == CPU:
            yield from self._cpu(number)
        elif words == TITLE or dated:
            clock = second if dated else self.ahead.when
            self.ahead = _Ahead(self.ahead.first or number, clock, self.ahead.cpu)
        else:
            yield from self._table(words, number)

    def _cpu(self, number: int) -> Iterator[Found]:
        words = self.lines[self.at].split() if self.at < len(self.lines) else []
        try:
            values = _cpu(words, self.at + 1)
        except ParseError:
            return  # cut, or quoted without figures: the table may follow all the same
        self.at += 1
        self.ahead = _Ahead(self.ahead.first or number, self.ahead.when, Sample(self.at, values))
        yield from ()

    def _table(self, words: list[str], number: int) -> Iterator[Found]:
        try:
            heads = table.columns(words)
        except ParseError as error:
            yield from self._end()
            yield from self._trouble(number, str(error))
            return
        if heads is None:
            yield from self._end()
            yield from self._headless(number)
            return
        if self.run.reports and heads != self.run.heads:
            yield from self._end()
        self.known, self.known_at = heads, number
        self.run.heads = heads
        first = self.ahead.first or number
        try:
            report = Report(first, number, self._rows(), self.ahead.when)
        except ParseError as error:
            yield from self._end()
            yield from self._trouble(number, str(error))
            return
        if report.rows or self._all_idle():
            if self.ahead.cpu:
                report.rows[""] = self.ahead.cpu
            # The empty line below headings without a row shows that they are whole: it belongs to them.
            report.last = self.at + (not report.rows and not self.lines[self.at].strip())
            self.run.reports.append(report)
        self.ahead = _Ahead()

    def _all_idle(self) -> bool:
        """Are headings without a row a report of -z? Only where its end is to be seen: else it may be cut."""
        if self.at == len(self.lines) or not _watched.leaves_idle_out(self.run.command):
            return False
        below = self.lines[self.at].split()
        return not below or below in (TITLE, CPU) or below[0].lower() in ("device", "device:")

    def _rows(self) -> dict[str, Sample]:
        """The rows from here on. Raises ParseError."""
        rows: dict[str, Sample] = {}
        heads = self.run.heads
        while self.at < len(self.lines):
            line = self.lines[self.at]
            words = line.split()
            whole = len(words) == len(heads) + 1
            if not words or not (whole or table.looks_like_row(words, len(heads))):
                break
            if table.columns(words) is not None or not table.looks_like_row(words, len(heads)):
                break
            if not whole and self.at == len(self.lines) - 1 and rows:
                self.run.notes.append(f"line {self.at + 1} is cut, and left out")
                self.at += 1
                break
            if words[0] in rows:
                raise ParseError(f"{words[0]} twice in one report", self.at + 1, line)
            rows[words[0]] = Sample(self.at + 1, table.row(words, heads, self.at + 1, line))
            self.at += 1
        return rows

    def _headless(self, number: int) -> Iterator[Found]:
        """Rows as of a table that the text showed before: two at least, each with all its columns."""
        if not self.known:
            return
        end = number - 1
        while end < len(self.lines) and _plain_row(self.lines[end].split(), len(self.known)):
            end += 1
        if end - number + 1 < 2:
            return
        try:
            rows = {}
            for at in range(number, end + 1):
                words = self.lines[at - 1].split()
                rows[words[0]] = Sample(at, table.row(words, self.known, at, self.lines[at - 1]))
        except ParseError:
            self.at = end  # some other table
            return
        self.at = end
        self.run = _Run(heads=self.known, reports=[Report(number, end, rows)], head=self.known_at)
        self.run.notes.append("without headings: read by those of the table before it")
        yield from self._end()

    def _trouble(self, first: int, says: str) -> Iterator[Found]:
        """With all that follows it without a gap."""
        while self.at < len(self.lines) and self.lines[self.at].strip():
            self.at += 1
        yield Found(KIND.name, first, max(first, self.at), "iostat", trouble=says)

    def _end(self) -> Iterator[Found]:
        run, self.run, self.ahead = self.run, _Run(), _Ahead()
        if not any(report.rows for report in run.reports):
            return
        devices = {name for report in run.reports for name in report.rows if name}
        many = f"{len(run.reports)} reports" if len(run.reports) > 1 else "1 report"
        title = f"iostat, {len(devices)} device{'s' * (len(devices) > 1)}, {many}"
        one = _watched.found(KIND, run.reports, run.command, title, run.notes)
        yield replace(one, first=min(run.first or one.first, one.first), head=run.head)


def _said(line: str) -> Command:
    """The command, unless the line is prose that begins with its name."""
    found = _command.find(line, "iostat")
    plain = all(ARGUMENT.fullmatch(word) for word in found.words)
    return found if plain else _command.NONE


def _plain_row(words: Sequence[str], wide: int) -> bool:
    """As sysstat prints them: a name, and as many figures with two digits."""
    return (
        len(words) == wide + 1
        and bool(NAME.fullmatch(words[0]))
        and all(TWO_DIGITS.fullmatch(word) for word in words[1:])
    )


def _cpu(words: Sequence[str], number: int) -> Values:
    """user includes nice, as in the samples of a run. Raises ParseError."""
    if len(words) != 6 or not all(table.NUMBER.fullmatch(word) for word in words):
        raise ParseError("not the figures of avg-cpu", number, " ".join(words))
    user, nice, system, iowait, steal, idle = (float(w.replace(",", ".")) for w in words)
    shares = {"user": user + nice, "system": system, "iowait": iowait, "steal": steal, "idle": idle}
    if not 98 <= sum(shares.values()) <= 102:
        raise ParseError("the shares of avg-cpu do not add up", number, " ".join(words))
    return {f"cpu.{name}": value / 100 for name, value in shares.items()}
