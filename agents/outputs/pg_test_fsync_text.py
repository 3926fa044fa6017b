# SPDX-License-Identifier: Apache-2.0
"""Parser of pg_test_fsync's output: PostgreSQL 9.1 to 18, also with white space collapsed as on web pages. Pure.

`read` takes lines from where a run begins and stops at the first line that is not of it; the caller says whether all of
it must be there. Each rate is checked against the time that is printed beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import Metric, ParseError, Unit

# characters of a line, and far more than any of the tool's
LONGEST = 300
METHODS = ("open_datasync", "fdatasync", "fsync", "fsync_writethrough", "open_sync")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the output, called `title` in our messages."""

    title: str
    # its first line, and its block in kB where that says it
    head: re.Pattern[str]
    # its rows in their order: the words printed -> the metric's name
    rows: Mapping[str, str]


SECTIONS = {
    "one": Section(
        "one write",
        re.compile(r"Compare file sync methods using one (\d{1,4})kB write:"),
        {method: f"one.{method}" for method in METHODS},
    ),
    "two": Section(
        "two writes",
        re.compile(r"Compare file sync methods using two (\d{1,4})kB writes:"),
        {method: f"two.{method}" for method in METHODS},
    ),
    "open_sync": Section(
        "open_sync sizes",
        re.compile(r"Compare open_sync with different write sizes:"),
        {
            f"{count} * {16 // count}kB open_sync write{'s' if count > 1 else ''}": (
                f"open_sync.{count}x{16 // count}"
            )
            for count in (1, 2, 4, 8, 16)
        },
    ),
    "other_descriptor": Section(
        "fsync on another descriptor",
        re.compile(r"Test if fsync on non-write file descriptor is honored:"),
        {
            "write, fsync, close": "other_descriptor.write_fsync_close",
            "write, close, fsync": "other_descriptor.write_close_fsync",
        },
    ),
    "unsynced": Section(
        "non-sync'ed writes",
        re.compile(r"Non-[Ss]ync'ed (\d{1,4})kB writes:"),
        {"write": "unsynced.write"},
    ),
}
START = re.compile(r"(\d{1,9}) (seconds?|operations) per test")
# What is said around the figures, in as many lines as versions and web pages make of it
REMARKS = re.compile(
    r"(?:(?:O_DIRECT|F_NOCACHE) supported on this platform for open_datasync and open_sync\.|"
    r"Direct I/O is not supported on this platform\.|"
    r"\(in \"?wal_sync_method\"? preference order, except fdatasync(?: is(?: Linux's(?: default\))?)?)?|"
    r"(?:(?:is )?Linux's )?default\)|"
    r"\(This is designed to compare the cost of writing 16kB(?: in different write(?: open_sync sizes\.\))?)?|"
    r"(?:in different write )?open_sync sizes\.\)|"
    r"\(If the times are similar, fsync\(\) can sync data written(?: on a different(?: descriptor\.\))?)?|"
    r"(?:on a different )?descriptor\.\)|"
    r"\* This file system and its mount options do not support direct(?: I/O, e\.g\. ext4 in journaled mode\.)?|"
    r"I/O, e\.g\. ext4 in journaled mode\.)"
)
_WHOLE = r"(?:0|[1-9]\d{0,11})"
# A decimal comma comes from the locale: the time beside it shows that it separates no thousands
RESULT = re.compile(
    rf"({_WHOLE}\.\d{{3}}|{_WHOLE},\d{{3}}(?= ops/sec \d)) ops/sec(?: (0|[1-9]\d{{0,14}}) usecs/op)?"
)
# Rows whose heading was cut off: with one write and with two they look alike
UNNAMED = "unnamed"
UNNAMED_ROWS = {method: method for method in METHODS}
NOT_THERE = {
    "n/a": "n/a: this system has no such method",
    "n/a*": "n/a*: this file system and its mount options do not support direct I/O",
}
# 9.1 does not say how many
OLD_SIZE = re.compile(r"(16|8|4|2|1)kB open_sync writes?")
# A row, whatever follows: the words of one, and something that begins like a result
ROW = re.compile(
    r"((?:\d{1,2} \* )?\d{1,2}kB open_sync writes?|write, fsync, close|write, close, fsync|"
    + "|".join(sorted(METHODS, key=len, reverse=True))
    + r"|write)(?: ((?:[-+]?[\d.]|n/a|-?nan|-?inf).*))?"
)


