# SPDX-License-Identifier: Apache-2.0
"""Figures that a person takes out of the output of any program: one line for each, as regex or JSONPath. Pure.

    NAME [UNIT] [x FACTOR] = [FILE] regex|json [first|last|sum|each]: PATTERN

    iops [op/s] = regex: IOPS=([0-9.]+)
    read.bandwidth [B/s] x 1024 = json: $.jobs[0].read.bw
    lat.p99 [s] x 0.000001 = out.json json: $.latency["99.0"]
    device.writes [1] = stderr regex sum: wrote ([0-9]+) blocks

The first group of a regex is the number; `^` and `$` are the ends of a line. It must match exactly once, unless
`first`, `last`, `sum` or `each` is said. FILE is stdout unless named.

`regex` can be stopped, which `re` cannot: a pattern that backtracks for ever ends as an error. A JSONPath may have one
step that searches (`..` or a filter), no functions and no lists of selectors: then its cost is bounded by the document.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import regex
from jsonpath import JSONPathEnvironment, JSONPathError

from agents.contracts import AgentError, Metric, OptionsError, ParseError, Unit

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
    check_pattern(match["way"], match["pattern"])
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
        values = locate_values(
            extraction.way, extraction.pattern, content, extraction.which, seconds
        )
    except ValueNotFound as missed:
        raise ParseError(
            f"{extraction.name}: {extraction.file}: {missed}", missed.line, missed.line_text
        ) from None
    if extraction.which == "sum":
        return [_sum(extraction, values)]
    each = extraction.which == "each"
    return [
        _metric(extraction, value, {"number": str(number)} if each else {})
        for number, value in enumerate(values, 1)
    ]


def _metric(extraction: Extraction, located: Value, labels: Mapping[str, str]) -> Metric:
    value = _parse_number(extraction, located)
    note = "" if value is not None else f"printed as {located.text[:40]}"
    scaled = None if value is None else value * extraction.factor
    if scaled is not None and not math.isfinite(scaled):
        raise _not_a_figure(extraction, located, "is too large")
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
        cure = "correct the pattern"
        if any(c.isdigit() for c in digits):
            cure = "keep commas and units out of the group in the pattern"
        raise _not_a_figure(extraction, located, f"is not a number; {cure}")
    value = float(digits)
    if not math.isfinite(value):
        raise _not_a_figure(extraction, located, "is too large")
    return value


def _not_a_figure(extraction: Extraction, located: Value, why: str) -> ParseError:
    message = f"{extraction.name}: {located.text.strip()[:40]!r} {why}"
    return ParseError(message, located.line, located.line_text)


# values of one extraction
MAX_VALUES = 1000
# characters a second that any fair pattern reads
MIN_CHARACTERS_PER_SECOND = 10e6
# characters that may be read again to tell lines
MAX_RESCANNED_CHARACTERS = 50_000_000
QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
SPACE = re.compile(r"[ \t\r\n]*")
BEFORE = re.compile(r"[0-9][.,]?$|(?:^|[^A-Za-z0-9_])-$")
INSIDE = re.compile(r"[.,]?[0-9]")
# A unit that the pattern does not mention: 12.3k, 4.37 k iops, 17.1 MiB/s, 228.7 us, 5 %
BEYOND = re.compile(r"[^\W\d_]|%| (?:[kKMGTPE](?:i?[bB]|[ /]|i?o|$)|[mnuµ]s|min|%)")

_paths = JSONPathEnvironment(strict=True)
# match() would run a pattern that nothing stops
_paths.function_extensions.clear()
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Value:
    """Value as it stood in the text; `line` from 1, or 0 when it cannot be told; `shown` is that line."""

    text: str
    line: int
    line_text: str = ""


class ValueNotFound(Exception):
    """No value, or none that is certain; with the line of the text (0: the whole) and what stands there."""

    def __init__(self, message: str, line: int = 0, line_text: str = "") -> None:
        super().__init__(message)
        self.line, self.line_text = line, line_text


def check_pattern(way: str, pattern: str) -> None:
    """Raises OptionsError saying what is wrong with the pattern."""
    if way == "json":
        _check_path(pattern)
        return
    try:
        compiled = regex.compile(pattern, regex.MULTILINE)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise OptionsError(f"invalid regex: {error}") from None
    if compiled.groups < 1:
        raise OptionsError("the regex has no group: put the number into parentheses, ([0-9.]+)")


def locate_values(way: str, pattern: str, text: str, which: str, seconds: float) -> list[Value]:
    """One value, or all for sum and each. Raises Missed saying how many there are instead, and where."""
    by_path = way == "json"
    values = _by_path(pattern, text, which) if by_path else _by_regex(pattern, text, which, seconds)
    if not values:
        raise ValueNotFound("matches nowhere")
    if which in ("sum", "each") or len(values) == 1:
        return values
    lines = ", ".join(str(value.line) for value in values)
    many = "twice" if len(values) == 2 else "three times or more"
    message = f"matches {many} (lines {lines}): say first, last, sum or each"
    raise ValueNotFound(message, values[1].line, values[1].line_text)


def _by_regex(pattern: str, text: str, which: str, seconds: float) -> list[Value]:
    limit = seconds + len(text) / MIN_CHARACTERS_PER_SECOND
    try:
        matches = regex.finditer(pattern, text, regex.MULTILINE, timeout=limit)
        return _values_at(text, _select_matches(matches, which))
    except TimeoutError:
        raise ValueNotFound(
            f"the regex takes more than {limit:.0f} s: begin it with ^ or a word"
        ) from None


def _select_matches(matches: Iterator[Any], which: str) -> Sequence[Any]:
    if which == "first":
        return list(islice(matches, 1))
    if which == "last":
        return list(deque(matches, maxlen=1))
    selected = list(islice(matches, MAX_VALUES + 1 if which else 3))
    if len(selected) > MAX_VALUES:
        raise ValueNotFound(f"matches more than {MAX_VALUES} times")
    return selected


def _values_at(text: str, matches: Sequence[Any]) -> list[Value]:
    values: list[Value] = []
    line, counted_to = 1, 0
    for match in matches:
        at = max(match.start(1), match.start())
        # a group in a look-behind may stand before the match that came last
        line, counted_to = (line, counted_to) if at >= counted_to else (1, 0)
        line, counted_to = line + text.count("\n", counted_to, at), at
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        line_text = text[start : min(end if end >= 0 else len(text), start + 200)]
        if message := _partial_figure(text, match):
            raise ValueNotFound(message, line, line_text)
        values.append(Value(match[1], line, line_text))
    return values


def _partial_figure(text: str, match: Any) -> str:
    """Words for a group with only a piece of a figure: 12.3 of 12.3k, the last digit of 1234; "" for a whole one."""
    if match[1] is None:
        return "matches, but its first group is not part of it"
    start, end = match.span(1)
    before, after = text[max(start - 2, 0) : start], text[end : end + 6].split("\n")[0]
    if BEFORE.search(before):
        return f"{match[1][:40]!r} is only the end of a figure: {before!r} stands before it"
    if INSIDE.match(after) or (end == match.end() and BEYOND.match(after)):
        return f"{match[1][:40]!r} is followed by {after!r}: say in the pattern what comes after the number"
    return ""


def _check_path(path: str) -> None:
    try:
        _paths.compile(path)
    except (JSONPathError, RecursionError) as error:
        raise OptionsError(f"invalid JSONPath: {str(error).splitlines()[0]}") from None
    plain = QUOTED.sub("", path)
    if plain.count("..") + plain.count("?") > 1:
        raise OptionsError("a JSONPath may search (.. or [?…]) once only")
    if "," in plain:
        raise OptionsError("a JSONPath with a list of names: write one line for each")


def _by_path(path: str, text: str, which: str) -> list[Value]:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueNotFound(f"is not JSON: {error.msg}", error.lineno) from None
    try:
        matches = _select_matches(iter(_paths.finditer(path, data)), which)
    except (JSONPathError, RecursionError) as error:
        raise ValueNotFound(f"the JSONPath fails: {str(error).splitlines()[0]}") from None
    tells_lines = len(matches) * len(text) <= MAX_RESCANNED_CHARACTERS
    return [_json_value(match, text, tells_lines) for match in matches]


def _json_value(match: Any, text: str, tells_line: bool) -> Value:
    at = _value_offset(text, match.parts) if tells_line else -1
    line = text.count("\n", 0, at) + 1 if at >= 0 else 0
    value = match.value
    if isinstance(value, bool) or not (value is None or isinstance(value, int | float | str)):
        kind = {bool: "true or false", dict: "an object", list: "a list"}[type(value)]
        raise ValueNotFound(f"{match.path} is {kind}, no number", line)
    return Value("null" if value is None else str(value), line, str(match.path)[:200])


def _value_offset(text: str, parts: Sequence[int | str]) -> int:
    """Start of the value at `parts`; -1 when it cannot be told."""
    try:
        at = _skip(text, 0)
        for part in parts:
            at = (
                _object_member(text, at, part)
                if isinstance(part, str)
                else _list_item(text, at, part)
            )
        return at
    except (ValueError, IndexError, RecursionError, StopIteration):
        return -1


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _object_member(text: str, at: int, name: str) -> int:
    """Behind the last `"name":` of the object that begins at `at`: of several alike, the last one counts."""
    value_start = -1
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        value_start = at if key == name else value_start
        at = _next_value(text, at)
    if value_start < 0:
        raise ValueError(name)
    return value_start


def _list_item(text: str, at: int, index: int) -> int:
    at = _skip(text, at + 1)
    for _ in range(index):
        at = _next_value(text, at)
    return at


def _next_value(text: str, at: int) -> int:
    """Behind the value that begins at `at`, and behind its comma."""
    at = _skip(text, _decoder.raw_decode(text, at)[1])
    return _skip(text, at + 1) if text[at] == "," else at
