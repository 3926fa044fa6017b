# SPDX-License-Identifier: Apache-2.0
"""Tables of IOmeter results as articles print them: a row for each figure, a column for each run.

Outstanding IOs | 1 | 2 | 4          as on a Chinese page (article 002), or in English
IOPS | 1683 | 3327 | 5095
读IOPS | 842 | 1661 | 2545
延时(ms) | 2.38 | 2.40 | 3.14
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.contracts import Metric, ParseError, Unit
from agents.texts.parsed_result import ParsedResult

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
