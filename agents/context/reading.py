# SPDX-License-Identifier: Apache-2.0
"""All facts of a pasted text: each line goes to the readers that know what it begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from agents.context import (
    arrays,
    disks,
    filesystems,
    health,
    links,
    lvm,
    machine,
    prose,
    virtual,
    volumes,
    zfs,
)
from agents.context.lines import (
    MAX_LINE_CHARACTERS,
    Chapter,
    Command,
    Passage,
    Reader,
    parse_command,
)
from agents.context.model import Fact, Facts, Value

# Lines around those that give facts: of /proc/mdstat, zpool status, tables of ZFS, smartctl, free, filefrag
FRAME = re.compile(
    r"Personalities : .*|unused devices:(?: <none>)?|errors: No known data errors|[\s-]*-{5,}[\s-]*|=== START OF .* ==="
    r"|\s+total\s+used\s+free\b.*|Filesystem type is: \w+"
)
# marks of a quotation in a mail or a forum
QUOTE = re.compile(r"^(?:> ?)+")
CHAPTERS: Sequence[Chapter] = (
    disks.CHAPTER,
    arrays.CHAPTER,
    zfs.CHAPTER,
    lvm.CHAPTER,
    volumes.CHAPTER,
    filesystems.CHAPTER,
    health.CHAPTER,
    links.CHAPTER,
    virtual.CHAPTER,
    machine.CHAPTER,
    prose.CHAPTER,
)


def read_facts(text: str) -> Facts:
    """Facts in the text; line numbers are those of `text`, from 1. Never raises."""
    found = [fact for span in _read_spans(text) for fact in span.facts]
    return Facts(tuple(_without_repetitions(_with_device_names(found))))


# facts that tell what kind of a disk it is
DISK_KINDS = ("disk.model", "disk.rotational", "disk.rpm", "disk.transport")


def _with_device_names(facts: Sequence[Fact]) -> Iterator[Fact]:
    """The facts. Those of a device by its major and minor number get its name where lsblk tells it,
    and those of a pool without a name that of the only pool."""
    names = {str(fact.value): fact.subject for fact in facts if fact.name == "disk.number"}
    pools = {
        fact.subject.partition("/")[0] for fact in facts if fact.name.startswith(("pool.", "zfs."))
    }
    pools.discard(zfs.UNNAMED_POOL)
    if len(pools) == 1:
        names[zfs.UNNAMED_POOL] = pools.pop()
    has_named_disks = any(fact.subject and fact.name in DISK_KINDS for fact in facts)
    for fact in facts:
        # a sentence about "the disks" adds nothing to outputs that name them
        if has_named_disks and fact.source == "prose" and fact.name in (*DISK_KINDS, "disk.count"):
            continue
        yield replace(fact, subject=names.get(fact.subject, fact.subject))


def fact_lines(text: str) -> set[int]:
    """Lines that gave facts, their headings and their commands among them; from 1."""
    lines: set[int] = set()
    for span in _read_spans(text):
        lines.update(range(span.first, span.last + 1))
        if span.command.line and span.command.program:
            lines.add(span.command.line)
    if not lines:
        return lines
    frames = (number for number, line in enumerate(text.split("\n"), 1) if FRAME.fullmatch(line))
    return lines.union(frames)


@dataclass(frozen=True, slots=True)
class _Span:
    """Lines that one reader went through, from 1, with the facts of them and the command above."""

    first: int
    last: int
    facts: tuple[Fact, ...]
    command: Command


def _read_spans(text: str) -> Iterator[_Span]:
    """Every span with facts."""
    parts = _readers_by_part(text)
    lines = [QUOTE.sub("", line) for line in text.replace("\xa0", " ").split("\n")]
    index, command = _index(), Command()
    # reader -> index of the line that it has gone to
    gone: dict[Reader, int] = {}

    def is_command(line: str) -> bool:
        return parse_command(line, 0, index.programs) is not None

    for at, line in enumerate(lines):
        if not line or line.isspace() or len(line) > MAX_LINE_CHARACTERS:
            continue
        readers = index.readers(line)
        typed = (
            parse_command(line, at + 1, index.programs) if _may_be_command(line, index) else None
        )
        if typed is not None:
            command = typed
            readers = index.command_readers(typed.program) or readers
        elif parts is not None and (found := parts.search(line)):
            readers = [*readers, *found]
        for reader in readers:
            if at < gone.get(reader, 0):
                continue
            passage = Passage(lines, at, command, is_command)
            facts = tuple(_safely(reader, passage))
            gone[reader] = max(passage.at, at + 1)
            if facts:
                yield _Span(at + 1, gone[reader], facts, command)


def _safely(reader: Reader, passage: Passage) -> Iterator[Fact]:
    """Facts of the passage; those before a number that no figure can be are kept."""
    try:
        yield from reader(passage)
    except (ValueError, IndexError, KeyError, OverflowError):
        return


def _without_repetitions(facts: Iterator[Fact]) -> Iterator[Fact]:
    """The facts without those that say what the last one of their subject and name said."""
    last: dict[tuple[str, str], Value] = {}
    for fact in facts:
        key = fact.subject, fact.name
        if last.get(key) != fact.value or key not in last:
            last[key] = fact.value
            yield fact


class _Parts:
    """Readers of lines by a part of them, for the parts that occur in the text at all."""

    def __init__(self, readers: Mapping[str, list[Reader]]) -> None:
        self._readers = readers
        self._pattern = re.compile("|".join(map(re.escape, readers)), re.IGNORECASE)

    def search(self, line: str) -> list[Reader]:
        """Readers of all parts that the line has."""
        found = dict.fromkeys(match.lower() for match in self._pattern.findall(line))
        return list(dict.fromkeys(reader for part in found for reader in self._readers[part]))


def _readers_by_part(text: str) -> _Parts | None:
    lowered = text.lower()
    present: dict[str, list[Reader]] = {}
    for chapter in CHAPTERS:
        for part, reader in chapter.parts.items():
            if part in lowered:
                present.setdefault(part, []).append(reader)
    return _Parts(present) if present else None


class _Index:
    """Readers of all chapters by a line's first word."""

    def __init__(self) -> None:
        self.headings: dict[str, list[Reader]] = {}
        for chapter in CHAPTERS:
            for word, reader in chapter.headings.items():
                self.headings.setdefault(word, []).append(reader)
        shapes = [shape for chapter in CHAPTERS for shape in chapter.shapes]
        self.shapes = [(re.compile(pattern), reader) for pattern, reader in shapes]
        self.any_shape = re.compile("|".join(f"(?:{pattern})" for pattern, _ in shapes))
        self.commands = [pair for chapter in CHAPTERS for pair in chapter.commands.items()]
        self.programs = frozenset(program for program, _ in self.commands)

    def command_readers(self, program: str) -> list[Reader]:
        """Readers of the program's command and of its output."""
        return [reader for known, reader in self.commands if known == program]

    def readers(self, line: str) -> list[Reader]:
        """Readers that know the line's first word."""
        word = line.split(None, 1)[0]
        if word in self.headings:
            return self.headings[word]
        if len(word) > MAX_WORD_CHARACTERS or not self.any_shape.fullmatch(word):
            return []
        return [reader for pattern, reader in self.shapes if pattern.fullmatch(word)]


# characters of a first word that may be a device, an array or a setting
MAX_WORD_CHARACTERS = 200


@cache
def _index() -> _Index:
    return _Index()


def _may_be_command(line: str, index: _Index) -> bool:
    if "$ " in line or "# " in line or "% " in line:
        return True
    return line.split(None, 1)[0].rpartition("/")[2] in index.programs | {"sudo"}
