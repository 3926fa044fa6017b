# SPDX-License-Identifier: Apache-2.0
"""Ready-made workloads (workload_presets.json), whole campaigns, and the workloads of a comparison of layouts.

There are workloads for databases, curves over outstanding I/Os, throughput, the articles and SNIA's test. A campaign
names a question, topologies and workloads; hosts are chosen. A comparison takes ready workloads with other times,
depths and sizes, by what matters to the user: all its layouts get the same work, so its files must fit the smallest of
them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    # the heading it stands under
    group: str
    name: str
    says: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]] = field(default_factory=dict)


PRESETS_FILE = Path(__file__).with_name("workload_presets.json")
ALL_PRESETS = tuple(Preset(**fields) for fields in json.loads(PRESETS_FILE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL_PRESETS}


def presets_by_group(tools: Collection[str]) -> list[tuple[str, list[Preset]]]:
    """Pairs of (heading, presets of these tools), in the order of the page."""
    mine = [preset for preset in ALL_PRESETS if preset.tool in tools]
    return [
        (name, list(presets)) for name, presets in groupby(mine, key=lambda preset: preset.group)
    ]


@dataclass(frozen=True, slots=True)
class CampaignPreset:
    slug: str
    name: str
    question: str
    says: str
    # slugs in benchlab/topologies/host_shapes.py
    topologies: tuple[str, ...]
    # slugs of workloads in this module
    workloads: tuple[str, ...]
    repeats: int = 1
    # what a person sets by hand is not set back and forth
    order: str = "as_written"


ALL_CAMPAIGN_PRESETS = (
    CampaignPreset(
        "article-002",
        "Article 002: host cache of cloud disks, by IOmeter",
        "What do the host cache's settings do to 8 KiB I/O, half random and half writes, on a cloud's HDD and SSD, "
        "over 1 to 16 outstanding I/Os?",
        "IOmeter's dynamo on an HDD and an SSD, each with the host cache off, read-only and read/write: a person sets "
        "it, the campaign waits. Six layouts with five points of 10 min after a 30 s ramp: about 5 h 20 min.",
        tuple(
            f"cloud-{role}-{cache}"
            for role in ("hdd", "ssd")
            for cache in ("none", "read", "read-write")
        ),
        ("article-002-iometer",),
    ),
)
CAMPAIGN_PRESETS = {preset.slug: preset for preset in ALL_CAMPAIGN_PRESETS}


MIB_BYTES = 1 << 20
# of the smallest layout that a file may fill: file systems keep some for themselves
FILE_SHARE = 0.5
DEPTHS = (1, 2, 4, 8, 16)
# options of tools
SIZE_OPTION, DEPTH_OPTION, SECONDS_OPTION = "size", "iodepth", "seconds"


@dataclass(frozen=True, slots=True)
class WorkloadGoal:
    slug: str
    name: str
    says: str
    # slugs of presets
    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunLength:
    """Seconds: of each point, of the ramp before it, and of each test of a tool that has several (fsync methods)."""

    slug: str
    says: str
    runtime_s: int
    ramp_s: int
    each_s: int


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload to be found among the team's, or made."""

    name: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]]


WORKLOAD_GOALS = {
    goal.slug: goal
    for goal in (
        WorkloadGoal(
            "database",
            "Database",
            "8 KiB random, 70 % read, over depths; PostgreSQL's fsync test",
            ("oltp", "postgresql-fsync"),
        ),
        WorkloadGoal(
            "random",
            "Random",
            "4 KiB random reads, then writes, over depths",
            ("randread-4k", "randwrite-4k"),
        ),
        WorkloadGoal(
            "sequential",
            "Sequential",
            "1 MiB reads, then writes, over depths",
            ("seqread-1m", "seqwrite-1m"),
        ),
        WorkloadGoal(
            "article-002",
            "Like article 002",
            "8 KiB, half random, half writes, over depths, by fio",
            ("article-002",),
        ),
    )
}
RUN_LENGTHS = {
    length.slug: length
    for length in (
        RunLength("look", "10 s after 2 s of ramp: a first look", 10, 2, 1),
        RunLength("usual", "30 s after 5 s of ramp", 30, 5, 5),
        RunLength("long", "60 s after 30 s of ramp", 60, 30, 10),
        RunLength("article", "10 min after 30 s of ramp, as article 002", 600, 30, 10),
    )
}


def goal_workloads(
    matter: WorkloadGoal, time: RunLength, depths: Sequence[int], smallest: int
) -> list[WorkloadSpec]:
    """`smallest`: bytes of the smallest layout; 0: not known, and the presets' own sizes hold."""
    return [_preset_workload(PRESETS[slug], time, depths, smallest) for slug in matter.workloads]


def _preset_workload(
    preset: Preset, time: RunLength, depths: Sequence[int], smallest: int
) -> WorkloadSpec:
    options = dict(preset.options)
    # of a tool that has tests of its own, and neither ramp nor depth
    if SECONDS_OPTION in options:
        options[SECONDS_OPTION] = time.each_s
        return WorkloadSpec(f"{preset.name}, {time.each_s} s each", preset.tool, options, {})
    options |= {"runtime_s": time.runtime_s, "ramp_s": time.ramp_s}
    if SIZE_OPTION in options and smallest:
        options[SIZE_OPTION] = min(options[SIZE_OPTION], _file_size(smallest))
    sweep: dict[str, list[Any]] = (
        {DEPTH_OPTION: list(depths)} if DEPTH_OPTION in preset.sweep else {}
    )
    parts = (
        f"{time.runtime_s} s",
        f"{options[SIZE_OPTION] // MIB_BYTES:,} MiB",
        _describe_depths(depths),
    )
    return WorkloadSpec(", ".join((preset.name, *parts)), preset.tool, options, sweep)


def _file_size(smallest: int) -> int:
    """Share of the layout's size in whole MiB, at least one."""
    return max(int(smallest * FILE_SHARE) // MIB_BYTES, 1) * MIB_BYTES


def _describe_depths(depths: Sequence[int]) -> str:
    low, high = min(depths), max(depths)
    return f"depth {low}" if low == high else f"depths {low} to {high}"
