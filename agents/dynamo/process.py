# SPDX-License-Identifier: Apache-2.0
"""dynamo itself: started on the host in a process group of its own, and ended with it. Runs on the host."""

import contextlib
import errno
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from agents.dynamo import hostfacts
from agents.dynamo.wire import DynamoError

# the file with its output
LOG = "dynamo.log"
# a directory with libaio under the name that dynamo expects
LIBRARIES = "libraries"
# With more, dynamo's tables overflow.
MAX_CPUS = 64
PR_SET_PDEATHSIG = 1
# A name space of its own, so that the shorter CPU list and the name are not visible outside.
PRIVATE = """
mount --make-rprivate / || exit 1
[ -z "$1" ] || mount --bind "$1" /proc/cpuinfo || exit 1
[ -z "$2" ] || echo "$2" >/proc/sys/kernel/hostname || exit 1
shift 2
exec "$@"
"""
# Output of every good run: beginnings of lines, and beginnings that follow a name of ours.
NOISE = (
    "Dynamo version",
    "*** Grunt thread exiting with",
    "*** If dynamo and iometer hangs",
    "*** you use a correct -m",
    "*** can ping from",
    "Login accepted",
    "Command line parameter",
    "Looking for Iometer",
    "New manager name",
    "Sending login request",
    "Successful PortTCP::",
    "- port name:",
    "Reporting ",
    "Found ",
    "Finished reporting",
    "Find ",
    "Physical drives",
    "done.",
    "sent.",
    "Worker ",
    "All workers ",
    "Adding ",
    "Access specifications for test",
    "Grunt: Grow",
    "Grunt: Grunt data buffer",
    "Growing ",
    "Seeding ",
    "Generating random data",
    "Using existing random data",
    "Done generating",
    "clearing target list",
    "Preparing disks",
    "Starting...",
    "Started.",
    "Opening targets",
    "Opened ",
    "Beginning to perform",
    "Performing I/O",
    "Recording ",
    "Stopping...",
    "Stopped.",
    "Removing ",
    "Ending execution",
    "Excluding the following",
    # The console closed the connection and reports the reason.
    "Error receiving message",
)
USUAL = re.compile(
    r"benchlab-[0-9a-f]+$|[\d.]+ \(port \d+\)$|/.* (?:preparing|done)\.$|\d+ worker\(s\) are created\.$"
)


def wrap_command(argv: Sequence[str], work: Path) -> List[str]:
    """The command, in a private name space if dynamo could not run directly on this host."""
    many, nameless = hostfacts.cpus() > MAX_CPUS, not hostfacts.own_name_resolves()
    if not many and not nameless:
        return list(argv)
    if os.geteuid() != 0:
        raise DynamoError("host", root_required_message(many))
    short = work / "cpuinfo"
    if many:
        short.write_text(hostfacts.first_cpus(MAX_CPUS))
    return private_command(argv, str(short) if many else "", nameless)


def root_required_message(many: bool) -> str:
    why = (
        f"more than {MAX_CPUS} CPUs"
        if many
        else "a host name that does not resolve (fix: /etc/hosts)"
    )
    return f"this host has {why}: dynamo can only run there as root"


def private_command(argv: Sequence[str], cpuinfo: str, nameless: bool) -> List[str]:
    """The command in a name space with that list of CPUs ("": its own) and, where `nameless`, a name that resolves."""
    names = ["--mount", "--uts"] if nameless else ["--mount"]
    arguments = [cpuinfo, "localhost" if nameless else ""]
    return ["unshare", *names, "sh", "-c", PRIVATE, "dynamo", *arguments, *argv]


class DynamoProcess:
    """The running program, with its output for error messages."""

    def __init__(self, argv: Sequence[str], work: Path, directories: Sequence[str]) -> None:
        # A report of targets would touch every file system and open every disk: show dynamo only ours.
        table = work / "mnttab"
        table.write_text("".join(f"none {name} ext4 rw 0 0\n" for name in directories))
        env = dict(os.environ, LC_ALL="C", MNTTAB=str(table))
        renamed = hostfacts.renamed_libaio(argv[0])
        if renamed:
            (work / LIBRARIES).mkdir(exist_ok=True)
            link = work / LIBRARIES / hostfacts.LIBAIO
            if not link.is_symlink():
                link.symlink_to(renamed)
            library_path = env.get("LD_LIBRARY_PATH")
            env["LD_LIBRARY_PATH"] = str(work / LIBRARIES) + (
                ":" + library_path if library_path else ""
            )
        self._killed = False
        self.log = work / LOG
        with self.log.open("wb") as out:
            try:
                self._process = subprocess.Popen(
                    wrap_command(argv, work),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    env=env,
                    stderr=subprocess.STDOUT,
                    cwd=str(work),
                    preexec_fn=_session_starter(),
                )
            except OSError as error:
                raise DynamoError("host", f"{argv[0]}: {_start_error(error)}") from None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        """The end of its output, without the lines of every good run; complete only after it has ended."""
        text = self.log.read_bytes()[-4000:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        words = [line for line in lines if not (line.startswith(NOISE) or USUAL.match(line))]
        status = self._process.poll()
        crashed = ""
        if status is not None and status < 0 and not self._killed:
            crashed = f" (killed by signal {-status})"
        return (f"; dynamo printed: {' / '.join(words[-3:])}" if words else "") + crashed

    def printed_version(self) -> str:
        """The line that it prints when it starts; "" if it did not."""
        text = self.log.read_bytes()[:4000].decode("utf-8", "replace")
        return next((line.strip() for line in text.splitlines() if "ynamo version" in line), "")

    def wait_or_kill(self, patience: float) -> None:
        """Wait for it, then end its process group. Harmless if repeated."""
        until = time.monotonic() + patience
        while not self.has_ended and time.monotonic() < until:
            time.sleep(0.05)
        if not self.has_ended:
            self._killed = True
            # It ended just now.
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _start_error(error: OSError) -> str:
    """The program itself was seen to be there."""
    if error.errno in (errno.ENOENT, errno.ENOEXEC):
        return (
            f"{error.strerror}: this host cannot run that executable format; use the x86-64 build "
            "of dynamo, or for a 32-bit one install the 32-bit libraries (libc6:i386, libaio1:i386)"
        )
    return str(error.strerror)


def _session_starter() -> Callable[[], None]:
    """Function for the child: its own session keeps a signal to us from cutting its I/O, but it dies with us."""
    prctl: Optional[Callable[[int, int], int]] = None
    with contextlib.suppress(ImportError, OSError):
        # a Python without it: dynamo then ends when its connection is closed
        import ctypes

        prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        os.setsid()
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return prepare
