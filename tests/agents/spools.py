"""Shared by tests of the runner: its notes and processes, looked at from this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agents.jobs import job, spool
from agents.jobs.job import State


def notes(here: job.Spool) -> dict[str, str]:
    folder = Path(here.base, f"benchlab-{os.geteuid()}", here.name)
    texts = [(folder / name).read_text() for name in ("begun", "tool", "running")]
    return {
        k: v.strip('"')
        for k, _, v in (line.partition("=") for t in texts for line in t.split("\n"))
    }


def rewrite(here: job.Spool, name: str, old: str, new: str) -> None:
    path = Path(here.base, f"benchlab-{os.geteuid()}", here.name, name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def running(shell, here, tool) -> dict[str, int]:
    """Starts the tool, waits until it runs; the PIDs of leader and tool."""
    job.start_job(shell, here, tool)
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    noted = notes(here)
    return {name: int(noted[name].split()[0]) for name in ("leader", "tool")}


def eventually(true, within_s: float = 10.0) -> None:
    limit = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def works_in(process: Path, here: job.Spool) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(here.base)
    except OSError:
        return False


def in_group(pgid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(words[2]) == pgid and words[0] not in "ZX":
            found.append(int(entry.name))
    return found


def archive(tool) -> bytes:
    return spool.archive(tool, (), 1.0)
