# SPDX-License-Identifier: Apache-2.0
"""Lines of a pasted text, the command above them, tables, sizes and names of devices. What every chapter reads by.

A chapter declares its readers by what a line begins with (`Chapter`). A reader gets a passage that begins with that
line, and yields facts; lines that it has gone through are not given to it again, so reading is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.context.model import Fact

# characters of a line beyond which nobody's terminal printed it
MAX_LINE_CHARACTERS = 4000
# A command begins in lower case, or a heading ("ID# ATTRIBUTE_NAME") would be one.
PROMPT = re.compile(
    r"\s*(?:\([^()]{1,30}\)\s?)?(?:\[[^\]]{1,60}\]|[\w.-]{1,40}@[\w.-]{1,60}[^$#%\s]{0,60}(?:\s[^$#%\s]{1,60})?"
    r"|[\w.-]{1,40}:[^$#%\s]{0,60}|[\w.~/-]{0,40})\s?(?:[$#]|(?<!\d)%)\s+(?P<command>(?:[A-Z_]+=|MegaCli|[a-z./~\"'(]).*)"
)
# programs that run another one
WRAPPERS = {"sudo", "doas", "time", "env", "watch", "nice"}
SIZE = re.compile(r"<?\s?(\d+(?:[.,]\d+)?)\s?([kKmMgGtTpPeE]?)i?(?:[bB](?:ytes)?)?")
DECIMAL_OR_BINARY = re.compile(r"(\d+(?:[.,]\d+)?)\s?([kKMGTP]?)(i?)[bB](?:ytes)?")


@dataclass(frozen=True, slots=True)
class Command:
    """A command as typed, up to a pipe. `words` begin with the program's name without its path."""

    words: tuple[str, ...] = ()
    # line, from 1
    line: int = 0
    # all of it, pipes and redirections with it
    text: str = ""

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    def starts(self, *words: str) -> bool:
        """True if these are its first words."""
        return self.words[: len(words)] == words

    def operands(self) -> list[str]:
        """Words that are no options, without the program's name."""
        return [word for word in self.words[1:] if not word.startswith("-")]

    def option(self, *names: str) -> str:
        """Value of the first option among `names`: "--level=5", "--level 5", "-l 5"; "" if there is none."""
        for place, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                following = self.words[place + 1 : place + 2]
                return value if equals else "".join(following)
        return ""

    @property
    def device(self) -> str:
        """Name of the last device that it names by its path; "" if there is none."""
        paths = [word for word in self.words[1:] if word.startswith("/dev/")]
        return device_name(paths[-1]) if paths else ""

    @property
    def single_device(self) -> str:
        """Name of the only device that it names by its path; "" if there are several, or a pattern of them."""
        paths = [word for word in self.words[1:] if word.startswith("/dev/")]
        is_plain = len(paths) == 1 and re.fullmatch(r"[\w/.:+-]+", paths[0]) is not None
        return device_name(paths[0]) if is_plain else ""


def parse_command(line: str, number: int, known: Iterable[str]) -> Command | None:
    """The command of a line behind a prompt, or one of the `known` programs without a prompt; None if it has none."""
    prompt = PROMPT.match(line) if "$ " in line or "# " in line or "% " in line else None
    text = prompt["command"] if prompt else line.strip()
    if text.startswith(("[", "(")):
        return None
    words = re.split(r"\s*(?:[|;<]|&&|2?>|\s#\s)", text, maxsplit=1)[0].split()
    while words and (words[0] in WRAPPERS or re.fullmatch(r"[A-Z_]+=\S*", words[0])):
        words = words[1:]
    if not words:
        return None
    words[0] = words[0].rpartition("/")[2]
    if not prompt and (words[0] not in known or not _is_bare_command(words)):
        return None
    return Command(tuple(words), number, text)


def _is_bare_command(words: Sequence[str]) -> bool:
    """True if the words can only be typed: alone, or with options, paths and short operands, as no sentence has."""
    return len(words) == 1 or (
        all(re.fullmatch(r"-{1,2}[\w-]+(=\S*)?|/\S+|[\w./,:=@{}*-]+", word) for word in words)
        and (any(word.startswith(("-", "/")) for word in words[1:]) or len(words) <= 3)
    )


