# SPDX-License-Identifier: Apache-2.0
"""A host's block devices as what they are stacked into: disk, partitions, volumes, mounts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from agents.facts.graph import Graph, has_layout_name
from agents.facts.model import BlockDevice, HostFacts
from agents.uuids import is_uuid_of
from benchlab.web.texts import natural_key

# Everything that a BenchLab makes begins with bl, its installation's tag (older ones: none) and the layout's number.
NAME = re.compile(r"bl(?:[a-z]{3})?\d+(?![0-9A-Za-z])")
WHOLE = frozenset({"disk", "mpath"})
EMPTY = re.compile(r"(ram|zram|loop|sr|fd)\d+$")


class Owner(StrEnum):
    # not made by a BenchLab, but by the system or a person
    NOBODY = ""
    # of a layout that holds the host
    OURS = "ours"
    # of this installation, but its layout does not hold the host (any more)
    ORPHAN = "orphan"
    # another BenchLab's
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LayoutNames:
    """Names of this installation's layouts on one host. Any other name is not ours."""

    holding: frozenset[str] = frozenset()
    past: frozenset[str] = frozenset()
    # Tag of this installation, part of its layouts' names.
    tag: str = ""

    def owner_of(self, name: str) -> Owner:
        if not name:
            return Owner.NOBODY
        if name in self.holding:
            return Owner.OURS
        of_a_layout_gone = bool(self.tag) and re.fullmatch(rf"bl{self.tag}\d+", name)
        return Owner.ORPHAN if name in self.past or of_a_layout_gone else Owner.OTHER


@dataclass(frozen=True, slots=True)
class Block:
    """One device and what stands on it. `repeated`: it stands on several devices and is drawn in full above."""

    device: BlockDevice
    children: tuple[Block, ...] = ()
    # the name of the layout that made it: "blabc17"
    layout: str = ""
    whose: Owner = Owner.NOBODY
    repeated: bool = False
    # group that the device belongs to: "lvm VG", "md NAME", "zpool POOL"
    member: str = ""

    @property
    def orphan(self) -> bool:
        return self.whose is Owner.ORPHAN

    @property
    def ours(self) -> bool:
        return self.whose is Owner.OURS

    @property
    def other(self) -> bool:
        return self.whose is Owner.OTHER


NO_LAYOUTS = LayoutNames()


def is_whole(device: BlockDevice) -> bool:
    """True for a disk as a person buys it (or multipath's one name for it), not a slice, a stack, or a memory disk."""
    return device.type in WHOLE and device.size > 0 and not EMPTY.match(device.name)


def device_trees(facts: HostFacts, names: LayoutNames = NO_LAYOUTS) -> list[Block]:
    """One tree per device that stands on nothing, disks first."""
    graph = Graph(facts)
    drawn: set[str] = set()

    def on(name: str) -> list[BlockDevice]:
        above = [graph.devices[n] for n in graph.above[name] if n in graph.devices]
        return sorted(above, key=lambda d: natural_key(d.name))

    def grow(device: BlockDevice) -> Block:
        layout = _layout_of(device, graph, names)
        repeated = device.name in drawn
        drawn.add(device.name)
        return Block(
            device=device,
            children=() if repeated else tuple(map(grow, on(device.name))),
            layout=layout,
            whose=names.owner_of(layout),
            repeated=repeated,
            member=facts.members.get(device.name, ""),
        )

    roots = [
        d
        for d in facts.devices
        if not graph.below[d.name] & set(graph.devices) and not _is_empty_slot(d)
    ]
    return [
        grow(root) for root in sorted(roots, key=lambda d: (not is_whole(d), natural_key(d.name)))
    ]


def walk_blocks(blocks: tuple[Block, ...] | list[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from walk_blocks(block.children)


def _layout_of(device: BlockDevice, graph: Graph, names: LayoutNames) -> str:
    """Name of the layout that a device belongs to, by its names and membership; "" if there is none.

    A physical volume without a group, and bcache, are recognised by the UUIDs that we give.
    """
    # md writes "host:name" into its superblocks.
    labels = [signature.label.rpartition(":")[2] for signature in device.signatures]
    owner = graph.facts.members.get(device.name, "").partition(" ")[2]
    name_found = first_layout_name(
        [device.path, *device.links, *device.mounts, device.label, *labels, owner]
    )
    uuids = [s.uuid for s in device.signatures if s.type == "LVM2_member"]
    if name_found or not (uuids or device.name in graph.facts.bcache):
        return name_found
    for name in sorted(names.holding | names.past):
        if graph.is_our_bcache(device.name, name) or any(is_uuid_of(uuid, name) for uuid in uuids):
            return name
    return ""


def first_layout_name(texts: Iterable[str]) -> str:
    """Name of the first layout in paths, labels and names of groups; "" when there is none."""
    words = (word for text in texts for word in text.split("/"))
    candidates = ((word, match[0]) for word in words if (match := NAME.match(word)))
    return next((name for word, name in candidates if has_layout_name(word, name)), "")


def _is_empty_slot(device: BlockDevice) -> bool:
    """True for empty slots that only lengthen a list: loop devices without file, memory disks, drives without disc."""
    return device.size == 0 or bool(
        EMPTY.match(device.name) and not (device.holders or device.mounts or device.swap)
    )
