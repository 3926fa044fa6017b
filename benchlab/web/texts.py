# SPDX-License-Identifier: Apache-2.0
"""Texts: names in the order in which people count, ids, free names, what people write, and CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Sequence

from django.core.exceptions import ValidationError
from django.db.models import Func, TextField

from agents.plaintext import visible

# 1 MiB comes after 256 KiB: a thousand stands for 1,024, which keeps their order.
SIZE_UNITS = "kmg"
SIZE = re.compile(rf"(\d) ?([{SIZE_UNITS}])ib\b", re.IGNORECASE)
# a number is filled up to that many; longer ones are compared as they are written
MAX_PADDED_DIGITS = 12
SIZED = "lower({})"
for _power, _unit in enumerate(SIZE_UNITS, start=1):
    SIZED = f"regexp_replace({SIZED}, '(\\d) ?{_unit}ib\\M', '\\1{'000' * _power}', 'g')"
FILLED = "regexp_replace(" + SIZED + ", '(\\d+)', '" + "0" * (MAX_PADDED_DIGITS - 1) + "\\1', 'g')"
TEMPLATE = f"regexp_replace({FILLED}, '0*(\\d{{{{{MAX_PADDED_DIGITS}}}}})(?!\\d)', '\\1', 'g')"


def natural_sql(expression: str) -> str:
    """SQL to order by, for a text in SQL."""
    return TEMPLATE.format(expression)


class NaturalOrder(Func):
    """The same for Django: order_by(Natural("name"))."""

    template = natural_sql("%(expressions)s")
    arity = 1
    output_field = TextField()


def natural_key(name: str) -> list[tuple[int, str]]:
    """The same as a key of Python's sort: sda2 before sda10, 256 KiB before 1 MiB."""
    plain = SIZE.sub(_with_zeros, name)
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", plain)
        if part
    ]


def _with_zeros(size: re.Match[str]) -> str:
    return size[1] + "000" * (1 + SIZE_UNITS.index(size[2].lower()))


# what PostgreSQL's bigint holds of any of them
ROW_ID_DIGITS = 18


def parse_row_id(text: str | None) -> int | None:
    """None: it is none, so there is no such row."""
    plain = text is not None and text.isascii() and text.isdecimal() and len(text) <= ROW_ID_DIGITS
    return int(text) if plain and text else None


# characters of a name
MAX_NAME_LENGTH = 100


def copy_name(name: str) -> str:
    """Suggest a name for a copy."""
    return f"Copy of {name}"[:MAX_NAME_LENGTH]


def free_name(name: str, used: Container[str], longest: int = MAX_NAME_LENGTH) -> str:
    """`name`, or "name 2", … while it is taken; cut to `longest` characters."""
    later = (f" {number}" for number in itertools.count(2))
    names = (name[: longest - len(end)] + end for end in itertools.chain([""], later))
    return next(free for free in names if free not in used)


# characters
MAX_TEXT_LENGTH = 10_000
# Would change how the text around them reads; half of a character cannot be stored.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean_text(text: str, most: int = MAX_TEXT_LENGTH, *, empty: bool = False) -> str:
    """Raises ValidationError: nothing said, or too much."""
    text = CONTROL.sub("", text).strip()
    if not text and not empty:
        raise ValidationError("Write something first.")
    if len(text) > most:
        raise ValidationError(f"That is {len(text)} characters; the limit is {most}.")
    return text


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
