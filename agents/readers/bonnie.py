# SPDX-License-Identifier: Apache-2.0
"""Results of bonnie++ in any text: its tables, its lines of CSV, or both together as it prints them."""

from __future__ import annotations

import getopt
import re
from dataclasses import replace

from agents.outputs import bonnie_output, bonnie_page
from agents.readers import _command
from agents.texts.parsed_result import ParsedResult

LABEL = "bonnie++"
# a line of CSV has more
KEYWORDS = ("-Sequential", re.compile(r",[^,\n]*+,(?:[^,\n]*+,){4}"), re.compile(r"/sec\s+% CPU"))
KIND = "bonnie"
# lines in which its progress and its command are looked for
ABOVE = 40
PAGE_NOTE = "of a page of bon_csv2html: figures are rounded"
MEGA_NOTE = "M/sec are whole MiB; below Per Char, bon_csv2html prints K/sec under that heading"
# of bonnie++(8); -f takes its size without a space only
LETTERS = "d:s:n:r:x:m:u:g:p:z:Z:c:qfbyD"
FLAGS = {"b": "sync", "D": "direct"}
# of -s SIZE:CHUNK
CHUNK = re.compile(r":(\d{1,9})([kK]?)\Z")
# The tables print the name (-m) and whether there are tests per character (-f).
OUTPUT = ("m", "q", "f")


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = text.split("\n")
    pages = [
        replace(_run_block(lines, run), head=units_at + 1, notes=_page_notes(lines, run, units_at))
        for run, units_at in bonnie_page.find_runs(lines)
    ]
    return [*(_run_block(lines, run) for run in bonnie_output.find_runs(lines)), *pages]


def _run_block(lines: list[str], run: bonnie_output.Run) -> ParsedResult:
    start, command = _above(lines, run.first)
    if run.error:
        return _trouble(start, run, command.text, str(run.error))
    if run.csv is None and run.text is not None and not run.text.columns:
        why = "some tests did not run, and with white space collapsed it is unknown which"
        return _trouble(start, run, command.text, why)
    best = run.best
    # What the text has and the CSV line has not: 1.0x says its version there only
    version = best.version or (run.text.version if run.text else "")
    words = ["bonnie++", best.name, best.size]
    return ParsedResult(
        KIND,
        start + 1,
        run.last + 1,
        " ".join(word for word in words if word),
        tool=KIND,
        version=version,
        command=command.text,
        metrics=tuple(bonnie_output.table_metrics(best)),
        options=_command_options(command) | _reported_options(best),
        options_complete=bool(command),
        notes=tuple(_run_notes(run)),
    )


def _trouble(start: int, run: bonnie_output.Run, command: str, why: str) -> ParsedResult:
    return ParsedResult(
        KIND, start + 1, run.last + 1, "bonnie++", KIND, command=command, trouble=why
    )


def _reported_options(table: bonnie_output.Table) -> dict[str, int]:
    """Options of the tool, as far as the result shows them. 2.00 leaves the size of a chunk out of its CSV line."""
    options: dict[str, int] = {"size": bonnie_output.size_of(table.size) or 0}
    count = re.match(r"\d{1,9}", table.files)
    options["files"] = int(count[0]) if count else 0
    if table.size:
        options["fast"] = "write.char" not in table.cells
    return options


def _command_options(command: _command.Command) -> dict[str, object]:
    """Options that the tables do not print: of the tool here, and under their letters the others."""
    try:
        pairs, _ = getopt.gnu_getopt(list(command.arguments), LETTERS)
    except getopt.GetoptError:
        return {}
    options: dict[str, object] = {}
    for name, value in pairs:
        letter = name.lstrip("-")
        if letter == "n":
            options |= _small_files(value)
        elif letter == "r" and value.isdecimal():
            options["ram"] = int(value[:9]) << 20
        elif letter == "s":
            chunk = CHUNK.search(value)
            options |= {"chunk_size": int(chunk[1]) << (10 if chunk[2] else 0)} if chunk else {}
        elif letter in FLAGS:
            options[FLAGS[letter]] = True
        elif letter == "u":
            options["user"] = value
        elif letter not in OUTPUT:
            options[letter] = value or True
    return options


def _small_files(value: str) -> dict[str, int]:
    """Of -n COUNT:MAX:MIN:DIRECTORIES what the tables do not print."""
    names = ("file_max", "file_min", "directories")
    parts = value.split(":")[1:4]
    return {
        name: int(part[:15]) for name, part in zip(names, parts, strict=False) if part.isdecimal()
    }


def _page_notes(lines: list[str], run: bonnie_output.Run, units_at: int) -> tuple[str, ...]:
    units = lines[run.first if units_at < 0 else units_at]
    return (PAGE_NOTE, MEGA_NOTE) if "M/sec" in units else (PAGE_NOTE,)


def _run_notes(run: bonnie_output.Run) -> list[str]:
    notes = []
    if run.csv is None:
        notes.append("without the CSV line: figures are rounded as in the text")
    elif run.text is None:
        notes.append("only the CSV line")
    elif not run.text.columns:
        notes.append("the text could not be compared with the CSV line")
    if run.best.size and not run.best.files:
        notes.append("missing: the tests of small files")
    return notes


def _above(lines: list[str], first: int) -> tuple[int, _command.Command]:
    """Index of the run's first own line, and its command line: progress stands between that and the result."""
    start = first
    for index in range(first - 1, max(first - ABOVE, -1), -1):
        line = (
            " ".join(lines[index].split()) if len(lines[index]) < bonnie_output.LONGEST else "long"
        )
        if command := _command.find_command(line, "bonnie++"):
            return index, command
        if bonnie_output.PROGRESS.fullmatch(line) or bonnie_output.HEAD.fullmatch(line):
            start = index
        elif line and not _command.may_stand_between(line):
            break
    return start, _command.NONE
