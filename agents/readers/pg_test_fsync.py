# SPDX-License-Identifier: Apache-2.0
"""pg_test_fsync's tables in any text: whole runs, and parts of them as people quote them."""

from __future__ import annotations

import re

from agents.contracts import ParseError
from agents.outputs import pg_test_fsync_text as text
from agents.readers import _command
from agents.texts.parsed_result import FRAGMENT, ParsedResult

LABEL = "pg_test_fsync"
KEYWORDS = (" usecs/op", " per test", "Compare ", "Test ", "Non-")
KIND = "pg_test_fsync"
FILE = re.compile(r"(?:^|\s)(?:-f\s*|--filename[= ]\s*)(\S+)")
# what a mail puts on a line of its own
REST = re.compile(r"(?:(?:ops/sec )?\d{1,15} )?usecs/op")
PATH_VERSION = re.compile(r"(?:postgresql|pgsql|postgres|pg)[-/]?(\d{1,2}(?:\.\d{1,2}){0,2})/")


def find_results(whole: str, name: str) -> list[ParsedResult]:
    lines = _rejoined([text.clean_line(line) for line in whole.split("\n")])
    results, index = [], 0
    while index < len(lines):
        if not text.begins(lines[index]):
            index += 1
            continue
        result, index = _read_run(lines, index)
        if result is not None:
            results.append(result)
    return results


def _rejoined(lines: list[str]) -> list[str]:
    """The lines with rows that a mail broke in one, and an empty line for the rest of each."""
    for at, rest in enumerate(lines[1:]):
        if REST.fullmatch(rest) and text.is_whole_row(f"{lines[at]} {rest}"):
            lines[at : at + 2] = f"{lines[at]} {rest}", ""
    return lines


def _read_run(lines: list[str], first: int) -> tuple[ParsedResult | None, int]:
    """The run that begins there, and where to look on."""
    before = _said_at(lines, first)
    start = first if before is None else before
    typed = _command.NONE if before is None else _command.find_command(lines[before], KIND)
    command = typed.text
    title = f"pg_test_fsync {command.partition('pg_test_fsync')[2].strip()}".strip()
    try:
        run = text.parse_run(lines, first)
    except ParseError as error:
        last = max(error.line, first + 1)
        return ParsedResult(
            KIND, start + 1, last, title, KIND, command=command, trouble=str(error)
        ), last
    if not run.metrics:
        if not run.sections:
            # "5 seconds per test" of anything else
            return None, first + 1
        nothing = "the table has no line that can be read"
        trouble = ParsedResult(
            KIND, start + 1, run.last + 1, title, KIND, command=command, trouble=nothing
        )
        return trouble, run.last + 1
    return ParsedResult(
        KIND,
        start + 1,
        run.last + 1,
        title,
        KIND,
        command=command,
        metrics=tuple(run.metrics),
        options={**({"seconds": run.seconds} if run.seconds else {}), **_file_option(typed)},
        options_complete=bool(typed),
        outstanding=1,
        notes=tuple(_run_notes(run, command)),
    ), run.last + 1


def _file_option(command: _command.Command) -> dict[str, str]:
    """The file of -f or --filename; the table itself says the seconds."""
    words = FILE.search(" ".join(command.arguments))
    return {"filename": words[1]} if words else {}


def _run_notes(run: text.Run, command: str) -> list[str]:
    notes = [f"missing: {'; '.join(run.missing_parts)}"] if run.missing_parts else []
    if run.is_fragment:
        notes = [FRAGMENT]
    if text.UNNAMED in run.sections:
        notes.append("without a heading: whether each test is of one write or of two is unknown")
    if run.cut:
        notes.append(f"truncated within the line of {run.cut}")
    if version := PATH_VERSION.search(command):
        notes.append(f"by its path, of PostgreSQL {version[1]}")
    return notes


def _said_at(lines: list[str], first: int) -> int | None:
    """Index of the command line right above, if there is one."""
    above = next(
        (index for index in range(first - 1, max(first - 3, -1), -1) if lines[index]), None
    )
    return above if above is not None and _command.find_command(lines[above], KIND) else None
