# SPDX-License-Identifier: Apache-2.0
"""Figures that a person typed in: off a paper's table, a chart's labels, a sentence. A format of our own.

A result begins with its first line and ends with `end`; a text may hold many of them:

    benchlab figures 1
    title: SSD P30, no host cache
    tool: dynamo
    version: IOmeter 1.1.0
    outstanding: 4
    point: host_cache=none
    note: read off the table of figure 7
    iops = 5095 op/s
    read.iops = 2545 op/s
    lat.mean = 3.14 ms
    clat.p99 = n/a s    # the paper does not say
    end

Above the figures, all optional, each but `point`, `option` and `note` once: `title`; `tool`, the program in lower
case (`fio`, `dynamo`, `sysbench`); its `version` and `command`; the `outstanding` I/Os; `point: key=value`,
what varies between results that belong together; `option: key=value` of the tool; `note`.
A figure is `name = value unit`, names as on the pages of runs (`iops`, `write.bandwidth`, `clat.p99`), the value in
plain digits with a decimal point or `n/a`, the unit as the source prints it (see UNITS); after a `#` comes its note.
Lines that begin with `#` are for people. An empty line ends a result, so one without `end` was cut short.
Reads and writes must add up to the whole within 1 %, unless one of the three has a note that says why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from agents.contracts import Metric, ParseError, Unit
from agents.texts.parsed_result import ParsedResult

LABEL = "Figures typed in"
KEYWORDS = ("benchlab figures",)

HEAD = re.compile(r"\s*benchlab figures ([0-9]{1,4})\s*")
FACT = re.compile(r"(title|tool|version|command|outstanding|point|option|note):\s*(\S.*)")
PAIR = re.compile(r"([a-z][a-z0-9_]{0,39})\s*=\s*(\S.*)")
NAME = r"[a-z][a-z0-9_-]{0,39}(?:\.[a-z0-9_-]{1,40}){0,5}"
FIGURE = re.compile(rf"({NAME})\s*=\s*(\S+)\s+([^\s#]+)\s*(?:#\s*(.*))?")
NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,12})?")
TOOL = re.compile(r"[a-z][a-z0-9_]{0,39}")
# characters of a line
LONGEST = 1000
ONCE = ("title", "tool", "version", "command", "outstanding")
SUMS = ("iops", "bandwidth")
# reads + writes against the whole
OFF = 0.01

# As the sources print them -> base unit and factor.
UNITS: Mapping[str, tuple[Unit, str]] = {
    "op/s": (Unit.OPS_PER_SECOND, "1"),
    "kop/s": (Unit.OPS_PER_SECOND, "1e3"),
    "Mop/s": (Unit.OPS_PER_SECOND, "1e6"),
    "B/s": (Unit.BYTES_PER_SECOND, "1"),
    "kB/s": (Unit.BYTES_PER_SECOND, "1e3"),
    "MB/s": (Unit.BYTES_PER_SECOND, "1e6"),
    "GB/s": (Unit.BYTES_PER_SECOND, "1e9"),
    "KiB/s": (Unit.BYTES_PER_SECOND, "1024"),
    "MiB/s": (Unit.BYTES_PER_SECOND, "1048576"),
    "GiB/s": (Unit.BYTES_PER_SECOND, "1073741824"),
    "ns": (Unit.SECONDS, "1e-9"),
    "us": (Unit.SECONDS, "1e-6"),
    "ms": (Unit.SECONDS, "1e-3"),
    "s": (Unit.SECONDS, "1"),
    "B": (Unit.BYTES, "1"),
    "KiB": (Unit.BYTES, "1024"),
    "MiB": (Unit.BYTES, "1048576"),
    "GiB": (Unit.BYTES, "1073741824"),
    "%": (Unit.RATIO, "0.01"),
    "1": (Unit.RATIO, "1"),
}
# A name with one of these parts has this unit: a wrong one is a slip of the pen.
MEANS = {
    "iops": Unit.OPS_PER_SECOND,
    "ops": Unit.OPS_PER_SECOND,
    "bandwidth": Unit.BYTES_PER_SECOND,
    "lat": Unit.SECONDS,
    "clat": Unit.SECONDS,
    "slat": Unit.SECONDS,
}


@dataclass(slots=True)
class Block:
    """Content of a result that was read so far."""

    facts: dict[str, str] = field(default_factory=dict)
    points: dict[str, str | int] = field(default_factory=dict)
    options: dict[str, str | int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = text.split("\n")
    return [_figures_block(lines, first, last) for first, last in _spans(lines)]


def _spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(first, last) line from 1 of each result: up to its `end`, or where it was cut off."""
    first = last = 0
    for number, line in enumerate(lines, start=1):
        head = len(line) <= LONGEST and HEAD.fullmatch(line)
        if first and (head or not line.strip()):
            yield first, last
            first = 0
        if head:
            first = number
        last = number
        if first and line.strip() == "end":
            yield first, last
            first = 0
    if first:
        yield first, last


