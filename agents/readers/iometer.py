# SPDX-License-Identifier: Apache-2.0
"""IOmeter's results: the .csv that its GUI saves (2006 to 1.1.0), and tables of such results in articles.

Those have a row for each figure, a column for each run, in Chinese (article 002) or English:

Outstanding IOs | 1 | 2 | 4
IOPS | 1683 | 3327 | 5095
读IOPS | 842 | 1661 | 2545
延时(ms) | 2.38 | 2.40 | 3.14
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.contracts import Metric, ParseError, Unit
from agents.dynamo import figures, results_csv
from agents.dynamo.results_csv import BINS, Block, Row
from agents.texts.parsed_result import ParsedResult

LABEL = "IOmeter"
KEYWORDS = ("Target Type", "|")
KIND = "iometer"
WAYS = (("", ""), ("read.", "Read "), ("write.", "Write "))
CPU = (
    ("cpu.busy", "% CPU Utilization"),
    ("cpu.user", "% User Time"),
    ("cpu.system", "% Privileged Time"),
)
# reads and writes against the whole, MB against MiB
SAME = 0.002


def find_results(text: str, name: str) -> list[ParsedResult]:
    """Each step of a .csv is a result; a table is one result, its columns told apart by labels."""
    clean = text.replace("\u00a0", " ")
    results = [_result_block(block) for block in results_csv.parse_blocks(clean)]
    return results + find_tables(clean)


def _result_block(block: Block) -> ParsedResult:
    try:
        return _parse_block(block)
    except ParseError as error:
        return ParsedResult(KIND, block.first, block.last, "IOmeter results", trouble=str(error))


def _parse_block(block: Block) -> ParsedResult:
    if any("surplus" in row.cells for row in block.rows):
        raise ParseError(
            "a row has more columns than the heading: a name with a comma?",
            next(row.line for row in block.rows if "surplus" in row.cells),
        )
    whole = [row for row in block.rows if row.row_kind == "ALL"]
    if len(whole) != 1:
        raise ParseError(
            f"{len(whole)} rows of ALL below the heading: cut short, or two steps in one",
            block.last,
            "",
        )
    metrics = _row_metrics(whole[0], {}) + _machine_metrics(whole[0])
    metrics += [
        m for row in block.rows if row.row_kind == "WORKER" for m in _part_metrics(row, block)
    ]
    depth = _total_outstanding(block)
    return ParsedResult(
        KIND,
        block.first,
        block.last,
        title=whole[0].cells.get("Access Specification Name", "IOmeter results"),
        tool="dynamo",
        version=" ".join(block.facts.get("version", ())),
        metrics=tuple(metrics),
        options=_reported_options(block),
        point={"outstanding": depth} if depth else {},
        outstanding=depth,
        notes=tuple(
            f"ended {ending}" if ending != "aborted" else "aborted by hand"
            for ending in block.ended
        ),
    )


def _row_metrics(row: Row, labels: dict[str, str]) -> list[Metric]:
    """All figures of a row. Raises ParseError if it contradicts itself."""
    metrics: list[Metric] = []
    for prefix, word in WAYS:
        iops = _need(row, f"{word}IOps")
        ios = _ios(row, prefix)
        metrics += [
            Metric(f"{prefix}iops", iops, Unit.OPS_PER_SECOND, labels, line=row.line),
            Metric(
                f"{prefix}bandwidth",
                _bandwidth(row, word),
                Unit.BYTES_PER_SECOND,
                labels,
                line=row.line,
            ),
        ]
        none = iops == 0 and not ios
        for figure, column in (("mean", "Average"), ("max", "Maximum")):
            value = None if none else _need(row, f"{column} {word}Response Time") / 1e3
            note = "no I/O" if none else ""
            metrics.append(
                Metric(f"{prefix}lat.{figure}", value, Unit.SECONDS, labels, note, row.line)
            )
        if ios is not None:
            metrics.append(Metric(f"{prefix}ios", ios, Unit.RATIO, labels, line=row.line))
        errors = results_csv.cell_number(row, f"{word}Errors")
        if errors is not None:
            metrics.append(Metric(f"{prefix}errors", errors, Unit.RATIO, labels, line=row.line))
    _check_row(row, {metric.name: metric.value or 0.0 for metric in metrics})
    return metrics + _bin_metrics(row, labels)


def _need(row: Row, name: str) -> float:
    value = results_csv.cell_number(row, name)
    if value is None or value < 0:
        raise ParseError(f"{name} is missing or negative", row.line, str(value))
    return value


def _ios(row: Row, prefix: str) -> float | None:
    reads, writes = (results_csv.cell_number(row, name) for name in ("Read I/Os", "Write I/Os"))
    if reads is None or writes is None:
        return None
    return {"": reads + writes, "read.": reads, "write.": writes}[prefix]


def _bandwidth(row: Row, word: str) -> float:
    binary = results_csv.cell_number(row, f"{word}MiBps (Binary)")
    decimal = results_csv.cell_number(row, f"{word}MBps (Decimal)")
    if binary is None and decimal is None:
        raise ParseError(f"{word}MBps is missing", row.line)
    values = [
        v for v in (decimal and decimal * 1e6, binary and binary * (1 << 20)) if v is not None
    ]
    if len(values) == 2 and abs(values[0] - values[1]) > SAME * max(values) + 2:
        raise ParseError(f"{word}MiBps and {word}MBps do not agree", row.line, str(binary))
    return values[0]


def _check_row(row: Row, figures: dict[str, float]) -> None:
    for name in ("iops", "bandwidth", "ios", "errors"):
        printed_directions = [f"{prefix}{name}" in figures for prefix, _ in WAYS]
        if any(printed_directions) and not all(printed_directions):
            raise ParseError(f"{name}: not of both reads and writes and the whole", row.line)
        if all(printed_directions):
            parts = figures[f"read.{name}"] + figures[f"write.{name}"]
            if abs(parts - figures[name]) > SAME * figures[name] + 3:
                sums = f"{parts:g} and {figures[name]:g}"
                raise ParseError(f"reads and writes do not make up {name}: {sums}", row.line)
    for prefix, column in (("read.", "Bytes Read"), ("write.", "Bytes Written")):
        moved, ios = results_csv.cell_number(row, column), figures.get(f"{prefix}ios")
        rate, iops = figures[f"{prefix}bandwidth"], figures[f"{prefix}iops"]
        if moved and ios and iops > 1 and abs(moved / ios - rate / iops) > 0.02 * moved / ios:
            raise ParseError(f"{column}, I/Os and rates do not agree", row.line, str(moved))


def _bin_metrics(row: Row, labels: dict[str, str]) -> list[Metric]:
    metrics = []
    for place, column in enumerate(BINS):
        hits = results_csv.cell_number(row, column)
        if hits is None:
            return []
        low, high = figures.bin_edges(place)
        own = {**labels, "from": f"{low:.6g}", "to": f"{high:.6g}"}
        metrics.append(Metric("lat.bin", hits, Unit.RATIO, own, line=row.line))
    return metrics


def _machine_metrics(row: Row) -> list[Metric]:
    cells = [(name, results_csv.cell_number(row, column)) for name, column in CPU]
    return [
        Metric(name, value / 100, Unit.RATIO, line=row.line)
        for name, value in cells
        if value is not None and value >= 0
    ]


def _part_metrics(row: Row, block: Block) -> list[Metric]:
    if sum(1 for other in block.rows if other.row_kind == "WORKER") < 2:
        return []
    return [
        m
        for m in _row_metrics(row, {"worker": _worker_name(row, block)})
        if m.name != "lat.bin" or m.value
    ]


def _worker_name(row: Row, block: Block) -> str:
    """Its name, with its place where several are called the same (those of several managers are)."""
    name = row.cells.get("Target Name", "")
    same = [
        r.line
        for r in block.rows
        if r.row_kind == "WORKER" and r.cells.get("Target Name", "") == name
    ]
    return name if len(same) == 1 else f"{name} ({same.index(row.line) + 1})"


def _total_outstanding(block: Block) -> int | None:
    """The sum over all disks of all workers; None where the file does not say."""
    depths = [
        results_csv.cell_number(row, "Queue Depth") for row in block.rows if row.row_kind == "DISK"
    ]
    if not depths or any(depth is None or depth < 1 for depth in depths):
        return None
    return int(sum(depth for depth in depths if depth))


def _reported_options(block: Block) -> dict[str, object]:
    key = next((k for k in block.facts if k.startswith("size,")), "")
    lines = [line.strip().rstrip(",").replace(" ", "") for line in block.facts.get(key, ())]
    good = [line for line in lines if re.fullmatch(r"\d+(?:,\d+){7}", line)]
    return {"access": good} if good and len(good) == len(lines) else {}


FIGURES = {
    "iops": "iops",
    "读iops": "read.iops",
    "写iops": "write.iops",
    "read iops": "read.iops",
    "write iops": "write.iops",
    "延时(ms)": "lat.mean",
    "读延时(ms)": "read.lat.mean",
    "写延时(ms)": "write.lat.mean",
    "写(ms)": "write.lat.mean",
    "latency (ms)": "lat.mean",
    "read latency (ms)": "read.lat.mean",
    "write latency (ms)": "write.lat.mean",
}
HEADS = {
    "outstanding ios": "outstanding",
    "outstanding i/os": "outstanding",
    "缓存配置": "host_cache",
}
CACHES = {"无缓存": "none", "启用读缓存": "read", "启用读写缓存": "read/write"}
NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
RULE = re.compile(r"[\s|:+-]+")
# characters of a row
LONGEST = 500


def find_tables(text: str) -> list[ParsedResult]:
    """None where the text does not speak of IOmeter: others print such tables, too. A table alone was found before."""
    lines = text.split("\n")
    alone = all("|" in line for line in lines if line.strip())
    if not alone and "iometer" not in text.lower():
        return []
    return [block for block in map(_table_block, _split_tables(lines)) if block is not None]


# line from 1, cells
Cells = tuple[int, list[str]]


def _split_tables(lines: Sequence[str]) -> Iterator[list[Cells]]:
    rows: list[Cells] = []
    for number, line in enumerate([*lines, ""], start=1):
        if "|" in line and len(line) <= LONGEST:
            if not RULE.fullmatch(line):
                rows.append((number, [cell.strip() for cell in line.strip().strip("|").split("|")]))
            continue
        if len(rows) > 1:
            yield rows
        rows = []


def _table_block(rows: list[Cells]) -> ParsedResult | None:
    (first, head), body = rows[0], rows[1:]
    names = [FIGURES.get(cells[0].lower()) for _, cells in body]
    if "iops" not in names or not set(names) & {"read.iops", "write.iops", "lat.mean"}:
        return None
    title = f"IOmeter: {head[0]} {', '.join(head[1:])}"[:120]
    try:
        metrics, notes = _parse_table(head, body)
    except ParseError as error:
        return ParsedResult("iometer", first, body[-1][0], title, trouble=str(error))
    last = body[-1][0]
    return ParsedResult(
        "iometer",
        first,
        last,
        title,
        tool="dynamo",
        metrics=tuple(metrics),
        notes=tuple(notes),
        varies=HEADS.get(head[0].lower(), head[0]),
    )


def _parse_table(head: list[str], body: list[Cells]) -> tuple[list[Metric], list[str]]:
    label = HEADS.get(head[0].lower(), head[0])
    columns = [CACHES.get(cell, cell) for cell in head[1:]]
    if len(set(columns)) != len(columns) or not all(columns):
        raise ParseError("two columns of the table have the same heading, or none", 0)
    metrics: list[Metric] = []
    notes: list[str] = []
    for place, column in enumerate(columns, start=1):
        own = _column(body, place, {label: column})
        metrics += _checked_totals(own)
        notes += _little(own, label, column)
    return metrics, notes


def _column(body: list[Cells], place: int, labels: dict[str, str]) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for line, cells in body:
        name = FIGURES.get(cells[0].lower())
        if name is None or name in metrics:
            raise ParseError(f"{cells[0]!r} is an unknown figure, or listed twice", line, cells[0])
        if place >= len(cells) or not NUMBER.fullmatch(cells[place]):
            raise ParseError("a cell that is not a plain number", line, " | ".join(cells))
        value = float(cells[place])
        unit = Unit.SECONDS if "lat" in name else Unit.OPS_PER_SECOND
        metrics[name] = Metric(
            name, value / 1e3 if "lat" in name else value, unit, labels, line=line
        )
    return metrics


def _checked_totals(own: dict[str, Metric]) -> Iterator[Metric]:
    """Reads and writes that do not make up the whole are a slip of the article's: told, and not taken."""
    parts = [own.get(name) for name in ("read.iops", "write.iops", "iops")]
    part_values = [part.value for part in parts if part is not None and part.value is not None]
    off = len(part_values) == 3 and abs(part_values[0] + part_values[1] - part_values[2]) > max(
        2.5, 0.01 * part_values[2]
    )
    for metric in own.values():
        if off and metric.name in ("read.iops", "write.iops"):
            total = part_values[0] + part_values[1]
            note = f"printed: {metric.value:g}; reads and writes make {total:g}, not {part_values[2]:g}"
            yield Metric(metric.name, None, metric.unit, metric.labels, note, metric.line)
        else:
            yield metric


def _little(own: dict[str, Metric], label: str, column: str) -> Iterator[str]:
    """The rate times the mean latency is what was outstanding, whatever the table calls it."""
    rate, mean = own.get("iops"), own.get("lat.mean")
    if label != "outstanding" or not column.isdecimal() or rate is None or mean is None:
        return
    real = (rate.value or 0.0) * (mean.value or 0.0)
    if abs(real / max(int(column), 1) - 1) > 0.1:
        yield f"where the table says {column} outstanding I/Os, rate times latency says {real:.0f}: several workers"
