# SPDX-License-Identifier: Apache-2.0
"""A text with line numbers, a page of it at a time: where a number was read is a link away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice

LINES_PER_PAGE = 1000
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
    lines = islice(BytesIO(raw or b"\n"), number * LINES_PER_PAGE, (number + 1) * LINES_PER_PAGE)
    decoded = [
        line.removesuffix(b"\r\n").removesuffix(b"\n").decode("utf-8", "replace") for line in lines
    ]
    return build_page(_shortened_lines(decoded), number, total, line)


def split_pages(text: str) -> Iterator[list[Row]]:
    """Split an output into all its pages, to be stored."""
    lines = text.split("\n")
    for start in range(0, len(lines), LINES_PER_PAGE):
        yield _shortened_lines(lines[start : start + LINES_PER_PAGE])


def _shortened_lines(lines: Sequence[str]) -> list[Row]:
    # as nearly always
    if len(max(lines, key=len, default="")) <= MAX_LINE_LETTERS:
        return [(line, 0) for line in lines]
    return [(line[:MAX_LINE_LETTERS], max(0, len(line) - MAX_LINE_LETTERS)) for line in lines]


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


def parse_line_number(value: str | None) -> int:
    """Parse the ?line= of a request; anything but a number is ignored."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else 0
