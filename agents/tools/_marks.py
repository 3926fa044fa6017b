# SPDX-License-Identifier: Apache-2.0
"""Timestamps of a tool's own script, on the clock of the runner that started it: `marks`, a file beside the outputs.

Each line is "NANOSECONDS WORDS". Scripts that are run by somebody else leave an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from agents.contracts import ParseError, Timing

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
    """[] where the script had no clock. Raises ParseError."""
    marks: list[Mark] = []
    lines = outputs.get(MARKS, b"").decode("utf-8", "replace").split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        mark = _LINE.fullmatch(line.rstrip("\r"))
        if not mark:
            raise ParseError("not a mark of a tool's script", number, line)
        marks.append(Mark(int(mark[1]) / 1e9 - timing.started, mark[2]))
    return [] if any(mark.at < 0 for mark in marks) else marks
