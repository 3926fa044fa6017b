# SPDX-License-Identifier: Apache-2.0
"""Workloads of a comparison of layouts, by what matters to the user, and the duration of each point. Pure.

Each matter takes ready workloads (presets.py) with other times, depths and sizes: all layouts of a comparison get the
same work, so its files must fit the smallest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.campaigns.presets import PRESETS, Preset

MIB = 1 << 20
# of the smallest layout that a file may fill: file systems keep some for themselves
SHARE = 0.5
DEPTHS = (1, 2, 4, 8, 16)
# options of tools
FILE, DEPTH, EACH = "size", "iodepth", "seconds"


@dataclass(frozen=True, slots=True)
class Matter:
    slug: str
    name: str
    says: str
    # slugs of presets
    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds: of each point, of the ramp before it, and of each test of a tool that has several (fsync methods)."""

    slug: str
    says: str
    runtime_s: int
    ramp_s: int
    each_s: int


@dataclass(frozen=True, slots=True)
class Work:
    """A workload to be found among the team's, or made."""

    name: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]]


MATTERS = {
    one.slug: one
    for one in (
        Matter(
            "database",
            "Database",
            "8 KiB random, 70 % read, over depths; PostgreSQL's fsync test",
            ("oltp", "postgresql-fsync"),
        ),
        Matter(
            "random",
            "Random",
            "4 KiB random reads, then writes, over depths",
            ("randread-4k", "randwrite-4k"),
        ),
        Matter(
            "sequential",
            "Sequential",
            "1 MiB reads, then writes, over depths",
            ("seqread-1m", "seqwrite-1m"),
        ),
        Matter(
            "article-002",
            "Like article 002",
            "8 KiB, half random, half writes, over depths, by fio",
            ("article-002",),
        ),
    )
}
TIMES = {
    one.slug: one
    for one in (
        Time("look", "10 s after 2 s of ramp: a first look", 10, 2, 1),
        Time("usual", "30 s after 5 s of ramp", 30, 5, 5),
        Time("long", "60 s after 30 s of ramp", 60, 30, 10),
        Time("article", "10 min after 30 s of ramp, as article 002", 600, 30, 10),
    )
}


def work(matter: Matter, time: Time, depths: Sequence[int], smallest: int) -> list[Work]:
    """`smallest`: bytes of the smallest layout; 0: not known, and the presets' own sizes hold."""
    return [_work(PRESETS[slug], time, depths, smallest) for slug in matter.workloads]


def _work(preset: Preset, time: Time, depths: Sequence[int], smallest: int) -> Work:
    options = dict(preset.options)
    # of a tool that has tests of its own, and neither ramp nor depth
    if EACH in options:
        options[EACH] = time.each_s
        return Work(f"{preset.name}, {time.each_s} s each", preset.tool, options, {})
    options |= {"runtime_s": time.runtime_s, "ramp_s": time.ramp_s}
    if FILE in options and smallest:
        options[FILE] = min(options[FILE], _rounded(smallest))
    sweep: dict[str, list[Any]] = {DEPTH: list(depths)} if DEPTH in preset.sweep else {}
    told = (f"{time.runtime_s} s", f"{options[FILE] // MIB:,} MiB", _depths(depths))
    return Work(", ".join((preset.name, *told)), preset.tool, options, sweep)


def _rounded(smallest: int) -> int:
    """A share of it in whole MiB, at least one."""
    return max(int(smallest * SHARE) // MIB, 1) * MIB


def _depths(depths: Sequence[int]) -> str:
    low, high = min(depths), max(depths)
    return f"depth {low}" if low == high else f"depths {low} to {high}"
