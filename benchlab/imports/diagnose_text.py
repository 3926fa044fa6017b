# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of texts that nobody stores: the command `diagnose`, and a confined process for web requests.

Neither needs a database. The process that answers a request has limits of CPU time and memory, so a hostile text
costs its sender an answer and the server nothing else:

    python -m benchlab.imports.diagnose_text SECONDS NAME < text
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.plaintext import visible
from agents.texts.extraction_sandbox import confine
from benchlab.diagnosis.answer_json import (
    AnswerJson,
    DiagnosisJson,
    NextStepJson,
    diagnose_text_evidence,
)
from benchlab.diagnosis.pasted import read_evidence
from benchlab.imports.texts import NotText, decode_upload
from benchlab.installation import ROOT, command
from benchlab.web import request_slots

MODULE = "benchlab.imports.diagnose_text"
# of one text on a page and over the API
MAX_BYTES = 2**20
TOO_LARGE = "A text of at most 1 MB can be diagnosed here. Import larger files."
# A text of 1 MB takes 1 to 3 s, most of it reading fio's JSON.
CPU_SECONDS = 10
# On a busy machine; CPU time is what counts.
WALL_SECONDS = 40.0
# Address space; the readers' modules take 100 MB of it.
MEMORY_BYTES = 2**30
# processes at once of each web process
MAX_PROCESSES = 2
WAIT_SECONDS = 5.0
WIDTH = 80
MARKS = {"doubt": "DOUBT", "limit": "LIMIT", "fine": "FINE"}

_slots = threading.BoundedSemaphore(MAX_PROCESSES)


class Undiagnosed(Exception):
    """Reason why there is no answer, as a sentence."""


class Busy(Undiagnosed):
    """Others are being answered at the moment."""


@dataclass(frozen=True, slots=True)
class DecodedAnswer:
    """The answer for one file. `trouble`: why it could not be read, "" if it was."""

    name: str
    answer: AnswerJson | None
    trouble: str = ""


def diagnose_bytes(name: str, raw: bytes) -> AnswerJson:
    """The answer for a file or a pasted text. Raises NotText."""
    decoded = decode_upload(name, raw)
    evidence, reading = read_evidence(decoded.text, name)
    unreadable = [result.trouble for result in reading.results if result.trouble]
    return diagnose_text_evidence(evidence, unreadable)


def diagnose_confined(name: str, raw: bytes) -> AnswerJson:
    """The same from a process with limits. Raises Undiagnosed, and Busy while too many others wait."""
    if len(raw) > MAX_BYTES:
        raise Undiagnosed(TOO_LARGE)
    with _process_slot():
        output = _run_process(name, raw)
    try:
        result = json.loads(output)
    except ValueError:
        raise Undiagnosed(
            f"Reading this text takes more than {CPU_SECONDS} s or more memory than it may have. "
            "Paste a smaller part of it."
        ) from None
    if trouble := result.get("trouble"):
        raise Undiagnosed(f"This cannot be read: {trouble}.")
    answer: AnswerJson = result["answer"]
    return answer


@contextmanager
def _process_slot() -> Iterator[None]:
    request_slots.release_slot()
    if not _slots.acquire(timeout=WAIT_SECONDS):
        raise Busy("Other texts are being diagnosed at the moment. Try again in a few seconds.")
    try:
        yield
    finally:
        _slots.release()


def _run_process(name: str, raw: bytes) -> bytes:
    """Return what the process wrote, b"" if it did not end in time. It gets no secret of ours."""
    try:
        ended = subprocess.run(
            [sys.executable, "-B", "-s", "-m", MODULE, str(CPU_SECONDS), name],
            input=raw,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)},
            cwd="/",
            timeout=WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return b""
    return ended.stdout if ended.returncode == 0 else b""


def answer_confined() -> None:
    """Entry point of that process."""
    confine(int(sys.argv[1]), MEMORY_BYTES)
    try:
        result: dict[str, object] = {
            "answer": diagnose_bytes(sys.argv[2], sys.stdin.buffer.read(MAX_BYTES))
        }
    except NotText as error:
        result = {"trouble": str(error)}
    sys.stdout.write(json.dumps(result))


