"""The disk itself: no file system, no cache, nothing between the tool and the device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agents.contracts import Need, Plan, Step, Target
from agents.facts.model import HostFacts
from agents.layers._steps import is_claimed, one, settle, wipe

LABEL = "Raw disk"
NEEDS = (Need("wipefs", {"debian": "util-linux", "rhel": "util-linux"}),)
USES = {"data": "the disk"}
GIVES = "volume"
WANTS = "devices"


@dataclass(frozen=True, slots=True)
class Options:
    discard: bool = field(
        default=False,
        metadata={"help": "Discard every block before the first run (blkdiscard; flash only)"},
    )


def plan(options: Any, target: Target, facts: HostFacts) -> Plan:
    """Erase what is on the disk and hand it over."""
    disk = one(target, "data")
    steps = [wipe(disk.node, (disk,)), settle()]
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


def teardown(options: Any, target: Target, facts: HostFacts) -> list[Step]:
    """A benchmark may have left what looks like a superblock."""
    disk = one(target, "data")
    device = is_claimed(disk, facts)
    if device is None or (device.signatures_known and not device.signatures):
        return []
    return [wipe(disk.node, (disk,)), settle()]


def verify(options: Any, target: Target, facts: HostFacts) -> list[str]:
    disk = one(target, "data")
    device = is_claimed(disk, facts)
    if device is None:
        return [f"{disk.node} is not {disk.identity} any more"]
    if not device.signatures_known:
        return [f"{disk.node}: its signatures could not be read"]
    found = [f"{disk.node} has a {s.type} signature" for s in device.signatures]
    return found + [f"{disk.node} is held by {name}" for name in device.holders]
