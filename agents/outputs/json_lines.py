# SPDX-License-Identifier: Apache-2.0
"""Line of each value in a JSON text that is small enough. Pure, linear, never raises.

Paths are written as in error messages: "jobs[0].read.clat_ns.mean". The text must be valid JSON: this only counts.
`along` needs what the text says, and is faster than `lines`, which reads it anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from agents.contracts import NOTHING

# bytes: about a quarter of a second
LARGEST = 1 << 19
# objects in each other that `along` follows; fio's are five
DEEPEST = 20
# A histogram is most of a document, and nobody asks for the line of a bin: it is passed over in one step.
_BINS = r'"(bins)"\s*:\s*\{[^{}\[\]]*\}|'
# nearly none has a backslash
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
# As a pretty printer has nearly all members: with a plain value, and to the end of the line.
_MEMBER = rf'{_STRING}[ \t]*:[ \t]*(?:[-+.\w]+|"[^"\\\n]*"),?\n|'
BINS_ALONE = frozenset({"bins"})
Some = Mapping[str, Callable[[tuple[str, ...]], Iterable[str]]]
# for who wants them: that group never matches
_NO_BINS = "(?!)(bins)|"
# With the blanks before it: a search that begins at each of them would be most of the work.
_TOKEN, _TOKEN_OF_ALL = (
    re.compile(rf"[ \t]*(?:{bins}{_MEMBER}{_STRING}(\s*:)?|([{{}}\[\],\n]))")
    for bins in (_BINS, _NO_BINS)
)
# groups of that
BINS, MEMBER, STRING, COLON, MARK = range(1, 6)


def lines_by_path(text: str, skip: frozenset[str] = BINS_ALONE) -> dict[str, int]:
    """Line (from 1) by path, of members and array items. Members of objects named in `skip` have none."""
    lines: dict[str, int] = {}
    # of a key that is there twice the first one counts
    note = lines.setdefault
    places: list[_Place] = []
    # the last of them
    place: _Place | None = None
    path, line = "", 1
    tokens = _TOKEN if "bins" in skip else _TOKEN_OF_ALL
    for token in tokens.finditer(text):
        last = token.lastindex
        if last == MEMBER:
            if place is not None and not place.skipped:
                path = place.before + token[MEMBER]
                note(path, line)
            line += 1
        elif last == MARK:
            mark = token[MARK]
            if mark == "\n":
                line += 1
            elif mark == ",":
                if place is not None:
                    place.index += 1
            elif mark in "{[":
                path = _item(place, path, line, lines)
                place = _Place(path, mark == "[", path.rpartition(".")[2] in skip)
                places.append(place)
            elif places:
                places.pop()
                place = places[-1] if places else None
        elif last == BINS:
            path = place.before + "bins" if place is not None else "bins"
            note(path, line)
            line += token[0].count("\n")
        elif last == COLON:
            if place is not None and not place.skipped:
                path = place.before + token[STRING]
                note(path, line)
            line += token[COLON].count("\n")
    return lines


class _Place:
    __slots__ = ("before", "index", "listed", "path", "skipped")

    def __init__(self, path: str, listed: bool, skipped: bool) -> None:
        self.path, self.listed, self.skipped, self.index = path, listed, skipped, 0
        # stands before the keys of its members
        self.before = f"{path}." if path else ""


def along(
    text: str,
    document: Mapping[str, object],
    skip: frozenset[str] = BINS_ALONE,
    some: Some = NOTHING,
) -> dict[str, int] | None:
    """The same of the object that begins with the text's first brace and says what is given, every key of it once.

    None where it is not laid out as fio does it: `lines` then. Objects named in `skip` hold numbers and nothing else,
    and so do those in `some`, of which only the members have a line that its function picks.
    """
    start = text.find("{")
    # what looks like a string's end may then be in it
    if start < 0 or "\\" in text:
        return None
    walk = _Walk(text, start, skip, some)
    try:
        walk.walk_members(document, "", 0)
    except _Astray:
        return None
    return walk.found


class _Astray(Exception):
    """Text that goes on otherwise than the object says."""


class _Walk:
    """Goes through the text from key to key: behind a number, and behind a string that is passed over, the next quote
    is a key's. `at` is the bracket of an object or array that begins.
    """

    __slots__ = ("at", "found", "line", "skip", "some", "text")

    def __init__(self, text: str, start: int, skip: frozenset[str], some: Some) -> None:
        self.skip, self.some = skip, some
        self.text, self.at, self.line = text, start, 1 + text.count("\n", 0, start)
        self.found: dict[str, int] = {}

    def walk_members(self, members: Mapping[str, object], path: str, depth: int) -> None:
        if depth > DEEPEST:
            raise _Astray
        text, at, line, note = self.text, self.at + 1, self.line, self.found.setdefault
        before = f"{path}." if path else ""
        for key, value in members.items():
            place = text.find('"', at)
            if not text.startswith(key + '" : ', place + 1):
                raise _Astray
            line += text.count("\n", at, place)
            within = before + key
            note(within, line)
            at = place + len(key) + 5
            if isinstance(value, str):
                at += len(value) + 2
            elif isinstance(value, dict | list):
                self.at, self.line = at, line
                self.walk_value(value, within, key, depth + 1)
                at, line = self.at, self.line
        self.at, self.line = at, line

    def walk_value(self, value: object, path: str, key: str, depth: int) -> None:
        if isinstance(value, list):
            self.items(value, path, depth)
        elif not isinstance(value, dict):
            raise _Astray
        elif key in self.skip:
            self.to("}")
        elif key in self.some:
            self.picked(self.some[key](tuple(value)), path)
        else:
            self.walk_members(value, path, depth)

    def picked(self, keys: Iterable[str], path: str) -> None:
        for key in keys:
            self.to(f'"{key}" : ')
            self.found.setdefault(f"{path}.{key}", self.line)
        self.to("}")

    def items(self, values: list[object], path: str, depth: int) -> None:
        if depth > DEEPEST:
            raise _Astray
        self.at += 1
        for index, value in enumerate(values):
            if isinstance(value, str):
                self.to('"')
                self.at += len(value) + 2
            elif isinstance(value, dict | list):
                self.to("{" if isinstance(value, dict) else "[")
                within = f"{path}[{index}]"
                self.found.setdefault(within, self.line)
                self.walk_value(value, within, "", depth + 1)

    def to(self, character: str) -> None:
        at = self.text.find(character, self.at)
        if at < 0:
            raise _Astray
        self.line += self.text.count("\n", self.at, at)
        self.at = at


def _item(place: _Place | None, path: str, line: int, lines: dict[str, int]) -> str:
    """The path of an object or array that begins here: that of its key, or its place in the array around it."""
    if place is None:
        return ""
    if place.listed:
        path = f"{place.path}[{place.index}]"
        lines.setdefault(path, line)
    return path