@dataclass(slots=True)
class Run:
    """One run as far as its lines go; line numbers are indexes into what `read` was given, from 0."""

    first: int
    # the last line that is of the run
    last: int = -1
    # of each test; 9.1 counts operations instead
    seconds: int | None = None
    # section -> rows that were there
    sections: dict[str, set[str]] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    # kB, once a head has said it; 8 unless PostgreSQL was built otherwise
    block: str = ""
    # the row at the very end of the text that is not whole
    cut: str = ""
    # whether its first rows have lost their heading
    is_fragment: bool = False

    def missing_rows(self, section: str) -> list[str]:
        """Words of the rows that this run lacks."""
        rows = self.sections.get(section, set())
        return [words for words in SECTIONS[section].rows if words not in rows]

    @property
    def missing_parts(self) -> list[str]:
        """Parts of a whole run that this one lacks, in words."""
        parts = []
        for name, section in SECTIONS.items():
            if name not in self.sections:
                parts.append(section.title)
            elif lacking := self.missing_rows(name):
                parts.append(f"{', '.join(lacking)} of {section.title}")
        return parts


def missing_tests(run: Run) -> list[tuple[str, str]]:
    """Words and name of each test that has no figure, in the order in which they are run."""
    return [
        (f"{words} of {section.title}", section.rows[words])
        for name, section in SECTIONS.items()
        for words in run.missing_rows(name)
    ]


def absent(run: Run, name: str, why: str) -> Metric:
    """A test without a figure."""
    return Metric(f"{name}.ops", None, Unit.OPS_PER_SECOND, _test_labels(run, name), why)


def clean_line(line: str) -> str:
    """One space between words, plain apostrophes; "" for a line that is too long to be one of the tool's."""
    if len(line) > LONGEST:
        return "" if not line.strip() else "\ufffd"
    return " ".join(line.split()).replace("’", "'").replace("‘", "'")


def begins(line: str) -> bool:
    """True when a run begins with the cleaned line: a heading, or a row that lost it and has both its figures."""
    return bool(START.fullmatch(line)) or _section(line) is not None or is_whole_row(line)


def is_whole_row(line: str) -> bool:
    """True for a row with its rate and its time."""
    # nearly every line lacks it
    if not line.endswith(" usecs/op"):
        return False
    row = ROW.fullmatch(line)
    return bool(row and RESULT.fullmatch(row[2] or ""))


def _lost_section(lines: Sequence[str], first: int) -> str:
    """Section of the rows that begin at lines[first] without a heading, by their words or the heading that follows."""
    words = (ROW.fullmatch(lines[first]) or [""])[1]
    for name in ("open_sync", "other_descriptor", "unsynced"):
        if words in SECTIONS[name].rows:
            return name
    below = (line for line in lines[first:] if line and not is_whole_row(line))
    following = _section(next(below, ""))
    before = {"two": "one", "open_sync": "two"}
    return before.get(following[0], UNNAMED) if following else UNNAMED


def parse_run(lines: Sequence[str], first: int) -> Run:
    """The run that begins at lines[first] (cleaned lines), up to the first line that is not of it.

    Raises ParseError, with lines counted from 1, for what looks like a row and cannot be right.
    """
    run, section = Run(first, first), ""
    if is_whole_row(lines[first]):
        section, run.is_fragment = _lost_section(lines, first), True
        run.sections[section] = set()
    for index in range(first, len(lines)):
        line = lines[index]
        if not line:
            continue
        if index > first and START.fullmatch(line):
            break
        if head := _section(line):
            section, kilobytes = head
            # a section of another run: it was there, or one that follows it
            order = [UNNAMED, *SECTIONS]
            if any(order.index(earlier) >= order.index(section) for earlier in run.sections):
                break
            run.sections[section] = set()
            _use_block(run, kilobytes, index, line)
        elif not _parse_line(run, section, line, index, lines):
            break
        if run.cut:
            break
        run.last = index
    return run


