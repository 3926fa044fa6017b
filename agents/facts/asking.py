"""How a host is asked for its facts, and for its tools' versions, whatever its system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from agents.contracts import AgentError, Need, Reason, Shell
from agents.facts.sections import Section, text


def ask(shell: Shell, argv: tuple[str, ...], timeout_s: float) -> bytes:
    """What the script printed, as root where that works. Raises AgentError of the connection."""
    try:
        ran = shell.run(argv, root=True, timeout_s=timeout_s)
        if b" facts\n" not in ran.stdout:  # sudo itself refused
            ran = shell.run(argv, timeout_s=timeout_s)
    except AgentError as error:
        if error.reason is not Reason.NO_SUDO:
            raise
        ran = shell.run(argv, timeout_s=timeout_s)
    return ran.stdout


def asked(programs: Iterable[Need]) -> tuple[str, ...]:
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


def tools(sections: Mapping[str, Section]) -> dict[str, str]:
    """Program -> the line with its version, on either stream, whatever its exit code; else the first line it printed.

    Where another program answers (modinfo for a module), only its success says that the thing is there. Of a program
    that is there several times, in PATH and elsewhere, the newest that runs counts.
    """
    found: dict[str, str] = {}
    for name, section in sections.items():
        if name.startswith("answer ") and section.exit_code == 0:
            found[name.removeprefix("answer ")] = text(section.stdout).strip().partition("\n")[0]
        if name.startswith("version "):
            path = PurePosixPath(name.removeprefix("version "))
            said = _version_line(text(section.stdout) + "\n" + section.stderr)
            if path.is_absolute() and (
                section.exit_code or _version(said) <= _version(found.get(path.name, ""))
            ):
                continue
            found[path.name] = said
    return found


def _version_line(said: str) -> str:
    """The first line with a version: bonnie++ complains before it says its own."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    return next((line for line in lines if VERSION.search(line)), lines[0] if lines else "")


def _version(line: str) -> tuple[int, ...]:
    """() when the line says none, which is before all."""
    found = VERSION.search(line)
    return tuple(int(part[:9]) for part in found[1].split(".")) if found else ()
