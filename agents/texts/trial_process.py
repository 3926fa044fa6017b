# SPDX-License-Identifier: Apache-2.0
"""Process that reads figures out of texts by lines of extraction, with limits on CPU time and memory; see `bounded`.

    python -m agents.texts.trial_process < request

A request is a line of JSON, then the files' bytes one after the other.

A JSONPath cannot be stopped from inside as a regex can: a filter of 500 characters takes seconds for a sample of 1 MB.
A timer of CPU time ends each line, and the kernel the whole process. Each line's rows are written at once.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from agents.texts import extraction
from agents.texts.extraction import ExtractionOutcome

NICENESS = 5
OUT_OF_MEMORY = "MiB of memory for this text"


@dataclass(frozen=True)
class Request:
    """Lines to try, and what they may cost: seconds of CPU for each line and for all, bytes of address space.

    `sizes`: bytes of each file; `regex_seconds`: what a regex may take of a short text.
    """

    lines: list[str]
    sizes: dict[str, int]
    regex_seconds: float
    line_seconds: float
    total_seconds: int
    memory_bytes: int


class TooSlow(BaseException):
    """The line has used its CPU time. No Exception: no parser below may take it for an error of its own."""


def run_request() -> None:
    request = Request(**json.loads(sys.stdin.buffer.readline()))
    confine(request)
    names: dict[str, str] = {}
    texts = {
        name: extraction.decode_output(sys.stdin.buffer.read(size))
        for name, size in request.sizes.items()
    }
    for number, line in enumerate(request.lines, 1):
        earlier = {name for name, defined_by in names.items() if defined_by != line}
        rows = try_bounded(request, number, line, texts, earlier)
        names |= {row.name: line for row in rows}
        print(json.dumps([asdict(row) for row in rows]), flush=True)
        if any(OUT_OF_MEMORY in row.trouble for row in rows):
            # what is left of the memory may not even do for an error
            return


def confine(request: Request) -> None:
    """Give up what the process does not need, for good."""
    os.nice(NICENESS)
    limits = {
        resource.RLIMIT_CPU: request.total_seconds,
        resource.RLIMIT_AS: request.memory_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def try_bounded(
    request: Request, number: int, line: str, texts: Mapping[str, str], earlier: set[str]
) -> list[ExtractionOutcome]:
    """Outcome of one line, or that it takes too long or too much memory."""
    name = line.partition(" ")[0]
    try:
        with cpu_limit(request.line_seconds):
            return extraction.try_line(number, line, texts, request.regex_seconds, earlier)
    except TooSlow:
        cure = "name more of the path, or compare less in the filter"
        trouble = f"takes more than {request.line_seconds:g} s for this text: {cure}"
    except MemoryError:
        most = request.memory_bytes // 2**20
        trouble = f"takes more than {most} {OUT_OF_MEMORY}: name more of the path"
    return [ExtractionOutcome(line, name, trouble=trouble)]


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the block after so many seconds of CPU time."""
    signal.signal(signal.SIGPROF, _end_line)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _end_line(number: int, frame: Any) -> None:
    raise TooSlow


if __name__ == "__main__":
    run_request()