def _section(line: str) -> tuple[str, str] | None:
    """Section and kB, if the line is a section's head."""
    if not line.startswith(("Compare ", "Test ", "Non-")):
        # nearly every line
        return None
    for name, section in SECTIONS.items():
        if match := section.head.fullmatch(line):
            return name, "".join(match.groups())
    return None


def _use_block(run: Run, kilobytes: str, index: int, line: str) -> None:
    if not kilobytes:
        return
    if run.block and kilobytes != run.block:
        raise ParseError(
            f"blocks of {run.block} kB before, of {kilobytes} kB here", index + 1, line
        )
    run.block = kilobytes


def _parse_line(run: Run, section: str, line: str, index: int, lines: Sequence[str]) -> bool:
    """True when a line that is no head is of the run; what it says is put into the run."""
    if started := START.fullmatch(line):
        run.seconds = int(started[1]) if started[2] != "operations" else None
        return True
    if REMARKS.fullmatch(line):
        return True
    row = ROW.fullmatch(line)
    if not row or not section:
        return False
    words = _test_name(row[1], section)
    rows = UNNAMED_ROWS if section == UNNAMED else SECTIONS[section].rows
    if words not in rows:
        # those of a part that lost its heading, too
        if not row[2] or run.is_fragment:
            return False
        title = SECTIONS[section].title
        raise ParseError(f"no row of the section {title!r}", index + 1, line)
    if words in run.sections[section]:
        if section == UNNAMED:
            # of another run
            return False
        raise ParseError(f"{words} appears twice", index + 1, line)
    readable = row[2] in NOT_THERE or RESULT.fullmatch(row[2] or "")
    if not readable and not any(lines[at] for at in range(index + 1, len(lines))):
        run.cut = words
        return True
    if not row[2]:
        # a word of somebody's text
        return False
    run.metrics += _row_metrics(rows[words], row[2], run, index + 1, line)
    run.sections[section].add(words)
    return True


def _test_name(words: str, section: str) -> str:
    old = OLD_SIZE.fullmatch(words)
    if not old or section != "open_sync":
        return words
    count = 16 // int(old[1])
    return f"{count} * {old[1]}kB open_sync write{'s' if count > 1 else ''}"


def _test_labels(run: Run, name: str) -> dict[str, str]:
    sized = run.block not in ("", "8") and not name.startswith("open_sync.")
    return {"block": f"{run.block}kB"} if sized else {}


def _row_metrics(name: str, figures: str, run: Run, number: int, line: str) -> list[Metric]:
    """The rate, and the time of one operation where it is printed. Raises ParseError when they do not agree."""
    labels = _test_labels(run, name)
    if figures in NOT_THERE:
        why = NOT_THERE[figures]
        return [Metric(f"{name}.ops", None, Unit.OPS_PER_SECOND, labels, why, number)]
    match = RESULT.fullmatch(figures)
    if not match or not float(match[1].replace(",", ".")):
        raise ParseError("neither a rate in ops/sec nor n/a", number, line)
    rate = float(match[1].replace(",", "."))
    metrics = [Metric(f"{name}.ops", rate, Unit.OPS_PER_SECOND, labels, line=number)]
    if match[2]:
        # the rate has three digits after the point, the time has none
        exact = 1e6 / rate
        if abs(float(match[2]) - exact) > 0.501 + exact * 0.0006 / rate:
            raise ParseError("ops/sec and usecs/op do not agree", number, line)
        seconds = int(match[2]) / 1e6
        metrics.append(Metric(f"{name}.latency", seconds, Unit.SECONDS, labels, line=number))
    return metrics
