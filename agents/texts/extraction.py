# SPDX-License-Identifier: Apache-2.0
"""Figures that a person takes out of the output of any program: one line for each, as regex or JSONPath. Pure.

    NAME [UNIT] [x FACTOR] = [FILE] regex|json [first|last|sum|each]: PATTERN

    iops [op/s] = regex: IOPS=([0-9.]+)
    read.bandwidth [B/s] x 1024 = json: $.jobs[0].read.bw
    lat.p99 [s] x 0.000001 = out.json json: $.latency["99.0"]
    device.writes [1] = stderr regex sum: wrote ([0-9]+) blocks

The first group of a regex is the number; `^` and `$` are the ends of a line. It must match exactly once, unless
`first`, `last`, `sum` or `each` is said. FILE is stdout unless named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import AgentError, Metric, OptionsError, ParseError, Unit
from agents.texts import locate
from agents.texts.locate import Value

FORM = "NAME [UNIT] = regex: PATTERN, or NAME [UNIT] x FACTOR = FILE json: $.PATH"
LINE = re.compile(
    r"(?P<name>\S{1,80}) {0,9}\[(?P<unit>[^\[\]]{0,20})\](?: {0,9}x {0,9}(?P<factor>[^\s=]{1,40}))? {0,9}="
    r"(?: {0,9}(?P<file>[A-Za-z0-9_][A-Za-z0-9_.+@%-]{0,99})(?= ))?? {0,9}(?P<way>regex|json)"
    r"(?: {1,9}(?P<which>[a-z]{1,10}))? {0,9}: ?(?P<pattern>.{1,500})"
)
NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*")
WHICH = ("", "first", "last", "sum", "each")
FACTOR = re.compile(r"\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,2})?", re.ASCII)
NUMBER = re.compile(r"\+?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
UNKNOWN = re.compile(r"n/?a\*?|none|null|nan|-{1,9}|\+{2,9}", re.IGNORECASE)
# extractions of one command
MAX_EXTRACTIONS = 100


@dataclass(frozen=True, slots=True)
class Extraction:
    """One line of the form above."""

    name: str
    unit: Unit
    factor: float
    file: str
    way: str
    # "": there must be exactly one
    which: str
    pattern: str


@dataclass(frozen=True, slots=True)
class ExtractionOutcome:
    """Outcome of one line of extraction on a text: a figure, or trouble."""

    extraction: str
    name: str = ""
    value: float | None = None
    unit: str = ""
    # of the text, from 1
    line: int = 0
    note: str = ""
    labels: str = ""
    trouble: str = ""
    # that line, where there is trouble
    line_text: str = ""


def parse_extractions(lines: Sequence[str]) -> tuple[Extraction, ...]:
    """Raises OptionsError naming the line and what is wrong with it."""
    if len(lines) > MAX_EXTRACTIONS:
        raise OptionsError(f"extract: {len(lines)} lines are more than {MAX_EXTRACTIONS}")
    found: list[Extraction] = []
    for number, line in enumerate(lines, 1):
        try:
            one = _parse_line(line)
        except OptionsError as error:
            raise OptionsError(f"extract: line {number}, {line[:120]!r}: {error}") from None
        if any(one.name == other.name for other in found):
            raise OptionsError(f"extract: line {number}: {one.name} is defined twice")
        found.append(one)
    return tuple(found)


def try_extractions(
    sample: str, lines: Sequence[str], file: str = "stdout", seconds: float = 5.0
) -> list[ExtractionOutcome]:
    """Outcomes of all lines on `sample`, were it the program's `file`. Raises nothing; `seconds` bounds each regex."""
    texts = {file: decode_output(sample.encode())}
    tried: list[ExtractionOutcome] = []
    for number, line in enumerate(lines, 1):
        earlier = {row.name for row in tried if row.extraction != line}
        tried += try_line(number, line, texts, seconds, earlier)
    return tried


def try_line(
    number: int, line: str, texts: Mapping[str, str], seconds: float, earlier: Container[str]
) -> list[ExtractionOutcome]:
    """Outcome of one line; `earlier` has the names that other lines define. Raises nothing."""
    try:
        one = parse_extractions([line])[0]
        if one.name in earlier:
            raise OptionsError(f"extract: line {number}: {one.name} is defined twice")
        if one.file not in texts:
            return [
                ExtractionOutcome(line, one.name, trouble=f"reads {one.file}, which is missing")
            ]
        return [_outcome(line, metric) for metric in _line_metrics(one, texts, seconds)]
    except ParseError as error:
        name = line.partition(" ")[0]
        return [
            ExtractionOutcome(line, name, line=error.line, trouble=str(error), line_text=error.text)
        ]
    except AgentError as error:
        reason = str(error).removeprefix("extract: line 1, ").removeprefix(f"{line[:120]!r}: ")
        return [ExtractionOutcome(line, trouble=reason)]


