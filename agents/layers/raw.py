"""The disk itself: no file system, no cache, nothing between the tool and the device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agents.contracts import Claim, Need, Plan, Step, Target, Use
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.layers._steps import is_claimed, one, settle, wipe

LABEL = "Raw disk"
NEEDS = (Need("wipefs", {"debian": "util-linux", "rhel": "util-linux"}),)
USES = {"data": Use("the disk", most=1)}
GIVES = "volume"
WANTS = "devices"


@dataclass(frozen=True, slots=True)
class Options:
    discard: bool = field(
        default=False,
        metadata={"help": "Discard every block before the first run (blkdiscard; flash only)"},
    )


def needs(options: Any) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Any, target: Target, facts: HostFacts) -> Plan:
    """Erase what is on the disk and hand it over."""
    disk = one(target, "data")
    steps = _erase(disk, facts)
    notes = target.notes
    if options.discard:
        steps.append(
            Step(
                ("blkdiscard", disk.node),
                f"Discard every block of {disk.node}",
                destroys=(disk,),
                timeout_s=3600,
            )
        )
        notes += (f"{disk.node} was discarded (blkdiscard)",)
    return Plan(tuple(steps), replace(target, volume=disk.node, size=disk.size, notes=notes))


def _erase(disk: Claim, facts: HostFacts) -> list[Step]:
    """Partitions first: a later table with the same borders would bring their file systems back."""
    graph = Graph(facts)
    device = graph.find(disk.node)
    names = graph.stack_on(device.name) if device else []
    parts = [d for n in names if (d := graph.devices.get(n)) and d.type == "part"]
    signed = sorted(part.path for part in parts if part.signatures)
    steps = [wipe(node, (disk,)) for node in [*signed, disk.node]] + [_zero(disk)]
    return [*steps, *([_reread(disk)] if parts else []), settle()]


def _zero(disk: Claim) -> Step:
    """Kernels see tables in noise: an xfs superblock without its magic passed for one (tests/rig/noise.py)."""
    return Step(
        ("dd", "if=/dev/zero", f"of={disk.node}", "bs=1M", "count=1", "conv=fsync"),
        f"Write zeros where a partition table of {disk.node} would be",
        destroys=(disk,),
    )


def _reread(disk: Claim) -> Step:
    return Step(
        ("blockdev", "--rereadpt", disk.node),
        f"Have the kernel forget the partitions of {disk.node}",
        destroys=(disk,),
    )


def teardown(options: Any, target: Target, facts: HostFacts) -> list[Step]:
    """Always: what a benchmark left may look like a superblock or a table, now or after the next boot."""
    disk = one(target, "data")
    return [] if is_claimed(disk, facts) is None else _erase(disk, facts)


def verify(options: Any, target: Target, facts: HostFacts) -> list[str]:
    disk = one(target, "data")
    device = is_claimed(disk, facts)
    if device is None:
        return [f"{disk.node} is not {disk.identity} any more"]
    if not device.signatures_known:
        return [f"{disk.node}: its signatures could not be read"]
    found = [f"{disk.node} has a {s.type} signature" for s in device.signatures]
    on_it = [name for name in Graph(facts).stack_on(device.name) if name != device.name]
    return found + [f"{disk.node} still has {name} on it" for name in on_it]
