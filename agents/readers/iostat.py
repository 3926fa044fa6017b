# SPDX-License-Identifier: Apache-2.0
"""iostat's tables of devices in any text: sysstat 9 to 12 with any of its columns, and FreeBSD's `iostat -x`.

A report is a table below its headings, or several with the devices' names behind (--pretty); avg-cpu and a date above
it belong to it. Reports one after another are one run of iostat. Rows without headings are read where the same text
showed such a table before, and their sizes agree. Lines that were broken on their way (a mail's, a narrow terminal's)
are put together by their columns. `iostat -o JSON` is read by _iostat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agents.contracts import ParseError
from agents.readers import _command, _iostat
from agents.readers._command import Command, Report, Sample
from agents.readers._iostat import Heads
from agents.texts.parsed_result import ParsedResult

LABEL = "iostat"
KEYWORDS = ("evice",)
LEFT_OUT = " (with -z, idle devices are left out: their zeros are missing in it)"
KIND = _command.Kind("iostat", _iostat.UNITS, _iostat.PER_REQUEST, LEFT_OUT)

ARGUMENT = re.compile(r"[-\w.,/=:]+", re.ASCII)
BANNER = re.compile(r"Linux \S+ \(.+\) .*\(\d+ CPU\)|Linux \S+ \(.+\) \d\S+( _\w+_)?")
CPU = ["avg-cpu:", "%user", "%nice", "%system", "%iowait", "%steal", "%idle"]
TITLE = ["extended", "device", "statistics"]
NAME = re.compile(r"[a-z][A-Za-z0-9!/_.-]{1,60}")
NO_HEADS = Heads(())
# lines that one may have been broken into
MOST_BROKEN = 5
TWO_DIGITS = re.compile(r"\d+[.,]\d\d")


@dataclass
class _Run:
    """One run of iostat while its lines are read."""

    command: Command = _command.NONE
    # line of the command or banner
    first: int = 0
    reports: list[Report] = field(default_factory=list)
    heads: Heads = NO_HEADS
    # those of the last report
    tables: list[Heads] = field(default_factory=list)
    # how many tables a whole report has
    many: int = 0
    notes: list[str] = field(default_factory=list)
    # line, where it is not the last report's
    last: int = 0
    # line of the headings, where they are those of another table
    head: int = 0


@dataclass
class _Ahead:
    """Facts from above a table that belong to it."""

    first: int = 0
    when: float | None = None
    cpu: Sample | None = None


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = text.replace("\xa0", " ").split("\n")
    return _Reader(lines, _command.told_command(name, "iostat")).read_runs()


def name_with_reports(name: str, seconds: float | None, *, first_counts: bool) -> str:
    """The name of a file of reports without a command, for the readers of iostat and zpool iostat: seconds between
    them, and whether the first one is as the others.
    """
    return f"watched-every-{seconds or 0:g}{'-kept' if first_counts else ''}/{name}"


class _Reader:
    def __init__(self, lines: Sequence[str], told: Command) -> None:
        self.lines = lines
        # of reports without a command
        self.told = told
        self.results: list[ParsedResult] = []
        self.run = _Run()
        self.ahead = _Ahead()
        # the last headings of the text
        self.known = NO_HEADS
        # their line
        self.known_at = 0
        # index of the line to be read
        self.at = 0

    def read_runs(self) -> list[ParsedResult]:
        while self.at < len(self.lines):
            self._read_line(self.lines[self.at].split())
        self._end_run()
        return self.results

    def _read_line(self, words: list[str]) -> None:
        """Reads on from self.at, by one line or a _iostat."""
        number, line = self.at + 1, " ".join(words)
        self.at += 1
        dated, second = _command.when(line) if words and len(line) < 60 else (False, None)
        if not words:
            return
        if command := _command_in_line(line):
            self._end_run()
            self.run = _Run(command, number)
        elif _iostat.begins(line):
            self._document(number)
        elif self.run.command and not self.run.reports and _command.may_stand_between(line):
            return
        elif BANNER.fullmatch(line[:300]):
            if self.run.reports:
                self._end_run()
            self.run.first = self.run.first or number
        elif words == CPU:
            self._cpu(number)
        elif words == TITLE or dated:
            clock = second if dated else self.ahead.when
            self.ahead = _Ahead(self.ahead.first or number, clock, self.ahead.cpu)
        else:
            self._read_table(words, number)

    def _cpu(self, number: int) -> None:
        words = self.lines[self.at].split() if self.at < len(self.lines) else []
        try:
            values = _iostat.parse_cpu(words, self.at + 1)
        except ParseError:
            # cut, or quoted without figures: the table may follow all the same
            return
        self.at += 1
        self.ahead = _Ahead(self.ahead.first or number, self.ahead.when, Sample(self.at, values))

    def _document(self, number: int) -> None:
        """A document of `-o JSON`, with the command above it."""
        run, self.run = self.run, _Run()
        if run.reports:
            self.run = run
            self._end_run()
            run = _Run()
        read = _iostat.parse_document(self.lines, number)
        self.at = max(read.last, self.at)
        if read.trouble:
            self.results.append(
                ParsedResult(KIND.name, read.first, read.last, "iostat", trouble=read.trouble)
            )
            return
        self.run = _Run(run.command, min(run.first or read.first, read.first))
        self.run.reports, self.run.notes = list(read.reports), list(read.notes)
        self.run.last = read.last
        self._end_run()

    def _read_table(self, words: list[str], number: int) -> None:
        try:
            heads, broken = self._headings(number - 1)
        except ParseError as error:
            self._end_run()
            self._trouble(number, str(error))
            return
        if heads is None:
            self._end_run()
            self._headless(number)
            return
        more = self._goes_on(heads)
        if not more and self.run.reports and heads != self.run.heads:
            self._end_run()
        self.at = number - 1 + broken
        self.known, self.known_at = (heads, number) if broken == 1 else (NO_HEADS, 0)
        first = self.ahead.first or number
        try:
            rows = self._read_rows(heads, broken)
            if more:
                self._merge(rows)
        except ParseError as error:
            self._end_run()
            self._trouble(number, str(error))
            return
        self.run.tables = [*self.run.tables * more, heads]
        self.run.many = max(self.run.many, len(self.run.tables))
        for name in heads.unknown:
            self.run.notes.append(f"line {number}: the column {name} is not known, and left out")
        if not more:
            self._add_report(Report(first, number, rows, self.ahead.when), heads)
        self.ahead = _Ahead()

    def _headings(self, at: int) -> tuple[Heads | None, int]:
        """Those that begin in that line, and how many lines they take: long lines break. Raises ParseError."""
        words, lines = self.lines[at].split(), 1
        while words[0] in _iostat.DEVICE and at + lines < len(self.lines) and lines < MOST_BROKEN:
            below = self.lines[at + lines].split()
            if not below or not all(_iostat.is_known_heading(heading) for heading in below[1:-1]):
                break
            if not _iostat.is_known_heading(below[0]):
                if len(words) < 2 or not _iostat.is_known_heading(words[-1] + below[0]):
                    break
                # broken within a word
                words[-1] += below.pop(0)
            words, lines = words + below, lines + 1
        return _iostat.parse_heading(words), lines

    def _goes_on(self, heads: Heads) -> bool:
        """True for a further table of the last report, with other columns of the same devices."""
        had = {name for heads in self.run.tables for name in heads.names}
        ahead = self.ahead.first or self.ahead.cpu
        return bool(self.run.reports and heads.behind and not ahead and not had & {*heads.names})

    def _merge(self, rows: dict[str, Sample]) -> None:
        """Raises ParseError."""
        report = self.run.reports[-1]
        for name, row in rows.items():
            if name not in report.rows:
                message = f"{name} is not in the tables above it of the same report"
                raise ParseError(message, row.line, self.lines[row.line - 1])
            had = report.rows[name]
            report.rows[name] = Sample(had.line, {**had.values, **row.values})
        report.last = self.at

    def _add_report(self, report: Report, heads: Heads) -> None:
        self.run.heads = heads
        if report.rows or self._all_idle():
            if self.ahead.cpu:
                report.rows[""] = self.ahead.cpu
            # The empty line below headings without a row shows that they are whole: it belongs to them.
            report.last = self.at + (not report.rows and not self.lines[self.at].strip())
            self.run.reports.append(report)

    def _all_idle(self) -> bool:
        """Are headings without a row a report of -z? Only where its end is to be seen: else it may be cut."""
        if self.at == len(self.lines) or not _command.leaves_idle_out(self.run.command):
            return False
        below = self.lines[self.at].split()
        return not below or below in (TITLE, CPU) or below[0].lower() in ("device", "device:")

    def _read_rows(self, heads: Heads, broken: int) -> dict[str, Sample]:
        """The rows from here on. Raises ParseError."""
        rows: dict[str, Sample] = {}
        wide = len(heads.names)
        columns = _iostat.plain_columns(heads)
        is_plain = broken == 1 and not heads.behind and "-g" not in self.run.command.words
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if is_plain and line[:1] != " " and columns.pattern.fullmatch(line):
                words = line.split()
                if words[0] not in rows:
                    self.at += 1
                    values = _iostat.parse_plain_row(words, columns, self.at, line)
                    rows[words[0]] = Sample(self.at, values)
                    continue
            words, lines = self._read_row(heads, broken)
            heading = bool(words) and (words[0] in _iostat.DEVICE or words[-1] in _iostat.DEVICE)
            if heading or not _iostat.looks_like_row(words, wide):
                break
            if len(words) <= wide and self.at + lines == len(self.lines) and rows:
                self.run.notes.append(f"line {self.at + 1} is truncated, and left out")
                self.at += lines
                break
            first = min((row.line for row in rows.values()), default=0)
            if self._is_group(words[0], line, first):
                self.run.notes.append(
                    f"line {self.at + 1}: {words[0]} is the sum of a group of devices (-g), and left out"
                )
                self.at += lines
                continue
            if words[0] in rows:
                raise ParseError(f"{words[0]} twice in one report", self.at + 1, line)
            rows[words[0]] = Sample(self.at + 1, self._parse_row(words, heads, line))
            self.at += lines
        return rows

    def _is_group(self, name: str, line: str, first: int) -> bool:
        """True for the row of a group: the command names it, or it is set in by one more space than its devices.

        `first`: line of the table's first device, 0 above it.
        """
        options = self.run.command.words
        if any(pair == ("-g", name) for pair in pairwise(options)):
            return True
        if not first:
            return False
        indents = [len(row) - len(row.lstrip(" ")) for row in (self.lines[first - 1], line)]
        return indents[1] == indents[0] + 1

    def _parse_row(self, words: list[str], heads: Heads, line: str) -> _command.Values:
        """The figures of the row at self.at, without one that it ends within. Raises ParseError."""
        number = self.at + 1
        whole = len(words) == len(heads.names) + 1 and not heads.behind
        if whole and (cut := _iostat.cut_value(words)):
            self.run.notes.append(
                f"line {number} ends within a value ({cut} of {heads.names[-1]}): that value is left out"
            )
            words, heads = words[:-1], heads.without_last()
        return _iostat.parse_row(words, heads, number, line)

    def _read_row(self, heads: Heads, broken: int) -> tuple[list[str], int]:
        """The words of the row that begins here, the device's name first, and how many lines it takes."""
        wide = len(heads.names) + 1
        words = heads.named_row(self.lines[self.at].split())
        # the name, as iostat -h printed it before sysstat 12
        alone = len(words) == 1
        if len(words) in (0, wide) or (broken == 1 and not alone):
            return words, 1
        parts = [self.lines[self.at]]
        for below in self.lines[self.at + 1 : self.at + (MOST_BROKEN if broken > 1 else 2)]:
            words_below = below.split()
            if not words_below or any(word[0] not in "0123456789.,%" for word in words_below):
                break
            parts.append(below)
        # At a space, or anywhere in the line; all its lines are taken, so that one of both has too many words
        for joined in (" ".join(parts).split(), "".join(parts).split()):
            if len(joined) == wide:
                return joined, len(parts)
        return words, 1 if alone else len(parts)

    def _headless(self, number: int) -> None:
        """Rows as of a table that the text showed before: two at least, each with all its columns."""
        if not self.known.names or self.known.behind:
            return
        end = number - 1
        while end < len(self.lines) and _plain_row(self.lines[end].split(), len(self.known.names)):
            end += 1
        if end - number + 1 < 2:
            return
        try:
            rows = {}
            for at in range(number, end + 1):
                words = self.lines[at - 1].split()
                rows[words[0]] = Sample(
                    at, _iostat.parse_row(words, self.known, at, self.lines[at - 1])
                )
        except ParseError:
            # some other table
            self.at = end
            return
        self.at = end
        self.run = _Run(heads=self.known, reports=[Report(number, end, rows)], head=self.known_at)
        self.run.notes.append("without headings: read by those of the table before it")
        self._end_run()

    def _trouble(self, first: int, message: str) -> None:
        """A result that cannot be read, with all that follows it without a gap."""
        while self.at < len(self.lines) and self.lines[self.at].strip():
            self.at += 1
        last = max(first, self.at)
        self.results.append(ParsedResult(KIND.name, first, last, "iostat", trouble=message))

    def _end_run(self) -> None:
        run, self.run, self.ahead = self.run, _Run(), _Ahead()
        if len(run.reports) > 1 and len(run.tables) < run.many:
            cut = run.reports.pop()
            run.notes.append(
                f"lines {cut.first}–{cut.last}: the last report is truncated, and left out"
            )
        if not any(report.rows for report in run.reports):
            return
        devices = {name for report in run.reports for name in report.rows if name}
        many = f"{len(run.reports)} reports" if len(run.reports) > 1 else "1 report"
        title = f"iostat, {len(devices)} device{'s' * (len(devices) > 1)}, {many}"
        notes = list(dict.fromkeys(run.notes))
        command = run.command or self.told
        result = _command.watch_block(KIND, run.reports, command, title, notes)
        first, last = min(run.first or result.first, result.first), max(run.last, result.last)
        self.results.append(replace(result, first=first, last=last, head=run.head))


def _command_in_line(line: str) -> Command:
    """The command, unless the line is prose that begins with its name."""
    command = _command.find_command(line, "iostat")
    plain = all(ARGUMENT.fullmatch(word) for word in command.words)
    return command if plain else _command.NONE


def _plain_row(words: Sequence[str], wide: int) -> bool:
    """True for a row as sysstat prints it: a name, and figures with two digits."""
    return (
        len(words) == wide + 1
        and bool(NAME.fullmatch(words[0]))
        and all(TWO_DIGITS.fullmatch(word) for word in words[1:])
    )
