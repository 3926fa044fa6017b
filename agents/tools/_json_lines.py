"""On which line of a JSON text each value stands, for texts small enough to look. Pure, linear, never raises.

Paths are written as in error messages: "jobs[0].read.clat_ns.mean". The text must be valid JSON: this only counts.
"""

from __future__ import annotations

import re

LARGEST = 1 << 19  # bytes: about a quarter of a second
# A histogram is most of a document, and nobody asks for the line of a bin: it is passed over in one step.
_BINS = r'"(bins)"\s*:\s*\{[^{}\[\]]*\}|'
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'  # nearly none has a backslash
# As a pretty printer has nearly all members: with a plain value, and to the end of the line.
_MEMBER = rf'{_STRING}[ \t]*:[ \t]*(?:[-+.\w]+|"[^"\\\n]*"),?\n|'
# With the blanks before it: a search that begins at each of them would be most of the work.
_TOKEN = re.compile(rf"[ \t]*(?:{_BINS}{_MEMBER}{_STRING}(\s*:)?|([{{}}\[\],\n]))")
BINS, MEMBER, STRING, COLON, MARK = range(1, 6)  # groups of that


def lines(text: str, skip: frozenset[str] = frozenset({"bins"})) -> dict[str, int]:
    """Line (from 1) by path, of members and array items. Members of objects named in `skip` have none."""
    found: dict[str, int] = {}
    note = found.setdefault  # of a key that is there twice the first one counts
    places: list[_Place] = []
    place: _Place | None = None  # the last of them
    path, line = "", 1
    for token in _TOKEN.finditer(text):
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
                path = _item(place, path, line, found)
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
    return found


class _Place:
    __slots__ = ("before", "index", "listed", "path", "skipped")

    def __init__(self, path: str, listed: bool, skipped: bool) -> None:
        self.path, self.listed, self.skipped, self.index = path, listed, skipped, 0
        self.before = f"{path}." if path else ""  # stands before the keys of its members


def _item(place: _Place | None, path: str, line: int, found: dict[str, int]) -> str:
    """The path of an object or array that begins here: that of its key, or its place in the array around it."""
    if place is None:
        return ""
    if place.listed:
        path = f"{place.path}[{place.index}]"
        found.setdefault(path, line)
    return path
