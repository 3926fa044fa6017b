# SPDX-License-Identifier: Apache-2.0
"""A text with line numbers, a page of it at a time: where a number was read is a link away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LINES_PER_PAGE = 1000
# bytes
BLOCK_BYTES = 1 << 16
# characters of a line; a browser that gets a line of megabytes stands still
MAX_LINE_LETTERS = 4000


@dataclass(frozen=True, slots=True)
class NumberedLine:
    # from 1
    number: int
    text: str
    # characters that are not shown
    more: int


@dataclass(frozen=True, slots=True)
class LinePage:
    """`previous` and `next` are the first lines of the pages beside this one, or None."""

    rows: Sequence[NumberedLine]
    total: int
    previous: int | None
    next: int | None
    # the line that was asked for, or 0
    marked: int

    @property
    def pages(self) -> int:
        return -(-self.total // LINES_PER_PAGE)

    @property
    def last(self) -> int:
        return (self.pages - 1) * LINES_PER_PAGE + 1


# a line as it is shown, and how many characters are not
Row = tuple[str, int]


def read_page(raw: bytes, line: int = 0) -> LinePage:
    """The page of an output that holds the line. No more of it is decoded than that page."""
    total = max(1, raw.count(b"\n") + (not raw.endswith(b"\n")))
    number = page_number(line, total)
    rows = [
        _shortened_line(line_bytes.decode("utf-8", "replace"))
        for line_bytes in _page_lines(raw, number * LINES_PER_PAGE)
    ]
    return build_page(rows, number, total, line)


def _page_lines(raw: bytes, skipped: int) -> Iterator[bytes]:
    """The lines of a page, behind so many others."""
    at = _offset_after(raw, skipped)
    for _ in range(LINES_PER_PAGE):
        end = raw.find(b"\n", at)
        if end < 0:
            if at < len(raw) or not raw:
                yield raw[at:]
            return
        yield raw[at:end].removesuffix(b"\r")
        at = end + 1


def _offset_after(raw: bytes, newlines: int) -> int:
    """Return the offset after so many lines. Counts block by block, since a search for each would take a second."""
    at = 0
    while (in_block := raw.count(b"\n", at, at + BLOCK_BYTES)) < newlines:
        newlines -= in_block
        at += BLOCK_BYTES
    for _ in range(newlines):
        at = raw.index(b"\n", at) + 1
    return at


def split_pages(text: str) -> Iterator[list[Row]]:
    """Split an output into all its pages, to be stored."""
    lines = text.split("\n")
    for number in range(-(-len(lines) // LINES_PER_PAGE)):
        yield _rows_of_page(lines, number)


def page_number(line: int, total: int) -> int:
    """Number, from 0, of the page that holds the line."""
    return (min(max(line, 1), max(total, 1)) - 1) // LINES_PER_PAGE


def build_page(rows: Sequence[Row], number: int, total: int, line: int) -> LinePage:
    first = number * LINES_PER_PAGE
    after = first + LINES_PER_PAGE
    return LinePage(
        [NumberedLine(at, text, more) for at, (text, more) in enumerate(rows, start=first + 1)],
        total,
        previous=first - LINES_PER_PAGE + 1 if first else None,
        next=after + 1 if after < total else None,
        marked=line,
    )


def _rows_of_page(lines: Sequence[str], number: int) -> list[Row]:
    some = lines[number * LINES_PER_PAGE : (number + 1) * LINES_PER_PAGE]
    return [(line, 0) if len(line) <= MAX_LINE_LETTERS else _shortened_line(line) for line in some]


def _shortened_line(line: str) -> Row:
    return line[:MAX_LINE_LETTERS], max(0, len(line) - MAX_LINE_LETTERS)


def parse_line_number(value: str | None) -> int:
    """Parse the ?line= of a request; anything but a number is ignored."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else 0
