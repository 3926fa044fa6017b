# SPDX-License-Identifier: Apache-2.0
"""IOmeter's configuration files (.icf): each access specification is a workload for dynamo; nothing was measured.

The workloads share the file's other settings (workers, cycling, times), so every line of the file belongs to each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from agents import options
from agents.contracts import AgentError, ParseError
from agents.dynamo import icf
from agents.texts.parsed_result import ParsedResult
from agents.tools import dynamo

LABEL = "IOmeter configuration (.icf): workloads"
KEYWORDS = ("'",)
SECTION = re.compile(
    r"\s*'(END )?(TEST SETUP|ACCESS SPECIFICATIONS|MANAGER LIST|RESULTS DISPLAY)\b", re.IGNORECASE
)
# characters of a line that may be a heading
WIDEST = 200


def find_results(text: str, name: str) -> list[ParsedResult]:
    lines = text.lstrip("\ufeff").split("\n")
    return [
        workload
        for first, last in _find_files(lines)
        for workload in _workloads(lines, first, last)
    ]


def _find_files(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first, last) line of each file, from 1: from a version with a section right below it, or where the text
    begins with one, up to the last section's end and the version that stands there once more."""
    marks = [(at, _section_mark(line)) for at, line in enumerate(lines) if line.strip()]
    begin = last = 0
    for (at, mark), (_, after) in pairwise([*marks, (0, "")]):
        if (mark == "version" and after == "section") or (mark == "section" and at == marks[0][0]):
            if begin:
                yield begin, last or at
            begin, last = at + 1, 0
        elif begin and mark == "section":
            # until it ends: else it is cut off, and the error names it
            last = 0
        elif begin and (
            mark == "end"
            or (mark == "version" and last and _section_mark(lines[last - 1]) == "end")
        ):
            last = at + 1
    if begin:
        yield begin, last or len(lines)


def _section_mark(line: str) -> str:
    if len(line) > WIDEST:
        return ""
    if icf.VERSION.match(line):
        return "version"
    match = SECTION.match(line)
    return "" if not match else "end" if match[1] else "section" if "=" in line else ""


def _workloads(lines: list[str], first: int, last: int) -> list[ParsedResult]:
    try:
        # Behind as many empty lines as there are above it, for the lines' numbers.
        text = "\n" * (first - 1) + "\n".join(lines[first - 1 : last])
        workloads, config = icf.read_workloads(text), icf.parse_icf(text)
    except ParseError as error:
        return [ParsedResult("icf", first, last, "IOmeter configuration", trouble=str(error))]
    used = {workload.name for workload in workloads}
    idle = list(dict.fromkeys(spec.name for spec in config.specs if spec.name not in used))
    notes = [f"In the file, but assigned to no worker: {', '.join(idle)}"] if idle else []
    return [_workload_block(workload, (first, last), notes) for workload in workloads]


def _workload_block(
    workload: icf.Workload, file: tuple[int, int], notes: list[str]
) -> ParsedResult:
    json_options = {k: list(v) if isinstance(v, tuple) else v for k, v in workload.options.items()}
    trouble = workload.trouble
    try:
        options.build_options(dynamo.Options, json_options)
    except AgentError as error:
        trouble = trouble or str(error)
    return ParsedResult(
        kind="icf",
        first=workload.first,
        last=workload.last,
        title=workload.name,
        description=workload.description,
        tool="dynamo",
        options=json_options,
        sweep=workload.sweep,
        notes=(*(f"Not taken over: {note}" for note in workload.notes), *notes),
        described=True,
        also=(file,),
        trouble=f"dynamo cannot do it: {trouble}" if trouble else "",
    )
