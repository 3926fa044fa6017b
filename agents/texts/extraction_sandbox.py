# SPDX-License-Identifier: Apache-2.0
"""Figures of a text by a person's patterns, read in a process that cannot hold up, or fill, the one that asks.

    python -m agents.texts.extraction_sandbox < request

A request is a line of JSON, then the files' bytes one after the other. A JSONPath cannot be stopped from inside as a
regex can: a filter of 500 characters takes seconds for a sample of 1 MB. A timer of CPU time ends each line, and the
kernel the whole process. Each line's rows are written at once.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.contracts import Metric, ParseError, Unit
from agents.texts import extraction
from agents.texts.extraction import MIN_CHARACTERS_PER_SECOND, ExtractionOutcome

# Where `agents` is.
ROOT = Path(__file__).parents[2]
# Of a run's output: seconds of CPU for a line and for all, beside those for reading the text; bytes of address space.
LINE_SECONDS = 10.0
TOTAL_SECONDS = 60
MEMORY_BYTES = 2**30
REGEX_SECONDS = 5.0
# On a busy machine; CPU time is what counts.
WALL_FACTOR = 5
NOT_TRIED = "was not tried: the lines before it took all of the time, or too much memory"


def extract_metrics(lines: Sequence[str], outputs: Mapping[str, bytes]) -> list[Metric]:
    """All figures of a run's output. Raises ParseError naming the line of extraction that found none, and where."""
    rows = _outcomes_by_file(lines, outputs)
    for _, row in rows:
        if row.trouble:
            raise _parse_error(row)
    return [_metric(file, row) for file, row in rows]


def extract_available_metrics(lines: Sequence[str], outputs: Mapping[str, bytes]) -> list[Metric]:
    """Figures that can be extracted; the others are left out. Raises nothing."""
    return [
        _metric(file, row) for file, row in _outcomes_by_file(lines, outputs) if not row.trouble
    ]


def _outcomes_by_file(
    lines: Sequence[str], outputs: Mapping[str, bytes]
) -> list[tuple[str, ExtractionOutcome]]:
    """(file, row) of each line."""
    file_of = {
        line: extraction.file
        for line, extraction in zip(lines, extraction.parse_extractions(lines), strict=True)
    }
    texts = {name: outputs[name] for name in sorted({*file_of.values()} & outputs.keys())}
    reading = sum(map(len, texts.values())) / MIN_CHARACTERS_PER_SECOND
    request = Request(
        lines=list(lines),
        sizes={name: len(raw) for name, raw in texts.items()},
        regex_seconds=REGEX_SECONDS,
        line_seconds=LINE_SECONDS + reading,
        total_seconds=int(TOTAL_SECONDS + 10 * reading),
        memory_bytes=MEMORY_BYTES,
    )
    rows = run_extraction(request, b"".join(texts.values()), WALL_FACTOR * request.total_seconds)
    return [(file_of[row.extraction], row) for row in rows]


def _metric(file: str, row: ExtractionOutcome) -> Metric:
    labels = {"number": row.labels} if row.labels else {}
    return Metric(row.name, row.value, Unit(row.unit), labels, row.note, row.line, file)


def _parse_error(row: ExtractionOutcome) -> ParseError:
    words = row.trouble if row.trouble.startswith(f"{row.name}: ") else f"{row.name} {row.trouble}"
    error = ParseError(words)
    # which the words have
    error.line, error.text = row.line, row.line_text
    return error


def run_extraction(
    request: Request, content: bytes, wall_seconds: float
) -> list[ExtractionOutcome]:
    """Outcome of each line. `content`: the bytes of all files, in the order of `sizes`."""
    output, completed = _run_process(request, content, wall_seconds)
    # A line that was cut short is no answer.
    answers = [json.loads(line) for line in output.splitlines(keepends=True) if line[-1:] == b"\n"]
    rows = [ExtractionOutcome(**row) for answer in answers for row in answer]
    for position, line in enumerate(request.lines[len(answers) :]):
        trouble = NOT_TRIED if completed or position else _limits_message(request)
        rows.append(ExtractionOutcome(line, line.partition(" ")[0], trouble=trouble))
    return rows


def _run_process(request: Request, content: bytes, wall_seconds: float) -> tuple[bytes, bool]:
    """Return what the process wrote, and whether it ended by itself. It gets no secret of ours."""
    try:
        ended = subprocess.run(
            [sys.executable, "-B", "-s", "-m", "agents.texts.extraction_sandbox"],
            input=json.dumps(asdict(request)).encode() + b"\n" + content,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)},
            cwd="/",
            timeout=wall_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", False
    return ended.stdout, ended.returncode == 0


def _limits_message(request: Request) -> str:
    most = f"{request.total_seconds} s and {request.memory_bytes // 2**20} MiB"
    return f"takes too long, or too much memory, for this text: all lines together have {most}"


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
    confine(request.total_seconds, request.memory_bytes)
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


def confine(cpu_seconds: int, memory_bytes: int) -> None:
    """Give up what the process does not need, for good."""
    os.nice(NICENESS)
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_AS: memory_bytes,
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
