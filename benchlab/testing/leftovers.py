# SPDX-License-Identifier: Apache-2.0
"""Leftovers of a killed test run on this machine: hosts, processes, namespaces, mounts, directories.

Each run has a name: pid and start time of its `manage.py test`, in the environment of all that it starts and in the
directory of its stores. Whatever carries the name of a run that is no more is cleared away, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchlab.practice import PracticeError, sweep_leftovers
from benchlab.practice.machine import HostRecord
from benchlab.practice.network import Network
from benchlab.practice.paths import cache_root, every_hosts_dir, locked
from benchlab.up.procs import Identity, end, start_time

RUN = "BENCHLAB_TEST_RUN"
PLACES = "benchlab-test-"
OWNER = "run.json"
NAMESPACES = Path("/run/netns")
MEMORY = Path("/dev/shm")  # noqa: S108  # only a directory with a name of our own goes there


def this_run() -> str:
    """PID.STARTED of this process, for RUN."""
    return f"{os.getpid()}.{start_time(os.getpid())}"


def runs(name: str) -> bool:
    """True while the run of that name goes on, and for anything that is not the name of a run."""
    pid, _, started = name.partition(".")
    return not (pid.isdigit() and started.isdigit()) or start_time(int(pid)) == int(started)


def own(place: Path, *elsewhere: Path) -> None:
    """Write down which run a directory belongs to, and which directories elsewhere go with it."""
    name = os.environ.get(RUN) or this_run()
    (place / OWNER).write_text(json.dumps({"run": name, "with": [str(path) for path in elsewhere]}))


def clear(ended: str = "") -> list[str]:
    """End and remove what dead runs left, and the run named `ended`; return a line for each thing.

    Only one process clears at a time on a machine, so that each thing is reported once.
    """
    with locked(cache_root() / "clearing.lock"):
        names = [f"host {name}" for name in _hosts()]
        names += [f"process {process.pid} ({process.name})" for process in _processes(ended)]
        names += [f"network namespace {name}" for name in _namespaces()]
        return names + [line for place in _places() for line in _remove(place)]


def _hosts() -> list[str]:
    """Remove the hosts of dead processes, for all installations in the cache and for tests; return their names."""
    names: list[str] = []
    for place in dict.fromkeys((*every_hosts_dir(), memory_place())):
        with hosts_in(place), suppress(PracticeError, OSError):
            names += sweep_leftovers()
        names += _remains(place)
    return names


def _remains(place: Path) -> Iterator[str]:
    """Remove the files of hosts whose maker was killed while it removed them.

    The record that names their owner is already gone.
    """
    for entry in sorted(place.glob("rig-*")) if place.is_dir() else ():
        made_by = re.fullmatch(r"rig-(\d+)-\d+(\.lock)?", entry.name)
        if not made_by or start_time(int(made_by[1])) is not None:
            continue
        if made_by[2]:
            entry.unlink(missing_ok=True)
        elif HostRecord.load(entry) is None:
            shutil.rmtree(entry, ignore_errors=True)
            yield f"{entry.name} (its files)"


@contextmanager
def hosts_in(place: Path) -> Iterator[None]:
    """Make this process use the practice hosts in that directory."""
    before = os.environ.get("BENCHLAB_HOSTS")
    os.environ["BENCHLAB_HOSTS"] = str(place)
    try:
        yield
    finally:
        del os.environ["BENCHLAB_HOSTS"]
        if before is not None:
            os.environ["BENCHLAB_HOSTS"] = before


def memory_place() -> Path:
    """Directory of tests' practice hosts in memory: always the same, so that leftovers can be found."""
    return MEMORY / f"benchlab-hosts-{os.geteuid()}"


def _processes(ended: str) -> list[Identity]:
    """End and return the processes of dead runs.

    Processes that dropped their environment die with their parents or their host.
    """
    processes = [process for process in _carrying(ended) if process.pid != os.getpid()]
    end(processes, patience_s=5)
    return processes


def _carrying(ended: str) -> Iterator[Identity]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            words = (entry / "environ").read_bytes().split(b"\0")
            marks = [word for word in words if word.startswith(f"{RUN}=".encode())]
            started = start_time(int(entry.name))
            run = marks[-1].decode().partition("=")[2] if marks else ""
            if started and marks and (run == ended or not runs(run)):
                yield Identity((entry / "comm").read_text().strip(), int(entry.name), started)


def _namespaces() -> Iterator[str]:
    """Remove the network namespaces of hosts whose record is already gone.

    A namespace's name holds the pid of the process that made it.
    """
    for entry in sorted(NAMESPACES.glob("practice-rig-*")) if NAMESPACES.is_dir() else ():
        made_by = re.match(r"practice-rig-(\d+)-", entry.name)
        if made_by and start_time(int(made_by[1])) is None:
            with suppress(PracticeError, OSError):
                Network(entry.name).down()
                yield entry.name


def _places() -> Iterator[Path]:
    for place in sorted(Path(tempfile.gettempdir()).glob(f"{PLACES}*")):
        owner = _owner(place)
        if owner and not runs(str(owner.get("run", ""))):
            yield place


def _owner(place: Path) -> dict[str, object]:
    try:
        record = json.loads((place / OWNER).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _remove(place: Path) -> Iterator[str]:
    """Remove the directory and those that belong to it, after unmounting what is mounted below."""
    elsewhere = _owner(place).get("with", [])
    for path in [*map(Path, elsewhere if isinstance(elsewhere, list) else []), place]:
        for mount in _mounted_below(path):
            if subprocess.run(["umount", mount], capture_output=True, check=False).returncode == 0:
                yield f"mount {mount}"
        if path.exists() and not _mounted_below(path):
            shutil.rmtree(path, ignore_errors=True)
            yield f"directory {path}"


def _mounted_below(path: Path) -> list[str]:
    """Mount points below the directory, the innermost first (proc(5): field 5 of mountinfo)."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((p for p in points if Path(p).is_relative_to(path)), reverse=True)
