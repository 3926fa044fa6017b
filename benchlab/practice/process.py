# SPDX-License-Identifier: Apache-2.0
"""A process that we started, distinguished from any later process with the same pid."""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice.errors import PracticeError


@dataclass(frozen=True)
class ProcessId:
    """A pid with its start time (clock ticks since boot) and the boot it belongs to."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of_pid(cls, pid: int) -> "ProcessId | None":
        """Process that has this pid now; None when there is none, or only a zombie."""
        try:
            # The command's name may hold spaces and brackets: fields count from its end.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        if fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]), _boot())

    @property
    def alive(self) -> bool:
        """True while this very process runs."""
        return ProcessId.of_pid(self.pid) == self

    def kill(self) -> None:
        """End the process, with its group if it leads one; does nothing when it has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
                else:
                    os.kill(self.pid, signal.SIGKILL)
        self.wait_gone()

    def wait_gone(self, timeout: float = 30) -> None:
        """Return when the process is gone, and reap it if it is our child.

        Of one with several threads the first may be a zombie while the others still hold its files, locks and ports.
        """
        deadline = time.monotonic() + timeout
        while True:
            if ProcessId.of_pid(self.pid) not in (None, self):
                # somebody else has its number now
                return
            try:
                ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            except ChildProcessError:
                ended = not self.alive and not _threads(self.pid)
            if ended:
                return
            if time.monotonic() > deadline:
                raise PracticeError(f"process {self.pid} does not end, even killed")
            time.sleep(0.02)


def _threads(pid: int) -> int:
    """Number of its threads that still run."""
    running = 0
    for entry in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            running += entry.read_text().rpartition(")")[2].split()[0] not in "ZX"
    return running


def spawn(argv: Sequence[str], log: Path, *, inherited_fds: Sequence[int] = ()) -> ProcessId:
    """Start a command in a session of its own, output to `log`; it outlives this process.

    `keep` are file descriptors that it inherits under the same numbers.
    """
    # Not subprocess.Popen: its object complains when it is dropped while the process runs.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    actions = [
        (os.POSIX_SPAWN_DUP2, nothing, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    for descriptor in inherited_fds:
        os.set_inheritable(descriptor, True)
    try:
        pid = os.posix_spawnp(
            argv[0], list(argv), os.environ, file_actions=actions, setsid=True, setsigmask=()
        )
    except FileNotFoundError as error:
        raise PracticeError(f"{argv[0]} is not installed on this machine") from error
    finally:
        os.close(output)
        os.close(nothing)
    started = ProcessId.of_pid(pid)
    if started is None:
        raise PracticeError(f"{argv[0]} ended at once: see {log}")
    return started


def inside(namespace: Path) -> list[ProcessId]:
    """Every process whose network namespace is the one mounted at `namespace`."""
    inode = namespace.stat().st_ino
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if (entry / "ns/net").stat().st_ino == inode and (
                process := ProcessId.of_pid(int(entry.name))
            ):
                processes.append(process)
    return processes


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
