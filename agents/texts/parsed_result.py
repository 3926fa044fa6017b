# SPDX-License-Identifier: Apache-2.0
"""Result that a reader (agents/readers/) finds in a text, as one run would have printed it. Plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.contracts import Histogram, Metric, Series

# Note on a result of lines that are complete, in a text that lacks what the tool prints around them
FRAGMENT = "fragment: nothing above or below"


class LineIndex:
    """Places of a text's lines. A list of them all would take several times the text.

    Lines asked for in their order cost one look through it.
    """

    # characters
    STEP = 1 << 14

    def __init__(self, text: str) -> None:
        self.text, self.line, self.at = text, 1, 0

    def line_start(self, line: int) -> int:
        """The place of that line's first character; the text's end where it has no such line."""
        if line < self.line:
            self.line, self.at = 1, 0
        text, at, ends = self.text, self.at, line - self.line
        while at < len(text) and (some := text.count("\n", at, at + self.STEP)) < ends:
            at, ends = at + self.STEP, ends - some
        for _ in range(ends):
            at = text.find("\n", at) + 1 or len(text)
        self.at, self.line = min(at, len(text)), line
        return self.at

    def lines_between(self, first: int, last: int) -> str:
        """Text of these lines, without the last line break."""
        start = self.line_start(first)
        end = self.text.find("\n", self.line_start(last))
        return self.text[start : end if end >= 0 else len(self.text)]


@dataclass(frozen=True, slots=True)
class ParsedResult:
    """One result, and the lines of the text that hold it."""

    # the reader: "pg_test_fsync", "iostat"
    kind: str
    # line, from 1
    first: int
    # line, inclusive
    last: int
    # what a person calls it: fio's job names, dd's command line
    title: str
    # agents/tools/ kind that prints such; "" for one that only watches, or that we do not run
    tool: str = ""
    # of the tool, as printed
    version: str = ""
    # what its author wrote about it
    description: str = ""
    # the command line, where the text shows it
    command: str = ""
    # each with its line in the whole text
    metrics: tuple[Metric, ...] = ()
    # those of a watcher (iostat), or of a log
    series: tuple[Series, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    # Of the tool, as far as the text tells: those of agents/tools/ in its types, all others verbatim
    options: Mapping[str, Any] = field(default_factory=dict)
    # True where the text shows the whole command or job file: an option that is not there has the tool's default
    options_complete: bool = False
    # Figures that explain the others and are not stored: fio's disk statistics, context switches
    details: tuple[Metric, ...] = ()
    # What differs between results found together
    point: Mapping[str, Any] = field(default_factory=dict)
    outstanding: int | None = None
    notes: tuple[str, ...] = ()
    # why it cannot be read; then there are neither metrics nor series
    trouble: str = ""
    # a workload of `tool` that was not run here: nothing was measured
    described: bool = False
    # of such: options as lists
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    # (first, last) of other lines that it was read from
    also: tuple[tuple[int, int], ...] = ()
    # Line elsewhere of the headings that it was read by: kept alone, it needs them above
    head: int = 0
    # what no line of it tells, and without which it has no figure: fio_log.NEEDS
    needs: str = ""
    # several results in one: the label of its metrics that tells them apart
    varies: str = ""
    # Title, options, options_complete and outstanding of each, by the value of that label, where each is a workload of
    # its own; else it is a sweep in one table, of which each is a point
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def own_text(self, text: LineIndex) -> str:
        """Lines of the text in which the reader finds this result and no other."""
        above = f"{text.lines_between(self.head, self.head)}\n" if self.head else ""
        return above + text.lines_between(self.first, self.last)

    def sweep_points(self) -> list[Mapping[str, str]]:
        """The labels of each point of a sweep, in the table's order; one without labels of anything else."""
        if not self.varies:
            return [{}]
        values = dict.fromkeys(m.labels[self.varies] for m in self.metrics)
        return [{self.varies: value} for value in values]

    def each_part(self) -> list[ParsedResult]:
        """Each part as a result of its own, with its figures; one without parts as it is."""
        return [self.part(value) for value in self.parts] or [self]

    def part(self, value: str) -> ParsedResult:
        """The result of one value of the label; the lines are those of all."""
        metrics = (
            replace(
                metric,
                labels={name: own for name, own in metric.labels.items() if name != self.varies},
            )
            for metric in self.metrics
            if metric.labels.get(self.varies) == value
        )
        return replace(self, metrics=tuple(metrics), varies="", parts={}, **self.parts[value])


@dataclass(frozen=True, slots=True)
class UnreadLines:
    """Lines that no reader knows."""

    first: int
    last: int
    # the beginning of the first of them
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """All that is in a text, in its order."""

    results: tuple[ParsedResult, ...]
    unread: tuple[UnreadLines, ...]
