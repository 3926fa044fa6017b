# SPDX-License-Identifier: Apache-2.0
"""The lines of a command that goes on beside the tool: shared by samplers that watch one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.contracts import Frame, ParseError, Watch
from agents.samplers._intervals import is_count


@dataclass(frozen=True, slots=True)
class Line:
    # seconds since the run's first frame at which it, or its report's first line, came
    at: float
    text: str
    # 1-based, over all frames
    number: int


def stamped_lines(frames: Sequence[Frame], watch: Watch) -> list[Line]:
    """All that a lasting Watch printed during the run, in order. Raises ParseError."""
    lines: list[Line] = []
    for frame in frames:
        for text in frame.files.get(watch.file_key, "").splitlines():
            nanoseconds, _, rest = text.partition(" ")
            if not is_count(nanoseconds):
                raise ParseError("no time before the line", len(lines) + 1, text)
            lines.append(Line(int(nanoseconds) / 1e9 - frames[0].at, rest, len(lines) + 1))
    return lines
