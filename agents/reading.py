"""Every result in a text, by every reader; and what none of them knows. Pure.

Two readers may see the same lines (fio's disk table looks like iostat's): the one that covers more of them has them.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents import registry
from agents.found import Found, Reading, Unread

SHOWN = 120  # characters of an unread line


def read(text: str, name: str = "") -> Reading:
    """`name`: the file's, which tells fio's logs apart. Line numbers are those of `text`, from 1."""
    lines = text.split("\n")
    plain = text.replace("\xa0", " ")  # as web pages have it; readers know it themselves
    readers = [
        reader
        for reader in registry.all_readers().values()
        if any(word in plain for word in reader.WORDS)
    ]
    seen = [one for reader in readers for one in reader.find(text, name)]
    found = sorted(_apart(seen), key=lambda one: one.first)
    return Reading(tuple(found), tuple(_unread(lines, found)))


def _apart(seen: Iterable[Found]) -> list[Found]:
    """Without overlaps: a readable one wins over one in trouble, then the longer one."""
    kept: list[Found] = []
    for one in sorted(seen, key=lambda one: (bool(one.trouble), one.first - one.last, one.first)):
        if all(one.last < other.first or other.last < one.first for other in kept):
            kept.append(one)
    return kept


def _unread(lines: list[str], found: list[Found]) -> Iterable[Unread]:
    """Runs of lines that belong to no result and are not empty; an empty line does not end one."""
    parts = {part for one in found for part in ((one.first, one.last), *one.also)}
    behind = 0  # the last line that was seen to
    for first, last in sorted(parts):
        yield from _told(lines, behind + 1, first - 1)
        behind = max(behind, last)
    yield from _told(lines, behind + 1, len(lines))


def _told(lines: list[str], begin: int, end: int) -> Iterable[Unread]:
    """Those lines without the empty ones at both ends, unless there are no others."""
    said = [number for number in range(begin, end + 1) if lines[number - 1].strip()]
    if said:
        yield Unread(said[0], said[-1], lines[said[0] - 1].strip()[:SHOWN])
