# SPDX-License-Identifier: Apache-2.0
"""bonnie++'s two tables as text: 1.03 (K/sec, no latencies), 1.9x, and 2.00 (898k, 50.6m, 1.1g of bytes). Pure.

Columns of tests that did not run are blank. Where white space was collapsed, nothing tells which those were, and the
text alone is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agents.contracts import ParseError
from agents.outputs import bonnie_model as model

# characters of a line, and far more than any of the tables'
LONGEST = 300
OUTPUT_HEAD = re.compile(
    r"Version (\d\.\d\d\w{0,3}) -+Sequential Output-+ -+Sequential Input- -+Random-"
)
CREATE_HEAD = re.compile(r"(?:Version (\d\.\d\d\w{0,3}) )?-+Sequential Create-+ -+Random Create-+")
BESIDES = re.compile(
    r"(?:Concurrency \d{1,4} )?-Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--|"
    r"(?:\S.{0,80} )?-Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--"
)
OUTPUT_COLUMNS = re.compile(r"(?:Machine|Name|Size).{0,40}?( K)?/sec %CP(?: K?/sec %CP){5}")
CREATE_COLUMNS = re.compile(r"files(?::max)?(?::min)?(?: /sec %CP){6}")
PAIR = r"\s+(?:[\d.]{1,14}[kmgt]?|\+{3,5})\s+(?:\d{1,7}|\+{3})"
OUTPUT_ROW = re.compile(rf"(.{{0,80}}?)(\d{{1,9}}[MGT](?::[\w:]{{0,40}})?)((?:{PAIR}){{1,6}})\s*")
CREATE_ROW = re.compile(rf"\s*(\d{{1,9}}(?::[\w:]{{1,40}})?(?:/\d{{1,9}})?)((?:{PAIR}){{1,6}})\s*")
LATENCIES = re.compile(r"\s*Latency((?:\s+\d{1,12}(?:us|ms|s)){1,6})\s*")
WORDS = re.compile(r"(\s+)(\S+)\s+(\S+)")
# characters of the blank columns of one test
GAP = 10
STEPS = {"": model.KIB, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}


def clean_line(line: str) -> str:
    return " ".join(line.split()) if len(line) <= LONGEST else ""


def begins(line: str) -> bool:
    """True when a line begins a result in text."""
    if "-Sequential" not in line:
        # nearly every line
        return False
    words = clean_line(line)
    return bool(OUTPUT_HEAD.fullmatch(words) or CREATE_HEAD.fullmatch(words))


def parse_tables(lines: Sequence[str], first: int) -> tuple[model.Table, int]:
    """The table or tables that begin at lines[first], and the index of their last line. Raises ParseError."""
    table = model.Table()
    last = first
    if OUTPUT_HEAD.fullmatch(clean_line(lines[first])):
        last = _parse_table_part(table, lines, first, OUTPUT_HEAD, OUTPUT_COLUMNS)
        following = last + 1
        while following < len(lines) and not clean_line(lines[following]):
            following += 1
        if following == len(lines) or not CREATE_HEAD.fullmatch(clean_line(lines[following])):
            return table, last
        first = following
    return table, _parse_table_part(table, lines, first, CREATE_HEAD, CREATE_COLUMNS)


def _parse_table_part(
    table: model.Table,
    lines: Sequence[str],
    first: int,
    head: re.Pattern[str],
    columns: re.Pattern[str],
) -> int:
    """One of the two tables: two or three lines of heads, a row, the latencies. Returns the index of its last line."""
    if match := head.fullmatch(clean_line(lines[first])):
        table.version = match[1] or table.version
    index, kib = first + 1, False
    if not BESIDES.fullmatch(_line_at(lines, index)):
        raise ParseError("the table's second line is missing", index, _line_at(lines, index - 1))
    index += 1
    if not (titles := columns.fullmatch(_line_at(lines, index))):
        raise ParseError("the table's titles are missing", index, _line_at(lines, index - 1))
    kib = columns is OUTPUT_COLUMNS and titles[1] is not None
    index += 1
    tests = model.IO if columns is OUTPUT_COLUMNS else model.FILES
    ran = _parse_figures(table, lines, index, tests, kib)
    if index + 1 < len(lines) and clean_line(lines[index + 1]).startswith("Latency"):
        index += 1
        _add_latencies(table, lines[index], index + 1, ran)
    elif table.version >= "1.9":
        raise ParseError("truncated: the latencies are missing", index + 1, lines[index])
    return index


def _line_at(lines: Sequence[str], index: int) -> str:
    return clean_line(lines[index]) if index < len(lines) else ""


def _parse_figures(
    table: model.Table, lines: Sequence[str], index: int, tests: tuple[str, ...], kib: bool
) -> list[str]:
    """Reads the row of figures; returns the tests that ran, [] when nothing tells which."""
    line = lines[index].replace("\u00a0", " ") if index < len(lines) else ""
    pattern = OUTPUT_ROW if tests is model.IO else CREATE_ROW
    match = pattern.fullmatch(line) if len(line) <= LONGEST else None
    if not match:
        raise ParseError("the table's row is missing or incomplete", index + 1, line)
    if tests is model.IO:
        table.name, table.size = match[1].strip(), match[2]
    else:
        table.files = match[1]
    pairs = WORDS.findall(match.groups()[-1])
    ran = _ran(tests, pairs)
    if not ran:
        table.columns = False
    for test, (_, rate, cpu) in zip(ran, pairs, strict=False):
        test_cell = _text_cell(test, rate, cpu, index + 1, line, kib)
        if (
            test in model.FILES
            and table.version >= "1.98"
            and test_cell.rate == _file_count(table.files)
        ):
            test_cell = replace(test_cell, rate=None, note=model.NO_RATE)
        table.cells[test] = test_cell
    return ran


def _file_count(files: str) -> int:
    return int(re.split(r"[:/]", files)[0]) * 1024


def _ran(tests: tuple[str, ...], pairs: list[tuple[str, str, str]]) -> list[str]:
    """All six; or four, when the blanks show that the tests per character are those that did not run (-f)."""
    if len(pairs) == len(tests):
        return list(tests)
    if tests is model.IO and len(pairs) == 4:
        wide = [len(gap) >= GAP for gap, _, _ in pairs]
        if wide == [True, False, True, False]:
            return [test for test in tests if not test.endswith(".char")]
    return []


def _text_cell(test: str, rate: str, cpu: str, number: int, line: str, kib: bool) -> model.Cell:
    unit = rate[-1] if rate[-1] in "kmgt" else ""
    digits = rate.removesuffix(unit)
    is_bytes = test in model.IO[:5]
    if not digits.startswith("+") and ((is_bytes and kib == bool(unit)) or (not is_bytes and unit)):
        raise ParseError(f"{test}: unknown unit of {rate!r}", number, line)
    step = 10.0 ** -len(digits.partition(".")[2])
    scale = STEPS[unit] if is_bytes else 1.0
    # 1.x prints whole K/sec in both; a seek rate is rounded, and 2.00 rounds to three digits
    exact = (is_bytes and kib) or test in model.FILES
    try:
        parsed_cell = model.parse_cell(test, digits, cpu, number, scale, 0.0 if exact else step)
    except ValueError as error:
        raise ParseError(str(error), number, line) from None
    assert parsed_cell is not None, "the pattern has no empty words"
    return parsed_cell


def _add_latencies(table: model.Table, line: str, number: int, ran: list[str]) -> None:
    match = LATENCIES.fullmatch(line.replace("\u00a0", " "))
    words = match[1].split() if match else []
    if not match or (ran and len(words) != len(ran)):
        raise ParseError("not one latency for each test", number, line)
    try:
        for test, word in zip(ran, words, strict=False):
            table.latencies[test] = model.parse_latency(test, word), number
    except ValueError as error:
        raise ParseError(str(error), number, line) from None
