"""The sections that hostside/facts.sh prints, and how raw bytes become text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agents.contracts import AgentError, Reason

READING_MAX = 128 << 20  # bytes; FreeBSD sends up to 1 MiB of each disk and partition


@dataclass(frozen=True, slots=True)
class Section:
    """One command of the reading: what it printed and how it ended."""

    name: str
    exit_code: int
    stdout: bytes
    stderr: str

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Non-empty lines with their 1-based numbers."""
        for number, line in enumerate(self.stdout.split(b"\n"), start=1):
            if line.strip():
                yield number, line

    def bad(self, number: int, line: bytes, why: str) -> AgentError:
        return bad_facts(f"{self.name}, line {number}: {why}: {text(line)[:200]!r}")

    @property
    def failure(self) -> str:
        """Why it failed, in one line."""
        last = self.stderr.strip().splitlines()
        return f"{self.name} ended with exit code {self.exit_code}" + (
            f": {last[-1].strip()[:200]}" if last else ""
        )


def bad_facts(message: str) -> AgentError:
    return AgentError(f"cannot read the host's facts: {message}", Reason.BAD_FACTS)


def text(raw: bytes) -> str:
    r"""Bytes as text that PostgreSQL can store: what is no UTF-8, and NUL, become \xHH."""
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def unhex(raw: bytes) -> str:
    r"""Text in which util-linux and udev wrote odd bytes as \x20."""
    return text(re.sub(rb"\\x([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), raw))


def unoctal(raw: bytes) -> str:
    r"""Text in which the kernel wrote white space and backslashes as \040."""
    return text(re.sub(rb"\\([0-3][0-7]{2})", lambda m: bytes([int(m[1], 8)]), raw))


def split(output: bytes) -> dict[str, Section]:
    """The sections by name; a name that comes twice keeps the last. Raises AgentError BAD_FACTS."""
    if len(output) > READING_MAX:
        raise bad_facts(f"it is longer than {READING_MAX >> 20} MiB, which no host's is")
    # A login banner or profile may print before us.
    start = re.search(rb"^=([0-9a-zA-Z]+) facts\n", output, re.M)
    if start is None:
        raise bad_facts(f"no reading in the output: {text(output[:200])!r}")
    nonce = start[1]
    if not re.search(rb"^=" + nonce + rb" complete\n?\Z", output, re.M):
        raise bad_facts("the reading is cut off: its last line is missing")
    return {section.name: section for section in _sections(output, nonce)}


def _sections(output: bytes, nonce: bytes) -> Iterator[Section]:
    """One pass, mark by mark: a host that is out to cost time gets none. Raises AgentError BAD_FACTS."""
    marks = re.compile(rb"^=%b (begin ([^\n]+)|end (\d{1,9})|done)$" % nonce, re.M)
    found = list(marks.finditer(output))
    if len(found) % 3:
        raise bad_facts("a section has no end")
    for begin, end, done in zip(found[::3], found[1::3], found[2::3], strict=True):
        if begin[2] is None or end[3] is None or done[1] != b"done":
            raise bad_facts("a section has no end")
        # What a command prints may lack its last newline, so each mark has one before it.
        printed = output[begin.end() + 1 : max(begin.end() + 1, end.start() - 1)]
        complained = output[end.end() + 1 : max(end.end() + 1, done.start() - 1)]
        yield Section(text(begin[2]), int(end[3]), printed, text(complained))