def run_command(rest: list[str]) -> int:
    """The command `diagnose`. Returns 0 with an answer, and 2 if a file cannot be read."""
    parser = argparse.ArgumentParser(
        command("diagnose"),
        description="Say what the output of a benchmark most likely means, and what to run next.",
        epilog="Exit code: 0 with an answer, 2 if a file cannot be read. Nothing is stored.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="output of fio, dd, iostat ...; -: standard input"
    )
    parser.add_argument("--json", action="store_true", help="print JSON as POST /api/diagnose/")
    options = parser.parse_args(rest)
    rows = [_diagnose_file(name) for name in options.files]
    if options.json:
        output = json.dumps(_json_output(rows), indent=2)
    else:
        output = "\n\n".join(_row_text(row, titled=len(rows) > 1) for row in rows)
    _print_to_reader(output)
    for row in rows:
        if row.trouble:
            print(f"{row.name}: {row.trouble}", file=sys.stderr)
    return 2 if any(row.trouble for row in rows) else 0


def _print_to_reader(output: str) -> None:
    """Print it. A reader such as `head` may have closed the pipe: that is no error."""
    try:
        print(output, flush=True)
    except BrokenPipeError:
        # What is buffered is written again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _diagnose_file(name: str) -> DecodedAnswer:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return DecodedAnswer(name, diagnose_bytes(Path(name).name, raw))
    except OSError as error:
        return DecodedAnswer(name, None, error.strerror or str(error))
    except NotText as error:
        return DecodedAnswer(name, None, str(error))


def _json_output(rows: Sequence[DecodedAnswer]) -> object:
    """One answer as it is; several as a list with the files' names."""
    if len(rows) == 1:
        return rows[0].answer
    return [{"file": row.name, "answer": row.answer, "trouble": row.trouble} for row in rows]


def _row_text(row: DecodedAnswer, *, titled: bool) -> str:
    title = f"== {visible(row.name)}\n" if titled else ""
    return title + (answer_text(row.answer) if row.answer else "not read")


def answer_text(answer: AnswerJson) -> str:
    """The answer for a terminal of 80 columns. Commands and quoted lines are not wrapped."""
    parts = [answer["headline"]]
    parts += [_diagnosis_text(diagnosis) for diagnosis in answer["shown"]]
    if answer["folded"]:
        parts.append(
            "\n".join(
                ["Less likely, or less important:"]
                + [
                    _wrapped(f"{MARKS[row['verdict']]}  {row['claim']}", 2)
                    for row in answer["folded"]
                ]
            )
        )
    if answer["note"]:
        parts.append(answer["note"])
    if answer["readable"]:
        parts.append(f"Checked: {len(answer['checked'])} known causes; --json lists them.")
    return visible("\n\n".join(parts), 10**6)


def _diagnosis_text(row: DiagnosisJson) -> str:
    lines = [_wrapped(f"{MARKS[row['verdict']]}  {row['claim']}", 0)]
    lines += [_wrapped(row["meaning"], 2)] if row["meaning"] else []
    for proof in row["proofs"]:
        lines.append(_wrapped(f"- {proof['text']}", 2))
        lines += [f"      line {line['number']}: {line['text']}" for line in proof["lines"]]
    if row["alternatives"]:
        lines.append("  It could also be:")
        lines += [_wrapped(f"- {text}", 2) for text in row["alternatives"]]
    for step in row["next_steps"]:
        lines += _step_lines(step)
    return "\n".join(lines)


def _step_lines(step: NextStepJson) -> list[str]:
    lines = [_wrapped(f"Next: {step['text']}", 2)]
    lines += [_wrapped(f"Risk: {step['risk']}", 4)] if step["risk"] else []
    lines += [f"      {line}" for line in step["command"].splitlines()]
    return [*lines, _wrapped(step["expect"], 4)] if step["expect"] else lines


def _wrapped(text: str, indent: int) -> str:
    """The text in lines of at most 80 columns; those after the first are indented by two more."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    answer_confined()
