# SPDX-License-Identifier: Apache-2.0
"""Model of a bonnie++ result, however it is printed: cells of a table, and their metrics. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agents.contracts import Metric, ParseError, Unit

IO = ("write.char", "write.block", "rewrite", "read.char", "read.block", "seeks")
FILES = (
    "create.sequential",
    "stat.sequential",
    "delete.sequential",
    "create.random",
    "stat.random",
    "delete.random",
)
TOO_FAST = "+++: too fast to measure"
CUT = "at the very end of the input, where a digit may be missing"
# a bug of 1.98 and 2.00
NO_RATE = "the text has the number of files in place of the rate"
LATENCY = re.compile(r"(0|[1-9]\d{0,11})(us|ms|s)")
LATENCY_PARTS = {"us": 1e6, "ms": 1e3, "s": 1.0}
CPU = re.compile(r"0|[1-9]\d{0,6}")
RATE = re.compile(r"(?:0|[1-9]\d{0,11})(?:\.\d{1,3})?")
PLUSES = re.compile(r"\+{3,5}")
KIB = 1024.0
SCALE = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class Cell:
    """One test that ran. None: it was too fast to be measured."""

    # B/s, or op/s
    rate: float | None
    # 1
    cpu: float | None
    line: int
    # by how much the printed rate may be off the exact one
    step: float = 0.0
    # why there is no rate
    note: str = ""
    cpu_note: str = ""


@dataclass(slots=True)
class Table:
    """One result as it was printed once: as text, or as a line of CSV."""

    version: str = ""
    # of the machine
    name: str = ""
    # "64M", "2G:8k": of the files that are written and read; "" when there are none
    size: str = ""
    # "16", "16:1000:0/4": in units of 1024, of the file tests; "" when there are none
    files: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)
    # seconds, line
    latencies: dict[str, tuple[float, int]] = field(default_factory=dict)
    # False: some tests did not run, and nothing tells which
    columns: bool = True


def parse_cell(test: str, rate: str, cpu: str, line: int, scale: float, step: float) -> Cell | None:
    """Cell of two words; None when the test did not run. Raises ValueError when they do not belong together."""
    if not rate and not cpu:
        return None
    if PLUSES.fullmatch(rate) and PLUSES.fullmatch(cpu):
        return Cell(None, None, line, note=TOO_FAST, cpu_note=TOO_FAST)
    if not RATE.fullmatch(rate) or not CPU.fullmatch(cpu):
        raise ValueError(f"{test}: {rate!r} and {cpu!r} are not a rate and CPU use")
    return Cell(float(rate) * scale, int(cpu) / 100, line, step * scale)


def parse_latency(test: str, word: str) -> float:
    """Seconds. Raises ValueError."""
    found = LATENCY.fullmatch(word)
    if not found:
        raise ValueError(f"{test}: {word!r} is not a latency in us, ms or s")
    return int(found[1]) / LATENCY_PARTS[found[2]]


def size_of(words: str) -> int | None:
    """Bytes, from "64M" or "2G:8k"; None when it says none."""
    found = re.match(r"(\d{1,9})([MGT])(?::|$)", words)
    return int(found[1]) * SCALE[found[2]] if found else None


def table_metrics(table: Table) -> list[Metric]:
    """In the order of the tests: rate, CPU, latency of each that ran."""
    found = []
    for test in (*IO, *FILES):
        if one := table.cells.get(test):
            what, unit = (
                ("bandwidth", Unit.BYTES_PER_SECOND)
                if test in IO[:5]
                else ("ops", Unit.OPS_PER_SECOND)
            )
            found.append(Metric(f"{test}.{what}", one.rate, unit, note=one.note, line=one.line))
            found.append(
                Metric(f"{test}.cpu", one.cpu, Unit.RATIO, note=one.cpu_note, line=one.line)
            )
        if test in table.latencies:
            seconds, line = table.latencies[test]
            found.append(Metric(f"{test}.latency", seconds, Unit.SECONDS, line=line))
    return found


def doubt_the_end(table: Table) -> None:
    """1.0x ends with a CPU figure: of a text that ends there, nobody knows whether 9 was 99."""
    test = list(table.cells)[-1]
    if table.cells[test].cpu is not None:
        table.cells[test] = replace(table.cells[test], cpu=None, cpu_note=CUT)


def check_agreement(exact: Table, text: Table) -> None:
    """Raises ParseError, at the text's line, when a line of CSV and the text above it are not one result."""
    if not text.columns:
        return
    for tests, said in ((IO, text.size), (FILES, text.files)):
        _same_tests(tests, said, exact, text)
    for test, shown in text.cells.items():
        one = exact.cells[test]
        if not _same_cell(one, shown):
            raise ParseError(f"{test} is not what the CSV line says", shown.line)
    for test, (seconds, line) in text.latencies.items():
        if exact.latencies.get(test, (None,))[0] != seconds:
            raise ParseError(f"the latency of {test} is not what the CSV line says", line)


def _same_cell(exact: Cell, shown: Cell) -> bool:
    if exact.cpu != shown.cpu:
        return False
    if exact.rate is None or shown.rate is None:
        return exact.rate is shown.rate or shown.note == NO_RATE
    return abs(exact.rate - shown.rate) <= shown.step


def _same_tests(tests: Sequence[str], said: str, exact: Table, text: Table) -> None:
    """Check that the text's table has the tests of the CSV line. Raises ParseError when it has others."""
    shown = [test for test in tests if test in text.cells]
    if said and shown != [test for test in tests if test in exact.cells]:
        line = text.cells[shown[0]].line if shown else 0
        raise ParseError("the text and the CSV line have different tests", line)
