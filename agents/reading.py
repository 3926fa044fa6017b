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
    seen = [one for reader in registry.all_readers().values() for one in reader.find(text, name)]
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
    covered = {number for first, last in parts for number in range(first, last + 1)}
    first = last = 0
    for number, line in enumerate(lines, start=1):
        if number in covered:
            if first:
                yield Unread(first, last, lines[first - 1].strip()[:SHOWN])
            first = 0
        elif line.strip():
            first, last = first or number, number
    if first:
        yield Unread(first, last, lines[first - 1].strip()[:SHOWN])
