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
    match = LATENCY.fullmatch(word)
    if not match:
        raise ValueError(f"{test}: {word!r} is not a latency in us, ms or s")
    return int(match[1]) / LATENCY_PARTS[match[2]]


def size_of(words: str) -> int | None:
    """Bytes, from "64M" or "2G:8k"; None when it says none."""
    match = re.match(r"(\d{1,9})([MGT])(?::|$)", words)
    return int(match[1]) * SCALE[match[2]] if match else None


def table_metrics(table: Table) -> list[Metric]:
    """Rate, CPU and latency of each test that ran, in the order of the tests."""
    metrics = []
    for test in (*IO, *FILES):
        if test_cell := table.cells.get(test):
            what, unit = (
                ("bandwidth", Unit.BYTES_PER_SECOND)
                if test in IO[:5]
                else ("ops", Unit.OPS_PER_SECOND)
            )
            metrics.append(
                Metric(
                    f"{test}.{what}", test_cell.rate, unit, note=test_cell.note, line=test_cell.line
                )
            )
            metrics.append(
                Metric(
                    f"{test}.cpu",
                    test_cell.cpu,
                    Unit.RATIO,
                    note=test_cell.cpu_note,
                    line=test_cell.line,
                )
            )
        if test in table.latencies:
            seconds, line = table.latencies[test]
            metrics.append(Metric(f"{test}.latency", seconds, Unit.SECONDS, line=line))
    return metrics


def doubt_the_end(table: Table) -> None:
    """1.0x ends with a CPU figure: of a text that ends there, nobody knows whether 9 was 99."""
    test = list(table.cells)[-1]
    if table.cells[test].cpu is not None:
        table.cells[test] = replace(table.cells[test], cpu=None, cpu_note=CUT)


def check_agreement(exact: Table, text: Table) -> None:
    """Raises ParseError, at the text's line, when a line of CSV and the text above it are not one result."""
    if not text.columns:
        return
    for tests, printed in ((IO, text.size), (FILES, text.files)):
        _same_tests(tests, printed, exact, text)
    for test, text_cell in text.cells.items():
        exact_cell = exact.cells[test]
        if not _same_cell(exact_cell, text_cell):
            raise ParseError(f"{test} is not what the CSV line says", text_cell.line)
    for test, (seconds, line) in text.latencies.items():
        if exact.latencies.get(test, (None,))[0] != seconds:
            raise ParseError(f"the latency of {test} is not what the CSV line says", line)


def _same_cell(exact: Cell, text_cell: Cell) -> bool:
    if exact.cpu != text_cell.cpu:
        return False
    if exact.rate is None or text_cell.rate is None:
        return exact.rate is text_cell.rate or text_cell.note == NO_RATE
    return abs(exact.rate - text_cell.rate) <= text_cell.step


def _same_tests(tests: Sequence[str], printed: str, exact: Table, text: Table) -> None:
    """Check that the text's table has the tests of the CSV line. Raises ParseError when it has others."""
    text_tests = [test for test in tests if test in text.cells]
    if printed and text_tests != [test for test in tests if test in exact.cells]:
        line = text.cells[text_tests[0]].line if text_tests else 0
        raise ParseError("the text and the CSV line have different tests", line)
