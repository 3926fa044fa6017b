# SPDX-License-Identifier: Apache-2.0
"""bonnie++'s line of CSV: 1.0x without a version, 1.9x, and 1.98 (of bonnie++ 1.98 and 2.00). Pure.

A machine's name with a comma is not quoted by bonnie++; the number of fields tells how many there are too many.
"""

from __future__ import annotations

import re

from agents.contracts import ParseError
from agents.outputs import bonnie_model as model

NEW = re.compile(
    r"(1\.9\d|2\.\d\d)\w?,(\d\.\d\d\w{0,3}),.{0,80}?,\d{1,4},\w{0,30},(?:\d{1,9}[MGT])?,"
)
OLD = re.compile(r"[^,\s]{0,64},(\d{1,9}[MG](?::\d{1,9}k?)?)?,")
HEAD = re.compile(r"(?:format_version,bonnie_version|name,file_size),.*seq_create.*")
FIELDS_OLD, FIELDS_196, FIELDS_198 = 27, 48, 50
FILE_COUNT = re.compile(r"\d{1,9}(?::[\w:]{1,40})?(?:/\d{1,9})?")


def looks(line: str) -> bool:
    """True when the line is meant to be a CSV line."""
    if NEW.match(line):
        return True
    if line.count(",") != FIELDS_OLD - 1:
        return False
    fields = line.split(",")
    return OLD.match(line) is not None and _old_words(fields)


def parse_csv_line(line: str, number: int) -> model.Table:
    """Parse a line. Raises ParseError."""
    try:
        return _new(line, number) if NEW.match(line) else _old(line, number)
    except ValueError as error:
        raise ParseError(str(error), number, line) from None


def _new(line: str, number: int) -> model.Table:
    fields = line.split(",")
    late = fields[0][:4] not in ("1.96", "1.97") and fields[0] > "1.95"
    field_counts = FIELDS_198 if late else FIELDS_196
    extra = len(fields) - field_counts
    if extra < 0:
        raise ValueError(f"truncated: {len(fields)} of {field_counts} fields")
    name = ",".join(fields[2 : 3 + extra])
    version, rest = fields[1], fields[3 + extra :]
    if not rest[0].isdecimal() or not re.fullmatch(r"\w{0,30}", rest[1]):
        raise ValueError("concurrency and seed are not numbers")
    size, rest = rest[2], rest[4:] if not late else rest[6:]
    if size and model.size_of(size) is None:
        raise ValueError(f"{size!r} is not a size")
    table = model.Table(version, name, size)
    _add_cells(table, model.IO, rest[:12], number)
    table.files = _file_settings(rest[12:17])
    _add_cells(table, model.FILES, rest[17:29], number)
    for test, word in zip((*model.IO, *model.FILES), rest[29:41], strict=True):
        if bool(word) != (test in table.cells):
            raise ValueError(f"{test}: a latency without a rate, or a rate without a latency")
        if word:
            table.latencies[test] = model.parse_latency(test, word), number
    return _checked_table(table)


def _old(line: str, number: int) -> model.Table:
    fields = line.split(",")
    table = model.Table("", fields[0], fields[1], fields[14])
    _add_cells(table, model.IO, fields[2:14], number)
    _add_cells(table, model.FILES, fields[15:], number)
    return _checked_table(table)


def _checked_table(table: model.Table) -> model.Table:
    if not table.cells:
        raise ValueError("no test ran")
    ran_io = any(test in table.cells for test in model.IO)
    ran_files = any(test in table.cells for test in model.FILES)
    if ran_io != bool(table.size) or ran_files != bool(table.files):
        raise ValueError("size or number of files, and what ran, do not fit")
    return table


def _add_cells(table: model.Table, tests: tuple[str, ...], words: list[str], number: int) -> None:
    for index, test in enumerate(tests):
        rate, cpu = words[2 * index : 2 * index + 2]
        if test in (*model.IO[:5], *model.FILES) and "." in rate:
            raise ValueError(f"{test}: {rate!r} is not a whole number")
        scale = model.KIB if test in model.IO[:5] else 1.0
        if new_cell := model.parse_cell(test, rate, cpu, number, scale, 0.0):
            table.cells[test] = new_cell


def _file_settings(words: list[str]) -> str:
    """num_files, max_size, min_size, num_dirs, file_chunk_size -> as the text has it."""
    if not all(re.fullmatch(r"-?\w{0,12}", word) for word in words):
        raise ValueError(f"{','.join(words)!r} is not a number and size of files")
    settings = ":".join(word for word in words[:3] if word)
    return settings + (f"/{words[3]}" if words[3] else "")


def _old_words(fields: list[str]) -> bool:
    rates = [*fields[2:14], *fields[15:]]
    if not all(re.fullmatch(r"(?:\d{1,12}(?:\.\d{1,3})?|\+{3,5})?", word) for word in rates):
        return False
    if bool(fields[1]) != any(fields[2:14]) or bool(fields[14]) != any(fields[15:]):
        # somebody else's numbers
        return False
    return any(rates) and (not fields[14] or FILE_COUNT.fullmatch(fields[14]) is not None)
