# SPDX-License-Identifier: Apache-2.0
"""Every result in a text, by every reader, and the lines that neither they nor the readers of facts can read. Pure.

Two readers may claim the same lines (fio's disk table looks like iostat's): the one that covers more lines gets them.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence, Set

from agents.context.reading import fact_lines
from agents.drivers import registry
from agents.drivers.protocols import Reader
from agents.texts.parsed_result import LineIndex, ParsedResult, Reading, UnreadLines

# characters of an unread line
MAX_UNREAD_LINE_CHARACTERS = 120
# characters between two results in which facts of the machine are looked for
MAX_FACT_CHARACTERS = 1 << 20


def read_text(text: str, name: str = "") -> Reading:
    """Read a text; the file's `name` distinguishes fio's logs. Line numbers are those of `text`, from 1."""
    if reading := _whole_text_result(text, name):
        return Reading((reading,), ())
    # as web pages have it; readers know it themselves
    plain = text.replace("\xa0", " ")
    readers = [reader for reader in registry.all_readers().values() if may_hold(plain, reader)]
    readings = [reading for reader in readers for reading in reader.find_results(text, name)]
    separate_readings = _without_overlaps(readings)
    return Reading(tuple(separate_readings), tuple(_unread(text, separate_readings)))


def _whole_text_result(text: str, name: str) -> ParsedResult | None:
    """The result that fills the whole text, if one reader recognizes its beginning; no other need look at it."""
    for reader in registry.opening_readers():
        if reader.START_PATTERN.match(text):
            readings = reader.find_results(text, name)
            if len(readings) == 1 and not readings[0].trouble and not any(_unread(text, readings)):
                return readings[0]
    return None


def may_hold(text: str, reader: Reader) -> bool:
    """True if the text has any of the reader's keywords: most readers need not split it into lines."""
    return any(
        word in text if isinstance(word, str) else word.search(text) for word in reader.KEYWORDS
    )


def _without_overlaps(readings: Iterable[ParsedResult]) -> list[ParsedResult]:
    """The results in order, without overlaps: a readable one wins over an unreadable one, then the longer one."""
    separate: list[ParsedResult] = []
    for reading in sorted(
        readings,
        key=lambda reading: (bool(reading.trouble), reading.first - reading.last, reading.first),
    ):
        at = bisect.bisect(separate, _place(reading), key=_place)
        # They are in order, so only those beside it can have a line of it.
        if all(_are_separate(reading, other) for other in separate[max(at - 2, 0) : at + 2]):
            separate.insert(at, reading)
    return separate


def _place(reading: ParsedResult) -> tuple[int, int]:
    return reading.first, reading.last


def _are_separate(reading: ParsedResult, other: ParsedResult) -> bool:
    """True without a line in common, but for the one in which a document ends and the next begins: `}{`."""
    first, second = sorted((reading, other), key=_place)
    if first.kind == second.kind and first.first < first.last < second.last:
        return first.last <= second.first
    return first.last < second.first


def _unread(text: str, readings: list[ParsedResult]) -> Iterable[UnreadLines]:
    """Runs of non-empty lines that belong to no result; an empty line does not end a run."""
    parts = {
        part for reading in readings for part in ((reading.first, reading.last), *reading.also)
    }
    # the last line that was seen to
    places, behind = LineIndex(text), 0
    for first, last in sorted(parts):
        if first > behind + 1:
            yield from _unread_lines(text, places, behind + 1, first)
        behind = max(behind, last)
    yield from _unread_lines(text, places, behind + 1, None)


def _unread_lines(
    text: str, places: LineIndex, begin: int, end: int | None
) -> Iterable[UnreadLines]:
    """The lines before `end` without the empty ones at both ends, unless there are no others."""
    start = places.line_start(begin)
    passage = text[start : None if end is None else places.line_start(end)]
    if not passage.strip():
        return
    above = begin + passage.count("\n", 0, len(passage) - len(passage.lstrip()))
    passage = passage.strip()
    facts = fact_lines(passage) if len(passage) <= MAX_FACT_CHARACTERS else set()
    lines = passage.split("\n")
    unread = [at for at, line in enumerate(lines, 1) if line.strip() and at not in facts]
    for run in _runs(unread, facts) if facts else [(1, len(lines))]:
        first, last = run
        start_text = lines[first - 1].strip()[:MAX_UNREAD_LINE_CHARACTERS]
        yield UnreadLines(above + first - 1, above + last - 1, start_text)


def _runs(unread: Sequence[int], facts: Set[int]) -> Iterable[tuple[int, int]]:
    """First and last line of each run of unread ones; a line with facts ends a run, an empty one does not."""
    begin = previous = 0
    for number in unread:
        if begin and facts.isdisjoint(range(previous + 1, number)):
            previous = number
            continue
        if begin:
            yield begin, previous
        begin = previous = number
    if begin:
        yield begin, previous
