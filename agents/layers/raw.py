# SPDX-License-Identifier: Apache-2.0
"""The disk itself: no file system, no cache, nothing between the tool and the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Need, Part, Plan, PlanError, Step, Target, Use, claims_of
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.options import option
from agents.steps.common import erase_all, member_nodes, still_there, without_uses

LABEL = "Raw disk"
NEEDS = (
    # FreeBSD: dd and gpart of its base system, see common.erase_all
    Need("wipefs", {"debian": "util-linux", "rhel": "util-linux"}, instead={"freebsd": ""}),
)
USES = {"data": Use("the disk", most=1)}
PROVIDES = "volume"
REQUIRES = "devices"


@dataclass(frozen=True, slots=True)
class Options:
    discard: bool = option(
        False, "Discard every block before the first run (blkdiscard; flash only)"
    )


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Erase what is on the disk, or on the partition or volume that a layer below made, and hand it over."""
    piece, claims = _piece(target), claims_of(target)
    steps = erase_all(target, [_piece(target)], facts)
    notes = target.notes
    if options.discard:
        steps.append(
            Step(
                ("blkdiscard", piece.node),
                f"Discard every block of {piece.node}",
                destroys=claims,
                timeout_s=3600,
            )
        )
        notes += (f"{piece.node} was discarded (blkdiscard)",)
    below = target if piece.node == target.volume else without_uses(target, "data")
    return Plan(tuple(steps), replace(below, volume=piece.node, size=piece.size, notes=notes))


def _piece(target: Target) -> Part:
    """The only piece. Raises PlanError unless there is exactly one."""
    nodes = member_nodes(target, "data", main=True)
    if len(nodes) != 1:
        raise PlanError(f"data: needs exactly one disk or partition, got {len(nodes)}")
    return nodes[0]


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Always: what a benchmark left may look like a superblock or a table, now or after the next boot."""
    return (
        [] if _claimed_device(target, facts) is None else erase_all(target, [_piece(target)], facts)
    )


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    node = _piece(target).node
    device = _claimed_device(target, facts)
    if device is None:
        return [f"{node} is not there any more, or not on the disks it was planned on"]
    if not device.signatures_known:
        return [f"{node}: its signatures could not be read"]
    differences = [f"{node} has a {s.type} signature" for s in device.signatures]
    on_it = [name for name in Graph(facts).stack_on(device.name) if name != device.name]
    return differences + [f"{node} still has {name} on it" for name in on_it]


def _claimed_device(target: Target, facts: HostFacts) -> BlockDevice | None:
    """The disk or piece if it is there and still lies on the claimed disks: no other may be touched."""
    piece = _piece(target)
    return Graph(facts).find_device(piece.node) if still_there(target, [piece], facts) else None
