"""On which line of a JSON text each value stands, for texts small enough to look. Pure, linear, never raises.

Paths are written as in error messages: "jobs[0].read.clat_ns.mean". The text must be valid JSON: this only counts.
"""

from __future__ import annotations

import re

LARGEST = 1 << 19  # bytes: about a quarter of a second
# A histogram is most of a document, and nobody asks for the line of a bin: it is passed over in one step.
_BINS = r'"(bins)"\s*:\s*\{[^{}\[\]]*\}|'
_STRING = r'"((?:[^"\\\n]|\\.)*)"'
# As a pretty printer has nearly all members: with a plain value, and to the end of the line.
_MEMBER = rf'{_STRING}[ \t]*:[ \t]*(?:[-+.\w]+|"[^"\\\n]*"),?\n|'
_TOKEN = re.compile(rf"{_BINS}{_MEMBER}{_STRING}(\s*:)?|[{{}}\[\],\n]")


def lines(text: str, skip: frozenset[str] = frozenset({"bins"})) -> dict[str, int]:
    """Line (from 1) by path, of members and array items. Members of objects named in `skip` have none."""
    found: dict[str, int] = {}
    places: list[_Place] = []
    path, line = "", 1
    for token in _TOKEN.finditer(text):
        mark = token[0][0]
        if mark == "\n":
            line += 1
        elif token[1]:
            path = f"{places[-1].path}.bins" if places and places[-1].path else "bins"
            found.setdefault(path, line)
            line += token[0].count("\n")
        elif mark == '"':
            member, key, colon = token.group(2, 3, 4)
            key = key if member is None else member
            if (colon or member is not None) and places and not places[-1].skipped:
                path = f"{places[-1].path}.{key}" if places[-1].path else key
                found.setdefault(path, line)
            line += 1 if member is not None else colon.count("\n") if colon else 0
        elif mark in "{[":
            path = _item(places, path, line, found)
            places.append(_Place(path, mark == "[", path.rpartition(".")[2] in skip))
        elif mark in "}]" and places:
            places.pop()
        elif mark == "," and places:
            places[-1].index += 1
    return found


class _Place:
    __slots__ = ("index", "listed", "path", "skipped")

    def __init__(self, path: str, listed: bool, skipped: bool) -> None:
        self.path, self.listed, self.skipped, self.index = path, listed, skipped, 0


def _item(places: list[_Place], path: str, line: int, found: dict[str, int]) -> str:
    """The path of an object or array that begins here: that of its key, or its place in the array around it."""
    if not places:
        return ""
    if places[-1].listed:
        path = f"{places[-1].path}[{places[-1].index}]"
        found.setdefault(path, line)
    return path
