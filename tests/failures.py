"""The report of a test that failed: how to have it again, the last commands on its hosts, and their consoles."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchlab.testing import profiles, report

LINES = 25  # of a console
BLANK = Path(__file__).parent / "rig" / "blank.py"
_commands: deque[str] = deque(maxlen=25)
_file = ""


def register(config: pytest.Config) -> None:
    config.pluginmanager.register(Failures(), "benchlab-failures")


class Failures:
    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        """A file's tests share a host, and what the one before did to it tells; other files have theirs."""
        global _file
        if location[0] != _file:
            _file = location[0]
            _commands.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        outcome = yield
        if outcome.failed:
            outcome.sections += [("to have it again", again(item.nodeid)), *of_hosts()]
            if call.excinfo:
                note_second_chance(item, outcome, call.excinfo)
        return outcome


def note_second_chance(
    item: pytest.Item, outcome: pytest.TestReport, error: pytest.ExceptionInfo[BaseException]
) -> None:
    """For the JUnit report. Every phase of a test that failed must allow it."""
    allowed = may_run_again(item, error)
    if not allowed:
        # Whatever its tear-down finds
        item.add_marker("no_second_chance")
    for properties in (item.user_properties, outcome.user_properties):
        properties[:] = [p for p in properties if p[0] != report.SECOND_CHANCE]
        properties += [(report.SECOND_CHANCE, "yes")] if allowed else []


def may_run_again(item: pytest.Item, error: pytest.ExceptionInfo[BaseException]) -> bool:
    """Timing is part of what hosts and pages do. What keeps disks or rights safe is right every time, or wrong."""
    if item.get_closest_marker("no_second_chance"):
        return False
    # A disk that is not blank
    if any(Path(entry.path) == BLANK for entry in error.traceback):
        return False
    return any(item.get_closest_marker(name) for name in ("rig", "browser"))


def again(nodeid: str) -> str:
    profile = f"--{profiles.profile()} --seed {profiles.seed()}"
    return f"python3 manage.py test {profile} '{nodeid}'"


def of_hosts() -> Iterator[tuple[str, str]]:
    """Nothing where no test of this process has spoken to a practice host."""
    if not _commands:
        return
    from benchlab.practice import list_hosts

    yield "the last commands on practice hosts", "\n".join(_commands)
    for host in list_hosts():
        owner = host.record.owner
        if owner and owner.pid == os.getpid():
            lines = host.console.read_text(errors="replace").splitlines()[-LINES:]
            yield f"console of {host.name}", "\n".join(lines)


def listen() -> None:
    """From now on note each command that goes to a host, and how it ended."""
    from agents.ssh.lasting_shell import LastingShell
    from agents.ssh.shell import SshShell
    from benchlab.practice import PracticeHost

    for kind in (SshShell, LastingShell):
        setattr(kind, "run", noting(kind.run, lambda ran: f"exit {ran.exit_code}"))  # noqa: B010
    setattr(PracticeHost, "ssh", noting(PracticeHost.ssh, lambda done: f"exit {done.returncode}"))  # noqa: B010


def shown(words: Iterable[str]) -> str:
    """One line: of a script the first that is no comment, for the same head stands in front of each."""
    said = []
    for word in words:
        lines = [line.strip() for line in word.splitlines()]
        telling = [line for line in lines if line and not line.startswith("#")]
        said.append(f"{telling[0]} ..." if len(telling) > 1 else "".join(telling))
    return " ".join(said)[:300]


def noting(run: Callable[..., Any], told: Callable[[Any], str]) -> Callable[..., Any]:
    """The same function; what it was asked and what came of it stands in `_commands`."""

    @functools.wraps(run)
    def noted(self: Any, *argv: Any, **more: Any) -> Any:
        words = argv[0] if len(argv) == 1 and not isinstance(argv[0], str) else argv
        line = shown(map(str, words if isinstance(words, Sequence) else [words]))
        try:
            done = run(self, *argv, **more)
        except BaseException as error:
            _commands.append(f"{type(error).__name__}: {line}")
            raise
        _commands.append(f"{told(done)}: {line}")
        return done

    return noted
