# SPDX-License-Identifier: Apache-2.0
"""Timestamps of a tool's own script, on the clock of the runner that started it: `marks`, a file beside the outputs.

Each line is "NANOSECONDS WORDS". Scripts that are run by somebody else leave an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agents.contracts import ParseError, Timing

MARKS = "marks"
_LINE = re.compile(r"([0-9]{1,20}) ?(.*)")

# `mark WORDS` notes the time of now, `marked` that of each line that passes through it: of a program that prints the
# beginning of a line when it begins something, a line is whole when that is over, or the next thing begins.
SHELL = rb"""
now() { ns=0; }
if [ -f ../sampler.sh ]; then
    . ../sampler.sh
    [ -r /proc/self/stat ] || . ../freebsd.sh
fi
: >marks
rm -f exit-code
mark() {
    now
    printf '%s %s\n' "$ns" "$*" >>marks
}
marked() ( # never the first to go: what the program says when it is stopped passes, too
    trap '' INT TERM
    while IFS= read -r line; do
        mark "$line"
        printf '%s\n' "$line"
    done
    [ -z "$line" ] || printf '%s' "$line"
)
ended() { # with the exit code of what wrote to `marked`
    read -r code <exit-code && exit "$code"
    exit 1
}
"""

# `forget` drops the page cache between laying out and measuring. Only root may: the runner does it, once, for the
# script of a job that lays out (`Job.lays_out`) and runs as a user of its own.
FORGET = rb"""
forget() {
    sync
    if [ -n "${BENCHLAB_USER:-}" ]; then
        echo drop >&7
        read -r _ <&6 || {
            echo "the page cache was not dropped after the layout" >&2
            exit 1
        }
        exec 6<&- 7>&-
    elif [ -w /proc/sys/vm/drop_caches ]; then
        echo 3 >/proc/sys/vm/drop_caches
    fi
}
"""


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
