# SPDX-License-Identifier: Apache-2.0
"""CSV that people open in spreadsheets: text that a spreadsheet would run as a formula is made plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from agents.plaintext import visible

# What OWASP names; a host's disk may be called =HYPERLINK(...).
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: object) -> object:
    """Numbers stay numbers; an apostrophe before text makes it text for every spreadsheet.

    Control characters are escaped: CSV is looked at in terminals too.
    """
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value.startswith(FORMULA_STARTS) else value)


def csv_lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """CSV, line by line (RFC 4180), the head first."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(head)
    for row in rows:
        yield _drain_buffer(buffer)
        writer.writerow([csv_cell(value) for value in row])
    yield _drain_buffer(buffer)


def _drain_buffer(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text