def decode_output(raw: bytes) -> str:
    """Whatever a program printed; a byte that is no UTF-8 harms nothing but itself."""
    return raw.decode("utf-8", "replace").replace("\r\n", "\n")


def _outcome(line: str, metric: Metric) -> ExtractionOutcome:
    labels = " ".join(metric.labels.values())
    return ExtractionOutcome(
        line, metric.name, metric.value, metric.unit.value, metric.line, metric.note, labels
    )


def _parse_line(line: str) -> Extraction:
    match = LINE.fullmatch(line.replace("\t", " ").strip())
    if match is None:
        raise OptionsError(f"write it as {FORM}")
    if not NAME.fullmatch(match["name"]):
        raise OptionsError(
            f"{match['name']!r} is not a valid name: lower-case letters, digits and _, with dots"
        )
    which = match["which"] or ""
    if which not in WHICH:
        raise OptionsError(f"{which!r} is none of {', '.join(WHICH[1:])}")
    locate.check_pattern(match["way"], match["pattern"])
    return Extraction(
        name=match["name"],
        unit=_parse_unit(match["unit"].strip()),
        factor=_parse_factor(match["factor"] or "1"),
        file=match["file"] or "stdout",
        way=match["way"],
        which=which,
        pattern=match["pattern"],
    )


def _parse_unit(said: str) -> Unit:
    try:
        return Unit(said)
    except ValueError:
        known = ", ".join(unit.value for unit in Unit)
        raise OptionsError(
            f"unit {said!r} is none of {known}; milliseconds are [s] x 0.001, KiB/s are [B/s] x 1024"
        ) from None


def _parse_factor(said: str) -> float:
    if not FACTOR.fullmatch(said) or not 0 < float(said) < math.inf:
        raise OptionsError(f"factor {said!r} is not a positive number: 1024, 0.001, 1e-6")
    return float(said)


def _line_metrics(one: Extraction, texts: Mapping[str, str], seconds: float) -> list[Metric]:
    said = texts[one.file]
    if not said.strip():
        raise ParseError(f"{one.name}: {one.file} is empty")
    try:
        found = locate.locate_values(one.way, one.pattern, said, one.which, seconds)
    except locate.ValueNotFound as missed:
        raise ParseError(
            f"{one.name}: {one.file}: {missed}", missed.line, missed.line_text
        ) from None
    if one.which == "sum":
        return [_sum(one, found)]
    labels = [{"number": str(n)} for n, _ in enumerate(found, 1)] if one.which == "each" else [{}]
    return [_metric(one, value, label) for value, label in zip(found, labels, strict=True)]


def _metric(one: Extraction, found: Value, labels: Mapping[str, str]) -> Metric:
    value = _parse_number(one, found)
    note = "" if value is not None else f"printed as {found.text[:40]}"
    scaled = None if value is None else value * one.factor
    if scaled is not None and not math.isfinite(scaled):
        raise ParseError(
            f"{one.name}: {found.text[:40]!r} is too large", found.line, found.line_text
        )
    return Metric(one.name, scaled, one.unit, labels, note, found.line, one.file)


def _sum(one: Extraction, found: Sequence[Value]) -> Metric:
    parts = [_metric(one, value, {}) for value in found]
    known = [part.value for part in parts if part.value is not None]
    if len(known) < len(parts):
        # A sum without its unknown parts would be a wrong number.
        total, note = None, "a part is not available"
    else:
        total, note = math.fsum(known), f"sum of {len(known)}"
    return Metric(one.name, total, one.unit, note=note, line=found[0].line, output=one.file)


def _parse_number(one: Extraction, found: Value) -> float | None:
    said = found.text.strip()
    if UNKNOWN.fullmatch(said):
        return None
    if not NUMBER.fullmatch(said):
        cure = (
            "keep commas and units out of the group in the pattern"
            if any(c.isdigit() for c in said)
            else "correct the pattern"
        )
        raise ParseError(
            f"{one.name}: {said[:40]!r} is not a number; {cure}", found.line, found.line_text
        )
    value = float(said)
    if not math.isfinite(value):
        raise ParseError(f"{one.name}: {said[:40]!r} is too large", found.line, found.line_text)
    return value
