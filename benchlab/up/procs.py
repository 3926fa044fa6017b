# SPDX-License-Identifier: Apache-2.0
"""Processes: start them so that they die with us, recognize them by pid and start time, end them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
# Loaded before any fork: a child between fork and exec must not load libraries.
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Identity:
    """The identity of a process: a pid may be reused, a pid with its start time is not."""

    name: str
    pid: int
    # clock ticks since boot
    started: int

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def as_json(self) -> dict[str, str | int]:
        return asdict(self)


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat (proc(5)); None for no such process or one that is only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before it may hold blanks and brackets.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def identify(name: str, pid: int) -> Identity | None:
    started = start_time(pid)
    return None if started is None else Identity(name, pid, started)


def identity_from_json(value: object) -> Identity | None:
    """Identity that `as_json` wrote; None for anything else."""
    try:
        return Identity(str(value["name"]), int(value["pid"]), int(value["started"]))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Owner:
    """A user to drop to."""

    uid: int
    gid: int


def before_exec(death: signal.Signals) -> Callable[[], None]:
    """A function to run in the child before exec.

    It unblocks all signals, and has the kernel send `death` when the supervisor is gone.
    """

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        LIBC.prctl(PR_SET_PDEATHSIG, int(death), 0, 0, 0)

    return prepare


def spawn(
    argv: Sequence[str | Path],
    env: Mapping[str, str],
    output: IO[bytes] | int | None,
    *,
    owner: Owner | None = None,
    cwd: Path | str | None = None,
    death: signal.Signals = signal.SIGTERM,
    stdin: bytes | None = None,
    errors: IO[bytes] | int = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Start in a session of its own (a terminal's Ctrl-C reaches only us); output None: ours."""
    process = subprocess.Popen(
        [str(word) for word in argv],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        user=owner.uid if owner else None,
        group=owner.gid if owner else None,
        extra_groups=[] if owner else None,
        preexec_fn=before_exec(death),
    )
    if stdin is not None and process.stdin:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin)
            process.stdin.close()
    return process


def signal_group(identity: Identity, number: signal.Signals) -> None:
    """Send a signal to the process, or to its whole group if it leads one. A process that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(identity.pid) == identity.pid:
            os.killpg(identity.pid, number)
        else:
            os.kill(identity.pid, number)


def end(
    identities: Iterable[Identity],
    first: signal.Signals = signal.SIGTERM,
    patience_s: float = 10.0,
    pause: Callable[[float], None] = time.sleep,
) -> list[Identity]:
    """Ask all to end, wait, then kill the rest; return those that had to be killed."""
    alive = [identity for identity in identities if identity.alive]
    for identity in alive:
        signal_group(identity, first)
    deadline = time.monotonic() + patience_s
    while (alive := [i for i in alive if i.alive]) and time.monotonic() < deadline:
        pause(0.05)
    for identity in alive:
        signal_group(identity, signal.SIGKILL)
    return alive


def with_environment(marker: str) -> list[Identity]:
    """Our user's processes that carry `NAME=value` in their environment, ourselves excepted; "" is carried by none."""
    pattern = marker.encode()
    # what follows the last NUL, in every environment
    if not pattern:
        return []
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if pattern in (entry / "environ").read_bytes().split(b"\0"):
                processes.append(identify(marker, int(entry.name)))
    return [identity for identity in processes if identity]
