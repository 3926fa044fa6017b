# SPDX-License-Identifier: Apache-2.0
"""Scripts of tools: their text, the job of one that works in a directory of its own, and its timestamps.

The file `marks` lies beside the outputs. Each line is "NANOSECONDS WORDS" on the clock of the runner that started the
script; a script that somebody else runs leaves it empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from agents.contracts import Job, Metric, OptionsError, ParseError, Target, Timing

MARKS = "marks"
_LINE = re.compile(r"([0-9]{1,20}) ?(.*)")

HOSTSIDE = files("agents.hostside")
FORGET = HOSTSIDE.joinpath("forget.sh").read_bytes()


def tool_script(name: str, *functions: bytes) -> bytes:
    """The script of agents/hostside for a tool, with the functions of marks.sh and these below its first comment."""
    comment, _, body = HOSTSIDE.joinpath(name).read_bytes().partition(b"\n\n")
    marks = HOSTSIDE.joinpath("marks.sh").read_bytes()
    return b"\n".join((comment, marks, *functions, body))


@dataclass(frozen=True, slots=True)
class Mark:
    # seconds since the job began
    at: float
    words: str


def read_marks(outputs: Mapping[str, bytes], timing: Timing) -> list[Mark]:
    """Read the marks; [] if the script had no clock. Raises ParseError."""
    marks: list[Mark] = []
    lines = outputs.get(MARKS, b"").decode("utf-8", "replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        mark = _LINE.fullmatch(line.rstrip("\r"))
        if not mark:
            raise ParseError("not a mark of a tool's script", number, line)
        marks.append(Mark(int(mark[1]) / 1e9 - timing.started, mark[2]))
    return [] if any(mark.at < 0 for mark in marks) else marks


@dataclass(frozen=True, slots=True)
class Script:
    """`works`: why it needs a mount, after the tool's name: "makes files"."""

    tool: str
    works: str
    # of its file on the host
    name: str
    content: bytes
    directory: str


def directory_job(
    script: Script,
    target: Target,
    arguments: tuple[str, ...],
    *,
    expected_s: float,
    writes: int | None,
) -> Job:
    """`sh NAME DIRECTORY ARGUMENT...`, with its marks; it is given ten times as long as expected, and an hour.

    Raises OptionsError on a target without a mount.
    """
    if not target.mount:
        raise OptionsError(
            f"target {target.name!r} has no mount point: {script.tool} {script.works}; put a filesystem on top"
        )
    place = f"{target.mount.rstrip('/')}/{script.directory}"
    return Job(
        argv=("sh", script.name, place, *arguments),
        outputs=(MARKS,),
        inputs={script.name: script.content},
        env={"LC_ALL": "C"},
        expected_s=expected_s,
        timeout_s=expected_s * 10 + 3600,
        writes=writes,
    )


def lines_of(output: str, metrics: Iterable[Metric]) -> list[Metric]:
    """The same, their lines being those of that output."""
    return [
        Metric(
            metric.name, metric.value, metric.unit, metric.labels, metric.note, metric.line, output
        )
        if metric.line
        else metric
        for metric in metrics
    ]
