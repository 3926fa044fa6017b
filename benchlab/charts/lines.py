"""A text with line numbers, a page of it at a time: where a number was read is a link away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PER_PAGE = 1000
WIDTH = 4000  # characters of a line; a browser that gets a line of megabytes stands still


@dataclass(frozen=True, slots=True)
class Line:
    number: int  # from 1
    text: str
    more: int  # characters that are not shown


@dataclass(frozen=True, slots=True)
class Lines:
    """`previous` and `next` are the first lines of the pages beside this one, or None."""

    rows: Sequence[Line]
    total: int
    previous: int | None
    next: int | None
    marked: int  # the line that was asked for, or 0

    @property
    def pages(self) -> int:
        return -(-self.total // PER_PAGE)

    @property
    def last(self) -> int:
        return (self.pages - 1) * PER_PAGE + 1


def around(text: str, line: int = 0) -> Lines:
    """The page of the text that holds the line."""
    lines = text.split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines.pop()
    first = (min(max(line, 1), len(lines)) - 1) // PER_PAGE * PER_PAGE
    rows = [
        Line(number, one[:WIDTH], max(0, len(one) - WIDTH))
        for number, one in enumerate(lines[first : first + PER_PAGE], start=first + 1)
    ]
    after = first + PER_PAGE
    return Lines(
        rows,
        len(lines),
        previous=first - PER_PAGE + 1 if first else None,
        next=after + 1 if after < len(lines) else None,
        marked=line,
    )


def asked(value: str | None) -> int:
    """The ?line= of a request; what is no number is no wish."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else 0
