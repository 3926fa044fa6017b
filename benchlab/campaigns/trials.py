"""Trials of a command's lines of extraction, in a process of their own that cannot hold up the web server.

Two run at once, and one of a team: whoever tries costly patterns waits for themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from django.conf import settings

from agents.texts.extraction import Tried
from agents.texts.trial_process import Request
from benchlab.web import places

AT_ONCE = 2
WAIT_SECONDS = 5.0
LINE_SECONDS = 2.0
TOTAL_SECONDS = 6
# On a busy machine; CPU time is what counts.
WALL_SECONDS = 30.0
MEMORY_BYTES = 512 * 2**20
REGEX_SECONDS = 2.0
NOT_TRIED = "was not tried: the lines before it took all of the time, or too much memory"

_places = threading.BoundedSemaphore(AT_ONCE)
_of_team: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)


class Busy(Exception):
    """Others try patterns at the moment."""


def try_lines(team: int, sample: str, lines: Sequence[str], file: str) -> list[Tried]:
    """Outcome of each line on the sample, were it the program's `file`. Raises Busy."""
    request = Request(
        sample=sample,
        lines=list(lines),
        file=file,
        regex_seconds=REGEX_SECONDS / len(lines),
        line_seconds=LINE_SECONDS,
        total_seconds=TOTAL_SECONDS,
        memory_bytes=MEMORY_BYTES,
    )
    with _turn(team):
        output, completed = _run(request)
    # A line that was cut short is no answer.
    answers = [json.loads(line) for line in output.splitlines(keepends=True) if line[-1:] == b"\n"]
    rows = [Tried(**row) for answer in answers for row in answer]
    for position, line in enumerate(lines[len(answers) :]):
        trouble = NOT_TRIED if completed or position else _fatal()
        rows.append(Tried(line, line.partition(" ")[0], trouble=trouble))
    return rows


@contextmanager
def _turn(team: int) -> Iterator[None]:
    places.leave()
    same_team = _of_team[team]
    if not same_team.acquire(timeout=WAIT_SECONDS):
        raise Busy
    try:
        if not _places.acquire(timeout=WAIT_SECONDS):
            raise Busy
        try:
            yield
        finally:
            _places.release()
    finally:
        same_team.release()


def _run(request: Request) -> tuple[bytes, bool]:
    """Return what the process wrote, and whether it ended by itself. It gets no secret of ours."""
    try:
        ended = subprocess.run(
            [sys.executable, "-B", "-s", "-m", "agents.texts.trial_process"],
            input=json.dumps(asdict(request)).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(settings.BASE_DIR)},
            cwd="/",
            timeout=WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", False
    return ended.stdout, ended.returncode == 0


def _fatal() -> str:
    most = f"{TOTAL_SECONDS} s and {MEMORY_BYTES // 2**20} MiB"
    return f"takes too long, or too much memory, for this sample: all lines together have {most}"
