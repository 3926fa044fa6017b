"""The sections that hostside/facts.sh prints, and how raw bytes become text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agents.contracts import AgentError, Reason


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
    # A login banner or profile may print before us.
    start = re.search(rb"^=([0-9a-zA-Z]+) facts\n", output, re.M)
    if start is None:
        raise bad_facts(f"no reading in the output: {text(output[:200])!r}")
    nonce = start[1]
    if not re.search(rb"^=" + nonce + rb" complete\n?\Z", output, re.M):
        raise bad_facts("the reading is cut off: its last line is missing")
    pattern = re.compile(
        rb"^=%b begin ([^\n]+)\n(.*?)\n=%b end (\d+)\n(.*?)\n=%b done$" % (nonce, nonce, nonce),
        re.S | re.M,
    )
    found = {
        text(m[1]): Section(text(m[1]), int(m[3]), m[2], text(m[4]))
        for m in pattern.finditer(output)
    }
    if output.count(b"=" + nonce + b" begin ") != len(pattern.findall(output)):
        raise bad_facts("a section has no end")
    return found
