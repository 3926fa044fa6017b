# SPDX-License-Identifier: Apache-2.0
"""Results of bonnie++ in the text of a page that bon_csv2html wrote, with a tab between two cells. Pure.

bon_csv2html 2.00a heads all rates of bytes with M/sec, and converts those of blocks and rewrites only: those of
characters are still K/sec. It prints 0 for a rate that was too fast to measure; its CPU use, +++, tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.contracts import ParseError
from agents.outputs import bonnie_output
from agents.outputs.bonnie_output import FILES, IO, KIB, STREAMS, TESTS, Cell, Run, Table

UNITS = re.compile(r"((?:[KM]/sec % CPU ){5})(?:/sec % CPU ?){7}")
VERSION = re.compile(r"Version (\d\.\d\d\w{0,3}) Sequential Output .*")
# name and size, tests of files' contents, number of files, tests of files
CELLS = 2 + 2 * len(IO) + 1 + 2 * len(FILES)
LATENCY_CELLS = 2 + len(TESTS)
SIZE = re.compile(r"\d{1,9}[MGT](?::[\w:]{1,40})?")
# lines between a version and the units below it
HEADING_LINES = 4
TOO_FAST = "+++"


def find_runs(lines: Sequence[str]) -> Iterator[tuple[Run, int]]:
    """Each run, and the index of the line of units above it where that is not the run's first line; else -1."""
    units_at, fresh = -1, False
    for at, line in enumerate(lines):
        if "/sec" in line and UNITS.fullmatch(" ".join(line.split())):
            units_at, fresh = at, True
        elif units_at >= 0 and "\t" in line and SIZE.fullmatch(line.split("\t")[1].strip()):
            first = units_at if fresh else at
            yield _read_run(lines, (first, units_at, at)), -1 if fresh else units_at
            fresh = False
        elif line.strip() and not line.strip().startswith("Latency"):
            units_at = -1


def _read_run(lines: Sequence[str], places: tuple[int, int, int]) -> Run:
    """Run of the row at the last of the places; the others are its first line and that of the units."""
    first, units_at, at = places
    below = at + 1 < len(lines) and lines[at + 1].strip().startswith("Latency")
    last = at + 1 if below else at
    try:
        table = _read_row(lines[at], at + 1, mega="M/sec" in lines[units_at])
        if below:
            _read_latencies(table, lines[last], last + 1)
    except (ParseError, ValueError) as error:
        return Run(first, last, error=ParseError(str(error), at + 1, lines[at]))
    above = lines[max(units_at - HEADING_LINES, 0) : units_at]
    versions = (VERSION.fullmatch(" ".join(line.split())) for line in above)
    table.version = next((match[1] for match in versions if match), "")
    return Run(first, last, text=table)


def _read_row(line: str, number: int, *, mega: bool) -> Table:
    """Table of the cells of a row. Raises ValueError."""
    cells = [cell.strip() for cell in line.split("\t")]
    # a text ends without its last empty cells
    cells += [""] * (CELLS - len(cells))
    if len(cells) != CELLS:
        raise ValueError(f"{len(cells)} cells where a row of bon_csv2html has {CELLS}")
    files_at = 2 + 2 * len(IO)
    table = Table("", cells[0], cells[1], cells[files_at])
    figures = cells[2:files_at] + cells[files_at + 1 :]
    for test, rate, cpu in zip(TESTS, figures[::2], figures[1::2], strict=True):
        if cell := _read_cell(test, (rate, cpu), number, mega=mega):
            table.cells[test] = cell
    if not table.cells:
        raise ValueError("no test ran")
    return table


def _read_cell(test: str, words: tuple[str, str], number: int, *, mega: bool) -> Cell | None:
    rate, cpu = words
    if cpu == TOO_FAST and rate in ("0", ""):
        rate = TOO_FAST
    scale = 1.0
    if test in STREAMS:
        scale = float(1 << 20) if mega and not test.endswith(".char") else KIB
    return bonnie_output.read_cell(test, rate, cpu, number, scale, 1.0)


def _read_latencies(table: Table, line: str, number: int) -> None:
    """Adds the times of the row below. Raises ValueError."""
    cells = [cell.strip() for cell in line.split("\t")]
    cells += [""] * (LATENCY_CELLS - len(cells))
    if len(cells) != LATENCY_CELLS:
        raise ValueError("the row of latencies has other cells than the tests above it")
    words = [cell for cell in cells if cell != "Latency"]
    for test, word in zip(TESTS, words, strict=True):
        if word and test in table.cells:
            table.latencies[test] = bonnie_output.parse_latency(test, word), number
