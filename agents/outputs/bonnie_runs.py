# SPDX-License-Identifier: Apache-2.0
"""Results of bonnie++ in lines: the text, the line of CSV that follows it, or one of both. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.contracts import ParseError
from agents.outputs import bonnie_csv as csv
from agents.outputs import bonnie_model as model
from agents.outputs import bonnie_text as text

# What it says on standard error while it works; in a terminal's log it stands above the result
PROGRESS = re.compile(
    r"Using uid:\d+, gid:\d+\.|Writing (?:with putc\(\)|a byte at a time|intelligently|\d+ bytes at a time)\.\.\..*|"
    r"Rewriting\.\.\..*|Reading (?:with getc\(\)|a byte at a time|intelligently|\d+ bytes at a time)\.\.\..*|"
    r"start 'em\.\.\..*|(?:Create|Stat|Delete) files in (?:sequential|random) order\.\.\..*|\.\.\.|(?:done\.*)+"
)
# What such a line begins with -> the test, once its "done" is there
TESTS = (
    (r"Writing (?:with putc\(\)|a byte at a time)", "write.char"),
    (r"Writing (?:intelligently|\d+ bytes at a time)", "write.block"),
    (r"Rewriting", "rewrite"),
    (r"Reading (?:with getc\(\)|a byte at a time)", "read.char"),
    (r"Reading (?:intelligently|\d+ bytes at a time)", "read.block"),
    (r"start 'em", "seeks"),
    *(
        (rf"{did} files in {order} order", f"{test}.{order}")
        for did, test in (("Create", "create"), ("Stat", "stat"), ("Delete", "delete"))
        for order in ("sequential", "random")
    ),
)
# characters of a line of CSV, and more than any
LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Run:
    """Indexes of its lines; `error` when it cannot be read, else one or both tables."""

    first: int
    last: int
    csv: model.Table | None = None
    text: model.Table | None = None
    error: ParseError | None = None

    @property
    def best(self) -> model.Table:
        """The exact figures: those of the CSV line where it is there."""
        tables = self.csv or self.text
        assert tables is not None, "a run without error has a table"
        return tables


def test_of(line: str) -> str:
    """The test whose end a line of progress reports; "" for any other line."""
    finished = line.rstrip().rstrip(".").endswith("done")
    return next((test for begins, test in TESTS if finished and re.match(begins, line)), "")


def find_runs(lines: Sequence[str]) -> Iterator[Run]:
    """All runs in the order of the lines."""
    index = 0
    while index < len(lines):
        line = lines[index]
        if text.begins(line):
            run = _from_text(lines, index)
        elif len(line) < LONGEST and csv.looks(line.strip()):
            run = _from_csv(lines, index)
        else:
            index += 1
            continue
        yield run
        index = run.last + 1


def _from_csv(lines: Sequence[str], index: int) -> Run:
    try:
        table = csv.parse_csv_line(lines[index].strip(), index + 1)
    except ParseError as error:
        return Run(index, index, error=error)
    if not table.version and index == len(lines) - 1:
        model.doubt_the_end(table)
    return Run(index, index, csv=table)


def _from_text(lines: Sequence[str], first: int) -> Run:
    try:
        table, last = text.parse_tables(lines, first)
    except ParseError as error:
        return Run(first, max(first, min(error.line, len(lines)) - 1), error=error)
    following = last + 1
    while following < len(lines) and not lines[following].strip():
        following += 1
    line = lines[following].strip() if following < len(lines) else ""
    if len(line) > LONGEST or not csv.looks(line):
        if table.version < "1.9" and last == len(lines) - 1 and table.cells:
            model.doubt_the_end(table)
        return Run(first, last, text=table)
    try:
        exact = csv.parse_csv_line(line, following + 1)
        model.check_agreement(exact, table)
    except ParseError as error:
        return Run(first, following, error=error)
    return Run(first, following, exact, table)
