# SPDX-License-Identifier: Apache-2.0
"""Trials of a command's lines of extraction, in a process of their own that cannot hold up the web server.

Two run at once, and one of a team: whoever tries costly patterns waits for themselves.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agents.texts import extraction_sandbox
from agents.texts.extraction import ExtractionOutcome
from agents.texts.extraction_sandbox import Request
from benchlab.web import request_slots

MAX_TRIALS = 2
WAIT_SECONDS = 5.0
LINE_SECONDS = 2.0
TOTAL_SECONDS = 6
# On a busy machine; CPU time is what counts.
WALL_SECONDS = 30.0
MEMORY_BYTES = 512 * 2**20
REGEX_SECONDS = 2.0

_trial_slots = threading.BoundedSemaphore(MAX_TRIALS)
_team_locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)


class Busy(Exception):
    """Others are trying patterns at the moment."""


def try_lines(team: int, sample: str, lines: Sequence[str], file: str) -> list[ExtractionOutcome]:
    """Outcome of each line on the sample, were it the program's `file`. Raises Busy."""
    content = sample.encode()
    request = Request(
        lines=list(lines),
        sizes={file: len(content)},
        regex_seconds=REGEX_SECONDS / len(lines),
        line_seconds=LINE_SECONDS,
        total_seconds=TOTAL_SECONDS,
        memory_bytes=MEMORY_BYTES,
    )
    with _trial_slot(team):
        return extraction_sandbox.run_extraction(request, content, WALL_SECONDS)


@contextmanager
def _trial_slot(team: int) -> Iterator[None]:
    request_slots.release_slot()
    same_team = _team_locks[team]
    if not same_team.acquire(timeout=WAIT_SECONDS):
        raise Busy
    try:
        if not _trial_slots.acquire(timeout=WAIT_SECONDS):
            raise Busy
        try:
            yield
        finally:
            _trial_slots.release()
    finally:
        same_team.release()