@dataclass
class Passage:
    """The lines from one that a chapter knows. `at` is the index of the next line."""

    lines: Sequence[str]
    at: int
    command: Command
    is_command: Callable[[str], bool]

    @property
    def number(self) -> int:
        """Number of the next line, from 1."""
        return self.at + 1

    @property
    def line(self) -> str:
        """The next line; "" at the end."""
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def rows(self, blank_ends: bool = True) -> Iterator[tuple[int, str]]:
        """Number and text of each line to the next command, and to an empty line if one ends it."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            blank = not line.strip()
            if (blank and blank_ends) or self.is_command(line):
                return
            self.at += 1
            if not blank and len(line) <= MAX_LINE_CHARACTERS:
                yield self.at, line

    def put_back(self) -> None:
        """Leave the line that `rows` gave last to others."""
        self.at -= 1


Reader = Callable[[Passage], Iterator[Fact]]


@dataclass(frozen=True)
class Chapter:
    """Readers of one kind of output, by what tells them."""

    # first word of a line
    headings: Mapping[str, Reader] = field(default_factory=dict)
    # pattern of a first word
    shapes: Sequence[tuple[str, Reader]] = ()
    # part of a line, in lower case
    parts: Mapping[str, Reader] = field(default_factory=dict)
    # program whose output has no heading, or whose command tells something by itself
    commands: Mapping[str, Reader] = field(default_factory=dict)


def device_name(path: str) -> str:
    """Kernel's or mapper's name of a device: "/dev/sda1" is "sda1", "/dev/vg/lv" "vg-lv", "/dev/disk/by-id/x" "x"."""
    name = path.strip().rstrip(":")
    name = re.sub(r"^/dev/", "", name)
    name = re.sub(r"^(?:mapper/|disk/by-[\w-]+/|gptid/|zvol/)", "", name)
    group, slash, volume = name.partition("/")
    if not slash or path.startswith("/dev/zvol/"):
        return name
    return f"{group.replace('-', '--')}-{volume.replace('-', '--')}"


def partition_name(disk: str, number: str) -> str:
    """Name of a disk's partition: "sda1", "nvme0n1p1"."""
    return f"{disk}{'p' if disk[-1:].isdigit() else ''}{number}"


def parse_number(text: str) -> float | None:
    """The number, with a decimal point or comma; None if it is none."""
    text = text.strip().replace(",", ".")
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def grouped_integer(text: str) -> float | None:
    """An integer with separators between thousands: "4,000,787,030,016", "4 000 787 030 016"."""
    digits = re.sub(r"[\s,.'’\u202f]", "", text)
    return float(digits) if digits.isdigit() else None


