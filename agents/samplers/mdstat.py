# SPDX-License-Identifier: Apache-2.0
"""Arrays of md: what is missing, and how a resync, recovery, reshape or check goes on, from /proc/mdstat.

`sync.bandwidth` is the kernel's own speed, its mean over the last half minute; NaN, as `sync.done`, while nothing goes
on. The counts of `done` are of the array's members, not of its capacity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import in_time, rows_to_series

LABEL = "Arrays (/proc/mdstat)"
FILES = ("/proc/mdstat",)
WATCHES: tuple[Watch, ...] = ()

ARRAY = re.compile(r"(md\S+) : (\S.*)")
DISKS = re.compile(r"\[(\d{1,5})/(\d{1,5})\] \[[U_]+\]")
SYNC = re.compile(r"\b(?:resync|recovery|reshape|check|repair)\s*=\s*")
GOING = re.compile(
    r"\d+(?:\.\d+)?% \((\d{1,20})/(\d{1,20})\) finish=-?\d+(?:\.\d+)?min speed=(\d{1,12})K/sec(?:\s|$)"
)
WAITING = ("DELAYED", "PENDING", "REMOTE")
UNITS = {
    "degraded": Unit.RATIO,
    "sync.done": Unit.RATIO,
    "sync.bandwidth": Unit.BYTES_PER_SECOND,
}


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per array and metric, at every frame. Raises ParseError."""
    arrays_by_time = [
        (frame.at - frames[0].at, dict(_array_figures(frame.files[FILES[0]])))
        for frame in in_time(frames)
        if FILES[0] in frame.files
    ]
    all_series: list[Series] = []
    for device in sorted({name for _, arrays in arrays_by_time for name in arrays}):
        rows = [(at, arrays.get(device, {})) for at, arrays in arrays_by_time]
        all_series += rows_to_series(device, rows, UNITS)
    return all_series


def _array_figures(text: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Every array with what its lines say."""
    name, row = "", dict[str, float]()
    for number, line in enumerate(text.splitlines(), start=1):
        if array := ARRAY.match(line):
            if name:
                yield name, row
            name, row = array[1], dict[str, float]()
        elif not line.startswith(" "):
            # Personalities, unused devices, an empty line
            continue
        elif not name:
            raise ParseError("a line of no array in /proc/mdstat", number, line)
        elif disks := DISKS.search(line):
            slots, active = int(disks[1]), int(disks[2])
            if active > slots:
                raise ParseError("more disks than the array has places", number, line)
            row["degraded"] = float(slots - active)
        elif sync := SYNC.search(line):
            row |= _sync(line[sync.end() :], number, line)
    if name:
        yield name, row


def _sync(state: str, number: int, line: str) -> dict[str, float]:
    going = GOING.match(state)
    if going and 0 <= int(going[1]) <= int(going[2]) > 0:
        return {
            "sync.done": int(going[1]) / int(going[2]),
            "sync.bandwidth": int(going[3]) * 1024.0,
        }
    if state.strip() in WAITING:
        return {}
    raise ParseError("not the progress of an array", number, line)
