# SPDX-License-Identifier: Apache-2.0
"""CPU time: shares from /proc/stat, for the whole host (device "") and each CPU.

user includes nice and guests (the kernel counts a guest's time as user time), irq both hard and
soft. The shares of an interval add up to 1. A CPU that was offline has NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import intervals, is_count

LABEL = "CPU time (/proc/stat)"
FILES = ("/proc/stat",)
WATCHES: tuple[Watch, ...] = ()

# Columns: user nice system idle iowait irq softirq steal; guest times are in user already.
SHARES = {
    "cpu.user": (0, 1),
    "cpu.system": (2,),
    "cpu.iowait": (4,),
    "cpu.steal": (7,),
    "cpu.irq": (5, 6),
    "cpu.idle": (3,),
}
COLUMNS = 8

Ticks = tuple[int, ...]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    between = intervals([frame for frame in frames if FILES[0] in frame.files])
    tables = {id(f): _tick_table(f) for i in between for f in (i.before, i.after)}
    times = tuple(interval.end for interval in between)
    all_series: list[Series] = []
    for cpu in dict.fromkeys(name for table in tables.values() for name in table):
        rows = [
            _shares(tables[id(i.before)].get(cpu), tables[id(i.after)].get(cpu)) for i in between
        ]
        device = "" if cpu == "cpu" else cpu
        all_series += [
            Series(device, metric, Unit.RATIO, times, tuple(row[metric] for row in rows))
            for metric in SHARES
        ]
    return all_series


def _tick_table(frame: Frame) -> dict[str, Ticks]:
    table: dict[str, Ticks] = {}
    for number, line in enumerate(frame.files[FILES[0]].splitlines(), start=1):
        words = line.split()
        name, ticks = "".join(words[:1]), words[1:]
        if not name.startswith("cpu"):
            continue
        if len(ticks) < 4 or not all(map(is_count, ticks)):
            raise ParseError("not a cpu line of /proc/stat", number, line)
        table[name] = (*map(int, ticks[:COLUMNS]), *[0] * (COLUMNS - len(ticks)))
    return table


def _shares(before: Ticks | None, after: Ticks | None) -> dict[str, float]:
    if not before or not after or sum(after) <= sum(before):
        return dict.fromkeys(SHARES, nan)
    # The kernel's idle and iowait may step back a little: that is no time at all.
    spent = [max(0, new - old) for old, new in zip(before, after, strict=True)]
    return {
        name: sum(spent[column] for column in columns) / sum(spent)
        for name, columns in SHARES.items()
    }
