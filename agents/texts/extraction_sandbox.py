# SPDX-License-Identifier: Apache-2.0
"""Figures of a text by a person's patterns, read in a process that cannot hold up, or fill, the one that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from agents.contracts import Metric, ParseError, Unit
from agents.texts import extraction
from agents.texts.extraction import ExtractionOutcome
from agents.texts.locate import MIN_CHARACTERS_PER_SECOND
from agents.texts.trial_process import Request

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
            [sys.executable, "-B", "-s", "-m", "agents.texts.trial_process"],
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
