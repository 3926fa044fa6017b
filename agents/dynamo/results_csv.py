# SPDX-License-Identifier: Apache-2.0
"""IOmeter's own results .csv, written from dynamo's measurements, read in any version, whatever it calls a column.

Pure: times are arguments.

In DISK rows we write the disk's own raw times and bins, whereas IOmeter repeats those of the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import ParseError
from agents.dynamo import figures, summary
from agents.dynamo.account import Active, Measured
from agents.dynamo.figures import Figures
from agents.dynamo.messages import Disk
from agents.dynamo.results import RawResult
from agents.dynamo.summary import Part

HEADER = re.compile(r"\s*'?Target Type([,;\t])\s*Target Name\1")
# stands for members of a row that differ
MIXED_VALUE = -1


@dataclass(frozen=True)
class TimedTest:
    """A test and when it began and ended, as local "YYYY-MM-DD HH:MM:SS:mmm"."""

    test: Measured
    began: str
    ended: str


@dataclass(frozen=True)
class Row:
    """A line: its non-empty cells by the names in NAMES and BINS."""

    # from 1
    line: int
    cells: Mapping[str, str]

    @property
    def row_kind(self) -> str:
        return self.cells.get("Target Type", "").upper()


@dataclass(frozen=True)
class Block:
    """A step of a run: all rows below one heading."""

    # first line of the block, from 1
    first: int
    last: int
    rows: tuple[Row, ...]
    # comment -> data lines below
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # the time stamp below it, and "aborted" if it was aborted
    ended: tuple[str, ...] = ()


def write_csv(
    timed_tests: Sequence[TimedTest], description: str = "", test_type: str = "NORMAL"
) -> str:
    """The text of the file. Raises DynamoError if a test cannot be trusted."""
    first = timed_tests[0].began if timed_tests else ""
    lines = [
        "'Test Type,Test Description",
        f"{TEST_TYPES.index(test_type)},{_safe_text(description)}",
        "'Version",
        "1.1.0 ",
        "'Time Stamp",
        first,
    ]
    # IOmeter writes that space, too.
    heading = "'" + ",".join((*NAMES, *BINS[:-1], f" {BINS[-1]}"))
    for timed in timed_tests:
        lines += _access_section(timed.test)
        lines += ["'Results", heading]
        lines += [",".join(row) for row in _test_rows(timed.test)]
        lines += ["'Time Stamp", timed.ended]
    return "\r\n".join([*lines, "'End Test"]) + "\r\n"


def _safe_text(name: str) -> str:
    """The text without characters that end a cell, control a terminal or begin a formula in a spreadsheet."""
    plain = re.sub(r"[,\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", " ", name)
    return f" {plain}" if plain.startswith(("=", "+", "-", "@")) else plain


def _access_section(test: Measured) -> list[str]:
    spec = test.workers[0].access
    lines = [
        "'Access specifications",
        "'Access specification name,default assignment",
        f"{_safe_text(spec.name)},{spec.default_assignment}",
        "'size,% of size,% reads,% random,delay,burst,align,reply",
    ]
    lines += [
        f"{n.size},{n.of_size},{n.reads},{n.random},{n.delay},{n.burst},{n.align},{n.reply},"
        for n in spec.lines
    ]
    return [*lines, "'End access specifications"]


def _test_rows(test: Measured) -> Iterator[list[str]]:
    parts = summary.target_parts(test)
    whole = figures.sum_figures([part.figures for part in parts])
    spec = _safe_text(test.workers[0].access.name)
    counts = (str(len(test.workers)), str(len(parts)))
    longest = max(worker.last - worker.first for worker in test.results)
    raw = _raw_cells([r for w in test.results for r in w.targets], longest)
    shared = {**_figure_cells(whole), **_depth_cells(test.workers), **_machine_cells(test, whole)}
    everyone = {**shared, "Processor Speed": ""}
    yield _csv_row("ALL", "All", spec, ("1", *counts), everyone, whole)
    yield _csv_row("MANAGER", test.info.name, spec, ("", *counts), {**shared, **raw}, whole)
    yield from _processor_rows(test)
    for worker in test.workers:
        yield from _worker_rows(test, worker, [p for p in parts if p.worker == worker.number])


def _processor_rows(test: Measured) -> Iterator[list[str]]:
    for number, cpu in enumerate(test.manager.cpus):
        cells = dict(zip(NAMES[48:53], map(_float, cpu[:5]), strict=True))
        cells["Interrupts per Second"] = _float(cpu.interrupts)
        cells["Processor Speed"] = _float(test.rate.used)
        yield _csv_row("PROCESSOR", f"CPU {number}", "", ("", "", ""), cells, None)


def _worker_rows(test: Measured, worker: Active, own: Sequence[Part]) -> Iterator[list[str]]:
    result = test.results[test.workers.index(worker)]
    ticks = result.last - result.first
    summed = figures.sum_figures([part.figures for part in own])
    cells = {
        **_figure_cells(summed),
        **_raw_cells(list(result.targets), ticks),
        **_depth_cells([worker]),
    }
    name, counts = f"Worker {worker.number}", ("", "", str(len(own)))
    yield _csv_row("WORKER", name, _safe_text(worker.access.name), counts, cells, summed)
    for part, target, raw in zip(own, worker.targets, result.targets, strict=True):
        only = _depth_cells([worker._replace(targets=(target,))])
        cells = {**_figure_cells(part.figures), **_raw_cells([raw], ticks), **only}
        yield _csv_row("DISK", part.name, "", ("", "", ""), cells, part.figures)


def _csv_row(
    kind: str,
    name: str,
    spec: str,
    counts: Sequence[str],
    cells: Mapping[str, str],
    measured: Figures | None,
) -> list[str]:
    leading_cells = dict(zip(NAMES, (kind, _safe_text(name), spec, *counts), strict=False))
    row = [{**leading_cells, **cells}.get(column, "") for column in NAMES]
    return row + ([str(hits) for hits in measured.bins] if measured is not None else [])


def _float(value: float) -> str:
    return f"{value:.6f}"


def _figure_cells(measured: Figures) -> dict[str, str]:
    cells: dict[str, str] = {}
    for prefix, way in (
        ("", measured.combined),
        ("Read ", measured.reads),
        ("Write ", measured.writes),
    ):
        cells[f"{prefix}IOps"] = _float(way.iops)
        cells[f"{prefix}MiBps (Binary)"] = _float(way.bandwidth / (1 << 20))
        cells[f"{prefix}MBps (Decimal)"] = _float(way.bandwidth / 1e6)
        cells[f"Average {prefix}Response Time"] = _float((way.mean or 0.0) * 1e3)
        cells[f"Maximum {prefix}Response Time"] = _float(way.slowest * 1e3)
        cells[f"{prefix}Errors"] = str(way.errors)
    cells["Transactions per Second"], cells["Connections per Second"] = cells["IOps"], _float(0)
    cells["Average Transaction Time"] = cells["Average Response Time"]
    cells["Maximum Transaction Time"] = cells["Maximum Response Time"]
    cells["Average Connection Time"] = cells["Maximum Connection Time"] = _float(0)
    cells["Bytes Read"], cells["Bytes Written"] = (
        str(measured.reads.bytes),
        str(measured.writes.bytes),
    )
    cells["Read I/Os"], cells["Write I/Os"] = str(measured.reads.ios), str(measured.writes.ios)
    cells["Connections"], cells["Transactions per Connection"] = "0", "-1"
    return cells


def _raw_cells(results: Sequence[RawResult], ticks: int) -> dict[str, str]:
    sums = (
        sum(r.read_latency_sum for r in results),
        sum(r.write_latency_sum for r in results),
        sum(r.transaction_latency_sum for r in results),
        sum(r.connection_latency_sum for r in results),
        max(r.max_read_latency for r in results),
        max(r.max_write_latency for r in results),
        max(r.max_transaction_latency for r in results),
        max(r.max_connection_latency for r in results),
        ticks,
    )
    return dict(zip(NAMES[36:45], map(str, sums), strict=True))


def _depth_cells(workers: Sequence[Active]) -> dict[str, str]:
    disks = [(t.details, t.queue_depth) for w in workers for t in w.targets]
    kinds = [
        (d.starting_sector, d.maximum_size, depth) for d, depth in disks if isinstance(d, Disk)
    ]
    same = [
        column[0] if len(set(column)) == 1 else MIXED_VALUE for column in zip(*kinds, strict=True)
    ]
    return dict(zip(NAMES[45:48], map(str, same), strict=True)) if kinds else {}


def _machine_cells(test: Measured, whole: Figures) -> dict[str, str]:
    cells = {"Processor Speed": _float(test.rate.used)}
    cpus = () if summary.has_too_many_cpus(test) else test.manager.cpus
    if cpus:
        means = [sum(cpu[n] for cpu in cpus) / len(cpus) for n in range(5)]
        cells.update(zip(NAMES[48:53], map(_float, means), strict=True))
        cells["Interrupts per Second"] = _float(sum(cpu.interrupts for cpu in cpus))
        cells["CPU Effectiveness"] = _float(whole.combined.iops / means[0] if means[0] else 0.0)
    nets = test.manager.interfaces
    cells["Packets/Second"] = _float(sum(n.packets for n in nets))
    cells["Packet Errors"] = _float(sum(n.errors_in + n.errors_out for n in nets))
    cells["Segments Retransmitted/Second"] = _float(test.manager.segments_resent)
    return cells


def parse_blocks(text: str) -> list[Block]:
    """Every step in a text of any version, whatever surrounds it. Never raises; rows are not interpreted."""
    lines = text.split("\n")
    heads = [n for n, line in enumerate(lines) if HEADER.match(line)]
    blocks: list[Block] = []
    begins = 0
    for head in heads:
        match = HEADER.match(lines[head])
        assert match is not None
        names = [_column_name(word) for word in lines[head].strip().lstrip("'").split(match[1])]
        last, rows = _rows_below(lines, head, names, match[1])
        first, facts = _comments_above(lines, begins, head)
        last, ended = _end_of_block(lines, last)
        shared = {**(blocks[-1].facts if blocks else {}), **facts}
        blocks.append(Block(first + 1, last + 1, rows, shared, ended))
        begins = last + 1
    return blocks


def _column_name(word: str) -> str:
    plain = word.strip().strip('"').strip()
    return OLD.get(plain, plain)


def _rows_below(
    lines: list[str], head: int, names: list[str], separator: str
) -> tuple[int, tuple[Row, ...]]:
    rows: list[Row] = []
    last = head
    for number in range(head + 1, len(lines)):
        words = [word.strip().strip('"').strip() for word in lines[number].split(separator)]
        if words[0].upper() not in ROWS:
            break
        pairs = list(zip(names, words, strict=False))
        cells = {name: word for name, word in pairs if word}
        if len(words) > len(names) and any(words[len(names) :]):
            cells["surplus"] = separator.join(words[len(names) :])
        rows.append(Row(number + 1, cells))
        last = number
    return last, tuple(rows)


def _comments_above(lines: list[str], begins: int, head: int) -> tuple[int, dict[str, list[str]]]:
    """The comments before the heading with the data below each; and where they begin."""
    facts: dict[str, list[str]] = {}
    first, key = head, ""
    for number in range(begins, head):
        line = lines[number].strip()
        if line.startswith("'"):
            comment = _comment_key(line)
            if not comment and not facts:
                continue
            key = comment
            first = min(first, number)
            facts[key] = []
        elif line and key:
            facts[key].append(line)
    return first, facts


KEYS = (
    "test type",
    "version",
    "time stamp",
    "access specification",
    "size",
    "results",
    "end access",
)


def _comment_key(line: str) -> str:
    key = line.lstrip("'").strip().lower()
    return key if key.startswith(KEYS) else ""


def _end_of_block(lines: list[str], last: int) -> tuple[int, tuple[str, ...]]:
    """A time stamp and the end of the test belong to what is above them."""
    below = [line.strip() for line in lines[last + 1 : last + 4]]
    ended: tuple[str, ...] = ()
    if len(below) > 1 and below[0].lower() == "'time stamp" and below[1][:1].isdigit():
        last, ended, below = last + 2, (below[1],), below[2:]
    if below and re.fullmatch(r"'?(?:end|aborted) test", below[0], re.IGNORECASE):
        last += 1
        ended += ("aborted",) if "abort" in below[0].lower() else ()
    return last, ended


def cell_number(row: Row, name: str) -> float | None:
    """The number in a cell; None without one. Raises ParseError for anything but a plain number."""
    cell = row.cells.get(name, "")
    if not cell:
        return None
    if not re.fullmatch(r"-?\d{1,20}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?", cell):
        raise ParseError(
            f"{name}: {cell[:40]!r} is not a number with a decimal point", row.line, cell
        )
    return float(cell)


NAMES = (
    "Target Type",
    "Target Name",
    "Access Specification Name",
    "# Managers",
    "# Workers",
    "# Disks",
    "IOps",
    "Read IOps",
    "Write IOps",
    "MiBps (Binary)",
    "Read MiBps (Binary)",
    "Write MiBps (Binary)",
    "MBps (Decimal)",
    "Read MBps (Decimal)",
    "Write MBps (Decimal)",
    "Transactions per Second",
    "Connections per Second",
    "Average Response Time",
    "Average Read Response Time",
    "Average Write Response Time",
    "Average Transaction Time",
    "Average Connection Time",
    "Maximum Response Time",
    "Maximum Read Response Time",
    "Maximum Write Response Time",
    "Maximum Transaction Time",
    "Maximum Connection Time",
    "Errors",
    "Read Errors",
    "Write Errors",
    "Bytes Read",
    "Bytes Written",
    "Read I/Os",
    "Write I/Os",
    "Connections",
    "Transactions per Connection",
    "Total Raw Read Response Time",
    "Total Raw Write Response Time",
    "Total Raw Transaction Time",
    "Total Raw Connection Time",
    "Maximum Raw Read Response Time",
    "Maximum Raw Write Response Time",
    "Maximum Raw Transaction Time",
    "Maximum Raw Connection Time",
    "Total Raw Run Time",
    "Starting Sector",
    "Maximum Size",
    "Queue Depth",
    "% CPU Utilization",
    "% User Time",
    "% Privileged Time",
    "% DPC Time",
    "% Interrupt Time",
    "Processor Speed",
    "Interrupts per Second",
    "CPU Effectiveness",
    "Packets/Second",
    "Packet Errors",
    "Segments Retransmitted/Second",
)
BINS = (
    "0 to 50 uS",
    "50 to 100 uS",
    "100 to 200 uS",
    "200 to 500 uS",
    "0.5 to 1 mS",
    "1 to 2 mS",
    "2 to 5 mS",
    "5 to 10 mS",
    "10 to 15 mS",
    "15 to 20 mS",
    "20 to 30 mS",
    "30 to 50 mS",
    "50 to 100 mS",
    "100 to 200 mS",
    "200 to 500 mS",
    "0.5 to 1 S",
    "1 to 2 s",
    "2 to 4.7 s",
    "4.7 to 5 s",
    "5 to 10 s",
    ">= 10 s",
)
# Names in older versions. The "MBps" of 2006 are bytes / 2^20, like the later "MBps (Binary)".
OLD = {
    "MBps": "MiBps (Binary)",
    "Read MBps": "Read MiBps (Binary)",
    "Write MBps": "Write MiBps (Binary)",
    "MBps (Binary)": "MiBps (Binary)",
    "Read MBps (Binary)": "Read MiBps (Binary)",
    "Write MBps (Binary)": "Write MiBps (Binary)",
}
ROWS = ("ALL", "MANAGER", "PROCESSOR", "WORKER", "DISK", "NETWORK")
TEST_TYPES = (
    "NORMAL",
    "CYCLE_TARGETS",
    "CYCLE_WORKERS",
    "INCREMENT_TARGETS_PARALLEL",
    "INCREMENT_TARGETS_SERIAL",
    "CYCLE_WORKERS_AND_TARGETS",
    "CYCLE_OUTSTANDING_IOS",
    "CYCLE_OUTSTANDING_IOS_AND_TARGETS",
)
