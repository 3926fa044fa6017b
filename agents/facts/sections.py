# SPDX-License-Identifier: Apache-2.0
"""Commands for a host's facts and its tools' versions, whatever its system; the sections that hostside/facts.sh
answers in, and how raw bytes become text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agents.contracts import AgentError, Need, Reason, Shell

# bytes; FreeBSD sends up to 1 MiB of each disk and partition
MAX_READING_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Section:
    """A command of the reading with its output and how it ended."""

    name: str
    exit_code: int
    stdout: bytes
    stderr: str

    def numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        """Non-empty lines with their 1-based numbers."""
        for number, line in enumerate(self.stdout.split(b"\n"), start=1):
            if line.strip():
                yield number, line

    @property
    def text(self) -> str:
        """All that was printed, without white space around it."""
        return decode_text(self.stdout).strip()

    def error_at(self, number: int, line: bytes, why: str) -> AgentError:
        return bad_facts(f"{self.name}, line {number}: {why}: {decode_text(line)[:200]!r}")

    def matches(
        self, pattern: bytes, why: str, skip: tuple[bytes, ...] = ()
    ) -> Iterator[re.Match[bytes]]:
        """A match of each line but those that begin with one of `skip`. Raises AgentError BAD_FACTS for any other."""
        for number, line in self.numbered_lines():
            if line.startswith(skip):
                continue
            match = re.fullmatch(pattern, line.strip(), re.S)
            if match is None:
                raise self.error_at(number, line, why)
            yield match

    @property
    def failure(self) -> str:
        """The cause of the failure in one line."""
        last = self.stderr.strip().splitlines()
        return f"{self.name} ended with exit code {self.exit_code}" + (
            f": {last[-1].strip()[:200]}" if last else ""
        )


EMPTY = Section("", 0, b"", "")


def text_section(name: str, text: str) -> Section:
    """A file's text as a section, for the parsers of sections."""
    return Section(name, 0, text.encode(), "")


def succeeded(sections: Mapping[str, Section], name: str) -> Section:
    """The section of a command that succeeded, else an empty one."""
    section = sections.get(name, EMPTY)
    return EMPTY if section.exit_code else section


def bad_facts(message: str) -> AgentError:
    return AgentError(f"cannot read the host's facts: {message}", Reason.BAD_FACTS)


def decode_text(raw: bytes) -> str:
    r"""Bytes as text that PostgreSQL can store: what is no UTF-8, and NUL, become \xHH."""
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def decode_hex_escapes(raw: bytes) -> str:
    r"""Text in which util-linux and udev wrote odd bytes as \x20."""
    return decode_text(re.sub(rb"\\x([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), raw))


def decode_octal_escapes(raw: bytes) -> str:
    r"""Text in which the kernel wrote white space and backslashes as \040."""
    return decode_text(re.sub(rb"\\([0-3][0-7]{2})", lambda m: bytes([int(m[1], 8)]), raw))


def split_sections(output: bytes) -> dict[str, Section]:
    """The sections by name; a name that comes twice keeps the last. Raises AgentError BAD_FACTS."""
    if len(output) > MAX_READING_BYTES:
        raise bad_facts(f"it is longer than {MAX_READING_BYTES >> 20} MiB")
    # A login banner or profile may print before us.
    start = re.search(rb"^=([0-9a-zA-Z]+) facts\n", output, re.M)
    if start is None:
        raise bad_facts(f"no reading in the output: {decode_text(output[:200])!r}")
    nonce = start[1]
    if not re.search(rb"^=" + nonce + rb" complete\n?\Z", output, re.M):
        raise bad_facts("the reading is truncated: its last line is missing")
    return {section.name: section for section in _sections(output, nonce)}


def _sections(output: bytes, nonce: bytes) -> Iterator[Section]:
    """One pass, mark by mark: a host that is out to cost time gets none. Raises AgentError BAD_FACTS."""
    marks = re.compile(rb"^=%b (begin ([^\n]+)|end (\d{1,9})|done)$" % nonce, re.M)
    matches = list(marks.finditer(output))
    if len(matches) % 3:
        raise bad_facts("a section has no end")
    for begin, end, last in zip(matches[::3], matches[1::3], matches[2::3], strict=True):
        if begin[2] is None or end[3] is None or last[1] != b"done":
            raise bad_facts("a section has no end")
        # What a command prints may lack its last newline, so each mark has one before it.
        printed = output[begin.end() + 1 : max(begin.end() + 1, end.start() - 1)]
        complained = output[end.end() + 1 : max(end.end() + 1, last.start() - 1)]
        yield Section(decode_text(begin[2]), int(end[3]), printed, decode_text(complained))


def run_facts_script(shell: Shell, argv: tuple[str, ...], timeout_s: float) -> bytes:
    """Output of the script, run as root where that works. Raises AgentError of the connection."""
    try:
        ran = shell.run(argv, root=True, timeout_s=timeout_s)
        # sudo itself refused
        if b" facts\n" not in ran.stdout:
            ran = shell.run(argv, timeout_s=timeout_s)
    except AgentError as error:
        if error.reason is not Reason.NO_SUDO:
            raise
        ran = shell.run(argv, timeout_s=timeout_s)
    return ran.stdout


def version_commands(programs: Iterable[Need]) -> tuple[str, ...]:
    """The version command of each program, once; "NAME=COMMAND" where another program answers for it.

    Where a program may be elsewhere than in PATH, the same command follows with each such path (a pattern).
    """
    words = []
    for need in programs:
        argv = need.version_argv or (need.program, "--version")
        word = " ".join(argv)
        words.append(word if argv[0] == need.program else f"{need.program}={word}")
        words += [f"{place}/{word}" for place in need.places]
    return tuple(dict.fromkeys(words))


VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+|\d+(?=(?:beta|rc|devel)))")


def parse_tool_versions(sections: Mapping[str, Section]) -> dict[str, str]:
    """Program -> the line with its version, on either stream, whatever its exit code; else the first line it printed.

    Where another program answers (modinfo for a module), only its success says that the thing is there. Of a program
    that is there several times, in PATH and elsewhere, the newest that runs counts.
    """
    versions: dict[str, str] = {}
    for name, section in sections.items():
        if name.startswith("answer ") and section.exit_code == 0:
            versions[name.removeprefix("answer ")] = section.text.partition("\n")[0]
        if name.startswith("version "):
            path = PurePosixPath(name.removeprefix("version "))
            version = _version_line(decode_text(section.stdout) + "\n" + section.stderr)
            if path.is_absolute() and (
                section.exit_code
                or _version_numbers(version) <= _version_numbers(versions.get(path.name, ""))
            ):
                continue
            versions[path.name] = version
    return versions


def _version_line(output: str) -> str:
    """The first line with a version: bonnie++ complains before it says its own."""
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    return next((line for line in lines if VERSION.search(line)), lines[0] if lines else "")


def _version_numbers(line: str) -> tuple[int, ...]:
    """Numbers of the version; () if the line has none, which sorts first."""
    match = VERSION.search(line)
    return tuple(int(part[:9]) for part in match[1].split(".")) if match else ()
