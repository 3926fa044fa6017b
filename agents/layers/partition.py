# SPDX-License-Identifier: Apache-2.0
"""GPT partitions for the layer above: its data, log or cache devices. 1 MiB aligned, with names of the layout's own.

Sources: sgdisk(8), gpart(8). What lay where a partition begins or ends is erased before the table is written: udev
would assemble an old array or start an old cache the moment the node appears.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Claim, Need, Part, Plan, PlanError, Step, Target, Use
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.options import option
from agents.steps.common import MIB, Place, erase_all, is_claimed, settle

LABEL = "Partitions"
NEEDS = (
    Need("sgdisk", {"debian": "gdisk", "rhel": "gdisk"}, instead={"freebsd": "gpart"}),
    Need("gpart", {"freebsd": ""}, ("gpart", "list")),
)
USES = {"data": Use("the disks to partition")}
PROVIDES = "parts"
REQUIRES = "own"
# the first MiB, and the last one with the backup table
ENDS = 2 * MIB
LINUX_DATA = "8300"


@dataclass(frozen=True, slots=True)
class Options:
    use: str = option(
        "data",
        "What the layer above uses the partitions for",
        choices=("data", "log", "cache", "backing", "special"),
    )
    count: int = option(1, "Partitions on each disk", minimum=1)
    size: int = option(0, "Size of each, rounded down to whole MiB; 0: all", unit="B", minimum=0)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A partition to create; `start` and `size` in bytes."""

    number: int
    label: str
    start: int
    size: int


def required_programs(options: Options) -> tuple[Need, ...]:
    """sgdisk; which host has another program for it, the Need says."""
    return NEEDS[:1]


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError, with the numbers, for a disk that is too small."""
    freebsd = facts.os_family == "freebsd"
    planned = _cuts(options, target)
    steps = _erase(planned, target, facts)
    pieces: list[Part] = []
    for disk, cuts in planned:
        steps += _gpart(disk, cuts) if freebsd else [_sgdisk(disk, cuts, facts)]
        pieces += [Part(_node(cut.label, facts), cut.size) for cut in cuts]
    if not freebsd:
        steps.append(settle())
    parts = {**target.parts, options.use: (*target.parts.get(options.use, ()), *pieces)}
    alone = pieces[0] if sum(map(len, parts.values())) == 1 else Part("", 0)
    gives = replace(
        target, parts=parts, volume=alone.node, size=alone.size, stripe_unit=0, stripe_count=0
    )
    return Plan(tuple(steps), gives)


def _cuts(options: Options, target: Target) -> list[tuple[Claim, list[_Cut]]]:
    """Numbered on from the partitions that a layer below made for the same use."""
    if not (disks := target.devices.get("data", ())):
        raise PlanError("data: there is no disk to partition")
    next_number = len(target.parts.get(options.use, ())) + 1
    cuts_by_disk = []
    for disk in disks:
        most = max(disk.size - ENDS, 0) // options.count // MIB * MIB
        size = options.size // MIB * MIB or (0 if options.size else most)
        if not 0 < size <= most:
            raise PlanError(
                f"{disk.node} has room for {options.count} partition(s) of {most // MIB} MiB at most,"
                f" not {options.size / MIB:g} MiB: reduce their size or number"
            )
        labels = [f"{target.name}-{options.use}-{next_number + i}" for i in range(options.count)]
        cuts = [_Cut(i + 1, label, MIB + i * size, size) for i, label in enumerate(labels)]
        next_number += options.count
        cuts_by_disk.append((disk, cuts))
    return cuts_by_disk


def _node(label: str, facts: HostFacts) -> str:
    return (
        f"/dev/gpt/{label}" if facts.os_family == "freebsd" else f"/dev/disk/by-partlabel/{label}"
    )


def _sgdisk(disk: Claim, cuts: list[_Cut], facts: HostFacts) -> Step:
    """It counts in the disk's own logical sectors."""
    device = is_claimed(disk, facts)
    sector = device.logical_sector if device else 512
    words: list[str] = []
    for cut in cuts:
        first, last = cut.start // sector, (cut.start + cut.size) // sector - 1
        words += [
            f"--new={cut.number}:{first}:{last}",
            f"--typecode={cut.number}:{LINUX_DATA}",
            f"--change-name={cut.number}:{cut.label}",
        ]
    return Step(
        ("sgdisk", f"--set-alignment={MIB // sector}", *words, disk.node),
        f"Make {len(cuts)} partition(s) on {disk.node}",
        destroys=(disk,),
        undo=(_zap(disk),),
    )


def _zap(disk: Claim) -> Step:
    return Step(
        ("sgdisk", "--zap-all", disk.node),
        f"Remove the partition table of {disk.node}",
        destroys=(disk,),
    )


def _gpart(disk: Claim, cuts: list[_Cut]) -> list[Step]:
    destroy = Step(
        ("gpart", "destroy", "-F", disk.node),
        f"Remove the partition table of {disk.node}",
        destroys=(disk,),
    )
    create = ("gpart", "create", "-s", "gpt", disk.node)
    steps = [Step(create, f"Make a GPT on {disk.node}", destroys=(disk,), undo=(destroy,))]
    for cut in cuts:
        argv = (
            "gpart",
            "add",
            "-t",
            "freebsd-zfs",
            "-a",
            "1m",
            "-s",
            f"{cut.size // MIB}m",
            "-l",
            cut.label,
            disk.node,
        )
        steps.append(Step(argv, f"Make the partition {cut.label}", destroys=(disk,)))
    return steps


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Partitions, then tables; what lies at their edges goes too, lest a later table brings it back."""
    present_disks = [
        (disk, cuts) for disk, cuts in _cuts(options, target) if is_claimed(disk, facts)
    ]
    return _erase(present_disks, target, facts)


def _erase(planned: list[tuple[Claim, list[_Cut]]], target: Target, facts: HostFacts) -> list[Step]:
    edges: list[Place] = [
        (disk.node, at)
        for disk, cuts in planned
        for cut in cuts
        for at in (cut.start, cut.start + cut.size - MIB)
    ]
    disks = [Part(disk.node, disk.size) for disk, _ in planned]
    return erase_all(target, disks, facts, edges)


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Each is there, by our name, on its disk, in its size, and blank."""
    graph = Graph(facts)
    wrong = []
    for disk, cuts in _cuts(options, target):
        present = is_claimed(disk, facts)
        if present is None:
            wrong.append(f"{disk.node} is not {disk.identity} any more")
            continue
        for cut in cuts:
            node = _node(cut.label, facts)
            device = graph.find_device(node)
            if device is None or graph.disks_under(device.name) != {present.name}:
                wrong.append(f"{node} is not there, or not on {disk.node}")
            elif device.size != cut.size:
                wrong.append(f"{node} has {device.size} B, not {cut.size} B")
            else:
                wrong += [f"{node} has a {s.type} signature" for s in device.signatures]
    return wrong
