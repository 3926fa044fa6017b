# SPDX-License-Identifier: Apache-2.0
"""Matches of a regex or a JSONPath in a text: the words, and their lines. Pure, and bounded in time.

`regex` can be stopped, which `re` cannot: a pattern that backtracks for ever ends as an error. A JSONPath may have one
step that searches (`..` or a filter), no functions and no lists of selectors: then its cost is bounded by the document.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import regex
from jsonpath import JSONPathEnvironment, JSONPathError

from agents.contracts import OptionsError

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
