# SPDX-License-Identifier: Apache-2.0
"""A text with line numbers, a page of it at a time: where a number was read is a link away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PER_PAGE = 1000
# bytes
BLOCK = 1 << 16
# characters of a line; a browser that gets a line of megabytes stands still
WIDTH = 4000


@dataclass(frozen=True, slots=True)
class Line:
    # from 1
    number: int
    text: str
    # characters that are not shown
    more: int


@dataclass(frozen=True, slots=True)
class Lines:
    """`previous` and `next` are the first lines of the pages beside this one, or None."""

    rows: Sequence[Line]
    total: int
    previous: int | None
    next: int | None
    # the line that was asked for, or 0
    marked: int

    @property
    def pages(self) -> int:
        return -(-self.total // PER_PAGE)

    @property
    def last(self) -> int:
        return (self.pages - 1) * PER_PAGE + 1


# a line as it is shown, and how many characters are not
Row = tuple[str, int]


def around(raw: bytes, line: int = 0) -> Lines:
    """The page of an output that holds the line. No more of it is decoded than that page."""
    total = max(1, raw.count(b"\n") + (not raw.endswith(b"\n")))
    number = page_number(line, total)
    rows = [_row(one.decode("utf-8", "replace")) for one in _cut(raw, number * PER_PAGE)]
    return page(rows, number, total, line)


def _cut(raw: bytes, skipped: int) -> Iterator[bytes]:
    """The lines of a page, behind so many others."""
    at = _behind(raw, skipped)
    for _ in range(PER_PAGE):
        end = raw.find(b"\n", at)
        if end < 0:
            if at < len(raw) or not raw:
                yield raw[at:]
            return
        yield raw[at:end].removesuffix(b"\r")
        at = end + 1


def _behind(raw: bytes, newlines: int) -> int:
    """The offset behind so many of them: block by block, for a search for each would take a second."""
    at = 0
    while (found := raw.count(b"\n", at, at + BLOCK)) < newlines:
        newlines -= found
        at += BLOCK
    for _ in range(newlines):
        at = raw.index(b"\n", at) + 1
    return at


def pages(text: str) -> Iterator[list[Row]]:
    """All of them, to be kept until somebody looks."""
    lines = text.split("\n")
    for number in range(-(-len(lines) // PER_PAGE)):
        yield _rows(lines, number)


def page_number(line: int, total: int) -> int:
    """From 0, of the page that holds the line."""
    return (min(max(line, 1), max(total, 1)) - 1) // PER_PAGE


def page(rows: Sequence[Row], number: int, total: int, line: int) -> Lines:
    first = number * PER_PAGE
    after = first + PER_PAGE
    return Lines(
        [Line(at, text, more) for at, (text, more) in enumerate(rows, start=first + 1)],
        total,
        previous=first - PER_PAGE + 1 if first else None,
        next=after + 1 if after < total else None,
        marked=line,
    )


def _rows(lines: Sequence[str], number: int) -> list[Row]:
    some = lines[number * PER_PAGE : (number + 1) * PER_PAGE]
    return [(one, 0) if len(one) <= WIDTH else _row(one) for one in some]


def _row(line: str) -> Row:
    return line[:WIDTH], max(0, len(line) - WIDTH)


def asked(value: str | None) -> int:
    """The ?line= of a request; what is no number is no wish."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else 0
