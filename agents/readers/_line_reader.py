# SPDX-License-Identifier: Apache-2.0
"""Common parts of the readers of tools that BenchLab does not run: several small readers share one module.

Their figures have base units and the names that the other readers use. Their options have the names of fio's options
where they mean the same: rw, block_size, iodepth, numjobs, direct, size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.contracts import Metric, Unit
from agents.readers import _command
from agents.texts.parsed_result import ParsedResult

# characters of a line; a longer one is none of these tools'
LONGEST_LINE = 2000
# lines in which the command of a result is looked for
COMMAND_REACH = 6

DECIMAL_SIZES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
BINARY_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "s": 1.0}
COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
NUMBER = r"\d{1,15}(?:\.\d{1,12})?"

Lines = Sequence[str]


@dataclass
class LineReader:
    """One reader among several in a module."""

    LABEL: str
    KEYWORDS: tuple[str | re.Pattern[str], ...]
    # results in lines without their line ends, in any order
    read_lines: Callable[[Lines], Iterator[ParsedResult]]

    def find_results(self, text: str, name: str) -> list[ParsedResult]:
        """The results in a text; see protocols.Reader."""
        lines = (line.rstrip("\r") for line in text.replace("\xa0", " ").split("\n"))
        return list(self.read_lines([line if len(line) <= LONGEST_LINE else "" for line in lines]))


def squeezed(line: str) -> str:
    """The line with single spaces, as every web page shows it."""
    return " ".join(line.split())


def number(text: str) -> float:
    """Value of digits with a decimal point; commas between thousands are left out."""
    return float(text.replace(",", ""))


def agree(first: float, second: float, tolerance: float) -> bool:
    """True if two positive figures differ by at most that share of the larger one."""
    return abs(first - second) <= tolerance * max(first, second)


def named_result(
    kind: str, lines: Lines, first: int, last: int, trouble: str, title: str = ""
) -> ParsedResult:
    """A result that is recognised and not read. Line indexes count from 0."""
    title = title or squeezed(lines[first])[:80]
    return ParsedResult(kind, first + 1, last + 1, title, trouble=trouble)


def command_above(lines: Lines, first: int, program: str) -> tuple[int, str]:
    """Index and text of the program's command right above line index `first`; `first` and "" if there is none."""
    for at in range(first - 1, max(first - 1 - COMMAND_REACH, -1), -1):
        if command := _command.find_command(lines[at], program):
            return at, command.text
        if lines[at].strip() and not _command.may_stand_between(lines[at]):
            break
    return first, ""


def option_value(command: str, *names: str) -> str:
    """Value of the first of these options in a command line, as `-b 4k`, `-b4k` or `--block=4k`; "" if none."""
    for name in names:
        joint = r"[= ]" if name.startswith("--") else r"[= ]?"
        if match := re.search(rf"(?:^|\s){re.escape(name)}{joint}\s*([^\s-]\S*)", command):
            return match[1]
    return ""


def has_flag(command: str, letter: str, *names: str) -> bool:
    """True if a one-letter option, alone or combined, or one of the long names is in the command line."""
    words = command.split()
    return any(word in names or re.fullmatch(rf"-\w*{letter}\w*", word) for word in words)


def size_in_bytes(text: str) -> int | None:
    """Bytes of "4k", "16m", "1g" or "4096" with powers of 1024; None if it is no such size."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)(?:i?b)?", text.strip().lower())
    return int(match[1]) << (10 * " kmgt".index(match[2] or " ")) if match else None


def total_outstanding(options: Mapping[str, object]) -> int | None:
    """I/Os in flight of all threads; None if the options do not tell."""
    depth, threads = options.get("iodepth"), options.get("numjobs")
    return depth * threads if isinstance(depth, int) and isinstance(threads, int) else None


def io_metrics(
    way: str,
    line: int,
    figures: Mapping[str, float | None],
    labels: Mapping[str, str] | None = None,
) -> Iterator[Metric]:
    """Metrics named `way` (read, write or "" for both) and figure: iops, bandwidth or a time (`lat.mean`).

    Figures are in base units; those that are None are left out.
    """
    for name, value in figures.items():
        if value is not None:
            prefix = f"{way}." if way else ""
            yield Metric(f"{prefix}{name}", value, _unit(name), labels or {}, line=line)


def _unit(name: str) -> Unit:
    if name.endswith(("iops", "ops")):
        return Unit.OPS_PER_SECOND
    if name.endswith("bandwidth"):
        return Unit.BYTES_PER_SECOND
    return Unit.SECONDS
