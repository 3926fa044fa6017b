# SPDX-License-Identifier: Apache-2.0
"""One child of the supervisor: start it, see whether it is ready, start it again when it dies."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchlab.up.procs import Identity, Owner, identify, spawn

LONGEST_PAUSE_S = 30.0
# A service alive for so long starts with a pause of 1 s again when it dies.
SETTLED_S = 60.0


@dataclass(frozen=True)
class Recipe:
    """Recipe to run one service."""

    name: str
    argv: tuple[str | Path, ...]
    env: Mapping[str, str]
    ready: Callable[[int], bool] = lambda pid: True
    owner: Owner | None = None
    cwd: Path | str | None = None
    stop: signal.Signals = signal.SIGTERM
    stdin: bytes | None = None


@dataclass
class Service:
    """A running service; `due` is when a dead one is started again (monotonic seconds)."""

    recipe: Recipe
    log: Path
    # file descriptor of the pipe into its log
    output: int
    process: subprocess.Popen[bytes] | None = None
    identity: Identity | None = None
    # bytes; the output of this process comes after them
    log_begins: int = 0
    born: float = 0.0
    deaths: int = 0
    due: float | None = None
    last_code: int | None = field(default=None)

    def start(self) -> None:
        recipe = self.recipe
        self.log_begins = size(self.log)
        self.process = spawn(
            recipe.argv,
            recipe.env,
            self.output,
            owner=recipe.owner,
            cwd=recipe.cwd,
            death=recipe.stop,
            stdin=recipe.stdin,
        )
        self.identity = identify(recipe.name, self.process.pid)
        self.born, self.due = time.monotonic(), None

    def died(self) -> bool:
        """True once per death; `due` is then the time of the restart."""
        if self.process is None or self.process.poll() is None:
            return False
        now = time.monotonic()
        self.last_code, self.process, self.identity = self.process.returncode, None, None
        self.deaths = 1 if now - self.born > SETTLED_S else self.deaths + 1
        self.due = now + pause_after(self.deaths)
        return True

    @property
    def ready(self) -> bool:
        return self.process is not None and self.recipe.ready(self.process.pid)


def pause_after(deaths: int) -> float:
    """Seconds before the next try: 1, 2, 4, ... at most LONGEST_PAUSE_S."""
    return min(LONGEST_PAUSE_S, 2.0 ** (deaths - 1))


def describe_end(code: int | None) -> str:
    if code is None:
        return "gone"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


def size(log: Path) -> int:
    """Size of the log in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def since(log: Path, begins: int) -> str:
    """The log after so many bytes, at most 8 KiB; "" if that is empty or a traceback, which is not for users."""
    try:
        with log.open("rb") as file:
            file.seek(begins)
            text = file.read(8192).decode(errors="replace").strip()
    except OSError:
        return ""
    return "" if "Traceback" in text else text


def tail(log: Path, lines: int = 8) -> str:
    """The log's last lines, indented; "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            all_lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in all_lines[-lines:])
