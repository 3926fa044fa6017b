"""How a host is asked for its facts, and for its tools' versions, whatever its system."""

from __future__ import annotations

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
    """The version command of each program, once; "NAME=COMMAND" where another program answers for it."""
    words = []
    for need in programs:
        argv = need.version_argv or (need.program, "--version")
        word = " ".join(argv)
        words.append(word if argv[0] == need.program else f"{need.program}={word}")
    return tuple(dict.fromkeys(words))


def tools(sections: Mapping[str, Section]) -> dict[str, str]:
    """Program -> the first line it printed, on either stream, whatever its exit code.

    Where another program answers (modinfo for a module), only its success says that the thing is there.
    """
    found = {}
    for name, section in sections.items():
        if name.startswith("answer ") and section.exit_code == 0:
            found[name.removeprefix("answer ")] = text(section.stdout).strip().partition("\n")[0]
        if name.startswith("version "):
            said = (text(section.stdout) + "\n" + section.stderr).split("\n")
            program = PurePosixPath(name.removeprefix("version ")).name
            found[program] = next((line.strip() for line in said if line.strip()), "")
    return found