def _figures_block(lines: Sequence[str], first: int, last: int) -> ParsedResult:
    try:
        return _parse_block(lines, first, last)
    except ParseError as error:
        return ParsedResult("figures", first, last, "Figures typed in", trouble=str(error))


def _parse_block(lines: Sequence[str], first: int, last: int) -> ParsedResult:
    head = HEAD.fullmatch(lines[first - 1])
    if head and head[1] != "1":
        raise ParseError(f"version {head[1]} of this format; known is 1", first, lines[first - 1])
    if lines[last - 1].strip() != "end":
        raise ParseError("truncated: a result ends with `end`", last, lines[last - 1])
    block = Block()
    for number in range(first + 1, last):
        _parse_line(block, number, lines[number - 1])
    _check_block(block, last)
    facts, outstanding = block.facts, None
    if "outstanding" in facts:
        outstanding = int(facts["outstanding"])
        block.points = {"outstanding": outstanding, **block.points}
    return ParsedResult(
        "figures",
        first,
        last,
        title=facts.get("title", "Figures typed in"),
        tool=facts.get("tool", ""),
        version=facts.get("version", ""),
        command=facts.get("command", ""),
        metrics=tuple(block.metrics.values()),
        options=block.options,
        point=block.points,
        outstanding=outstanding,
        notes=tuple(block.notes),
    )


def _parse_line(block: Block, number: int, line: str) -> None:
    words = line.strip()
    if len(words) > LONGEST:
        raise ParseError(f"a line of {len(words)} characters", number, words)
    if words.startswith("#"):
        return
    if fact := FACT.fullmatch(words):
        _fact(block, fact[1], fact[2], number, words)
    elif figure := FIGURE.fullmatch(words):
        _parse_figure(block, figure, number, words)
    else:
        raise ParseError("neither `key: value` nor `name = value unit`", number, words)


def _fact(block: Block, key: str, value: str, number: int, words: str) -> None:
    if block.metrics:
        raise ParseError(f"`{key}:` must be above the figures", number, words)
    if key == "note":
        block.notes.append(value)
        return
    if key in ONCE:
        if key in block.facts:
            raise ParseError(f"`{key}:` is listed twice", number, words)
        if key == "tool" and not TOOL.fullmatch(value):
            raise ParseError("a tool is one word in lower case", number, words)
        if key == "outstanding" and not (re.fullmatch("[0-9]{1,9}", value) and int(value)):
            raise ParseError("outstanding I/Os are a whole number from 1", number, words)
        block.facts[key] = value
        return
    pair = PAIR.fullmatch(value)
    into = block.points if key == "point" else block.options
    if pair is None or pair[1] in into or pair[1] == "outstanding":
        raise ParseError(
            f"`{key}: key=value`, each key once; `outstanding` has its own", number, words
        )
    into[pair[1]] = int(pair[2]) if re.fullmatch("0|[1-9][0-9]{0,14}", pair[2]) else pair[2]


def _parse_figure(block: Block, match: re.Match[str], number: int, words: str) -> None:
    name, printed, unit, note = match.groups()
    if name in block.metrics:
        raise ParseError(f"{name} is listed twice", number, words)
    if unit not in UNITS:
        raise ParseError(f"unknown unit: {unit!r}; known are {', '.join(UNITS)}", number, words)
    base, factor = UNITS[unit]
    for part, means in MEANS.items():
        if part in name.split(".") and means != base:
            raise ParseError(f"{name} is in {means}, not in {unit}", number, words)
    value = None
    if printed != "n/a":
        if not NUMBER.fullmatch(printed):
            raise ParseError("no plain number such as 1234.5, and not n/a", number, words)
        value = float(Decimal(printed) * Decimal(factor))
    note = (note or "").strip() or ("n/a" if value is None else "")
    block.metrics[name] = Metric(name, value, base, {}, note, number)


def _check_block(block: Block, last: int) -> None:
    """Check a block. Raises ParseError for impossible figures."""
    if not block.metrics:
        raise ParseError("no figure", last, "end")
    for name in SUMS:
        parts = [block.metrics.get(key) for key in (name, f"read.{name}", f"write.{name}")]
        values = [part.value for part in parts if part and part.value is not None and not part.note]
        if len(values) < len(parts):
            continue
        whole, reads, writes = values
        if abs(reads + writes - whole) > max(1.5, OFF * whole):
            raise ParseError(
                f"read.{name} and write.{name} make {reads + writes:g}, not {whole:g}: correct it, or explain it"
                " in a note (# …)",
                parts[0].line if parts[0] else last,
                f"{name} = {whole:g}",
            )