def binary_size(text: str) -> float | None:
    """Bytes of "447.1G", "<20.00g", "64K", "0B": every unit is a power of 1,024, as lsblk, ZFS and LVM print."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    factor = 1024.0 ** (" KMGTPE".index(match[2].upper()) if match[2] else 0)
    return float(match[1].replace(",", ".")) * factor


def stated_size(text: str) -> float | None:
    """Bytes of "64 KiB" or "500 GB": the unit tells whether it is a power of 1,024 or of 1,000."""
    match = DECIMAL_OR_BINARY.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024.0 if match[3] else 1000.0
    return float(match[1].replace(",", ".")) * base ** (
        " KMGTP".index(match[2].upper()) if match[2] else 0
    )


def share(text: str) -> float | None:
    """ "96%" as 0.96; None for "-"."""
    number = parse_number(text.strip().rstrip("%"))
    return None if number is None else number / 100


def flag(text: str) -> bool | None:
    """ "1", "yes", "on", "enabled" as True, their opposites as False; None for anything else."""
    word = text.strip().lower()
    if word in ("1", "yes", "on", "enabled", "true"):
        return True
    return False if word in ("0", "no", "off", "disabled", "false") else None


def known_text(*values: str) -> Callable[[str], str | None]:
    """A conversion that takes only these texts."""

    def convert(text: str) -> str | None:
        return text.strip() if text.strip() in values else None

    return convert


def printed_text(text: str) -> str | None:
    """The text without blanks around it; None if nothing is left, or a dash."""
    text = " ".join(text.split())
    return text if text not in ("", "-", "none", "N/A") else None


@dataclass(frozen=True)
class Table:
    """A table's columns, and what a cell of each may hold: `checks` by the column's name."""

    names: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    checks: Mapping[str, re.Pattern[str]]

    @classmethod
    def from_heading(cls, heading: str, checks: Mapping[str, str]) -> Table:
        words = list(re.finditer(r"\S+", heading))
        return cls(
            tuple(word[0] for word in words),
            tuple(word.span() for word in words),
            {name: re.compile(pattern) for name, pattern in checks.items()},
        )

    def cells(self, row: str) -> dict[str, str] | None:
        """Cells by column; None where no reading of the row agrees with what its columns may hold."""
        words = list(re.finditer(r"\S+", row))
        # A row of a terminal stands below its heading; a forum shifts it, or leaves single blanks.
        for shift in (0, -1, 1):
            cells = self._aligned(words, shift)
            if self._agrees(cells):
                return cells
        if len(words) >= len(self.names):
            head = [word[0] for word in words[: len(self.names) - 1]]
            cells = dict(
                zip(self.names, [*head, row[words[len(head)].start() :].strip()], strict=True)
            )
            if self._agrees(cells):
                return cells
        return None

    def _aligned(self, words: Sequence[re.Match[str]], shift: int) -> dict[str, str]:
        cells: dict[str, list[str]] = {name: [] for name in self.names}
        column = 0
        for word in words:
            start, end = word.start() + shift, word.end() + shift
            below = [
                i for i in range(column, len(self.spans)) if _overlap(self.spans[i], start, end)
            ]
            # What stands below no heading goes on with the column to its left.
            if below:
                column = below[0]
            cells[self.names[column]].append(word[0])
        return {name: " ".join(texts) for name, texts in cells.items()}

    def _agrees(self, cells: Mapping[str, str]) -> bool:
        return bool(cells[self.names[0]]) and all(
            not cells.get(name) or check.fullmatch(cells[name])
            for name, check in self.checks.items()
        )


def _overlap(span: tuple[int, int], start: int, end: int) -> bool:
    return start < span[1] and span[0] < end


@dataclass(frozen=True)
class Columns:
    """A table whose headings stand on the left and whose numbers on the right, as LVM prints it.

    `checks`: what a cell may hold, by the column's name. Without `spans` the table has lost its heading.
    """

    names: tuple[str, ...]
    spans: tuple[int, ...]
    checks: Mapping[str, str]

    @classmethod
    def from_heading(cls, heading: str, checks: Mapping[str, str]) -> Columns:
        words = list(re.finditer(r"\S+", heading))
        # single blanks everywhere: a forum took the alignment away
        aligned = len(words) < 3 or "  " in heading.strip()
        starts = tuple(word.start() for word in words) if aligned else ()
        return cls(tuple(word[0] for word in words), starts, checks)

    def cells(
        self, row: str, empty: Callable[[Sequence[str]], Sequence[str]]
    ) -> dict[str, str] | None:
        """Cells by column, those that are filled; None where no reading agrees with `checks`.

        `empty` gives the columns that must be empty in a row with these words.
        """
        words = list(re.finditer(r"\S+", row))
        never = set(empty([word[0] for word in words]))
        # column of the last word -> (distance from the headings, columns of the words)
        places: dict[int, tuple[int, tuple[int, ...]]] = {-1: (0, ())}
        for word in words:
            following: dict[int, tuple[int, tuple[int, ...]]] = {}
            for column in self._columns_that_hold(word[0], never):
                before = [place for last, place in places.items() if last < column]
                if before:
                    cost, path = min(before)
                    distance = self._distance(column, word.start(), word.end())
                    following[column] = (cost + distance, (*path, column))
            places = following
        # the first column is never empty
        ends = [place for place in places.values() if place[1][:1] == (0,)]
        if not ends:
            return None
        path = min(ends)[1]
        return {self.names[column]: word[0] for column, word in zip(path, words, strict=True)}

    def _columns_that_hold(self, word: str, never: set[str]) -> list[int]:
        return [
            column
            for column, name in enumerate(self.names)
            if name not in never and re.fullmatch(self.checks.get(name, r"\S+"), word)
        ]

    def _distance(self, column: int, start: int, end: int) -> int:
        """Characters by which a word stands outside of its column; without headings the first column wins."""
        if not self.spans:
            return 0
        first = self.spans[column]
        last = self.spans[column + 1] if column + 1 < len(self.spans) else end
        return max(0, first - start) + max(0, end - last)
