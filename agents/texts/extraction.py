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
    extractions: list[Extraction] = []
    for number, line in enumerate(lines, 1):
        try:
            extraction = _parse_line(line)
        except OptionsError as error:
            raise OptionsError(f"extract: line {number}, {line[:120]!r}: {error}") from None
        if any(extraction.name == other.name for other in extractions):
            raise OptionsError(f"extract: line {number}: {extraction.name} is defined twice")
        extractions.append(extraction)
    return tuple(extractions)


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
        extraction = parse_extractions([line])[0]
        if extraction.name in earlier:
            raise OptionsError(f"extract: line {number}: {extraction.name} is defined twice")
        if extraction.file not in texts:
            return [
                ExtractionOutcome(
                    line, extraction.name, trouble=f"reads {extraction.file}, which is missing"
                )
            ]
        return [_outcome(line, metric) for metric in _line_metrics(extraction, texts, seconds)]
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


def _parse_unit(name: str) -> Unit:
    try:
        return Unit(name)
    except ValueError:
        names = ", ".join(unit.value for unit in Unit)
        raise OptionsError(
            f"unit {name!r} is none of {names}; milliseconds are [s] x 0.001, KiB/s are [B/s] x 1024"
        ) from None


def _parse_factor(digits: str) -> float:
    if not FACTOR.fullmatch(digits) or not 0 < float(digits) < math.inf:
        raise OptionsError(f"factor {digits!r} is not a positive number: 1024, 0.001, 1e-6")
    return float(digits)


def _line_metrics(extraction: Extraction, texts: Mapping[str, str], seconds: float) -> list[Metric]:
    content = texts[extraction.file]
    if not content.strip():
        raise ParseError(f"{extraction.name}: {extraction.file} is empty")
    try:
        values = locate.locate_values(
            extraction.way, extraction.pattern, content, extraction.which, seconds
        )
    except locate.ValueNotFound as missed:
        raise ParseError(
            f"{extraction.name}: {extraction.file}: {missed}", missed.line, missed.line_text
        ) from None
    if extraction.which == "sum":
        return [_sum(extraction, values)]
    labels = (
        [{"number": str(n)} for n, _ in enumerate(values, 1)]
        if extraction.which == "each"
        else [{}]
    )
    return [_metric(extraction, value, label) for value, label in zip(values, labels, strict=True)]


def _metric(extraction: Extraction, located: Value, labels: Mapping[str, str]) -> Metric:
    value = _parse_number(extraction, located)
    note = "" if value is not None else f"printed as {located.text[:40]}"
    scaled = None if value is None else value * extraction.factor
    if scaled is not None and not math.isfinite(scaled):
        raise ParseError(
            f"{extraction.name}: {located.text[:40]!r} is too large",
            located.line,
            located.line_text,
        )
    return Metric(
        extraction.name, scaled, extraction.unit, labels, note, located.line, extraction.file
    )


def _sum(extraction: Extraction, values: Sequence[Value]) -> Metric:
    parts = [_metric(extraction, value, {}) for value in values]
    numbers = [part.value for part in parts if part.value is not None]
    if len(numbers) < len(parts):
        # A sum without its unknown parts would be a wrong number.
        total, note = None, "a part is not available"
    else:
        total, note = math.fsum(numbers), f"sum of {len(numbers)}"
    return Metric(
        extraction.name,
        total,
        extraction.unit,
        note=note,
        line=values[0].line,
        output=extraction.file,
    )


def _parse_number(extraction: Extraction, located: Value) -> float | None:
    digits = located.text.strip()
    if UNKNOWN.fullmatch(digits):
        return None
    if not NUMBER.fullmatch(digits):
        cure = (
            "keep commas and units out of the group in the pattern"
            if any(c.isdigit() for c in digits)
            else "correct the pattern"
        )
        raise ParseError(
            f"{extraction.name}: {digits[:40]!r} is not a number; {cure}",
            located.line,
            located.line_text,
        )
    value = float(digits)
    if not math.isfinite(value):
        raise ParseError(
            f"{extraction.name}: {digits[:40]!r} is too large", located.line, located.line_text
        )
    return value
