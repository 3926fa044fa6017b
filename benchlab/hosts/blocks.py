"""A host's block devices as what they are stacked into: disk, partitions, volumes, mounts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts

# Everything that we make carries the prefix bl<layout> (agents.contracts.Target.name).
OURS = re.compile(r"bl(?:[a-z]{3})?(\d+)(?![0-9A-Za-z])")
WHOLE = frozenset({"disk", "mpath"})
EMPTY = re.compile(r"(ram|zram|loop|sr|fd)\d+$")


@dataclass(frozen=True, slots=True)
class Block:
    """One device and what stands on it. `repeated`: it stands on several devices and is drawn in full above."""

    device: BlockDevice
    children: tuple[Block, ...] = ()
    layout: int | None = None  # the layout whose name it carries
    orphan: bool = False  # it carries our name, but that layout no longer holds the host
    repeated: bool = False
    member: str = ""  # what it belongs to: "lvm VG", "md NAME", "zpool POOL"


def is_whole(device: BlockDevice) -> bool:
    """A disk as a person buys it (or multipath's one name for it), not a slice, a stack, or a memory disk."""
    return device.type in WHOLE and device.size > 0 and not EMPTY.match(device.name)


def forest(facts: HostFacts, holding: Set[int] = frozenset()) -> list[Block]:
    """One tree per device that stands on nothing, disks first. `holding`: ids of the layouts that hold the host."""
    graph = Graph(facts)
    drawn: set[str] = set()

    def on(name: str) -> list[BlockDevice]:
        above = [graph.devices[n] for n in graph.above[name] if n in graph.devices]
        return sorted(above, key=lambda d: _natural(d.name))

    def grow(device: BlockDevice) -> Block:
        layout = _layout_of(device, facts.members)
        repeated = device.name in drawn
        drawn.add(device.name)
        return Block(
            device=device,
            children=() if repeated else tuple(map(grow, on(device.name))),
            layout=layout,
            orphan=layout is not None and layout not in holding,
            repeated=repeated,
            member=facts.members.get(device.name, ""),
        )

    roots = [
        d for d in facts.devices if not graph.below[d.name] & set(graph.devices) and not _idle(d)
    ]
    return [grow(root) for root in sorted(roots, key=lambda d: (not is_whole(d), _natural(d.name)))]


def walk(blocks: tuple[Block, ...] | list[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from walk(block.children)


def _layout_of(device: BlockDevice, members: Mapping[str, str]) -> int | None:
    labels = [signature.label for signature in device.signatures]
    owner = members.get(device.name, "").partition(" ")[2]
    paths = [device.path, *device.links, *device.mounts]
    names = [part for path in paths for part in path.split("/")]
    return next((int(m[1]) for name in (*names, *labels, owner) if (m := OURS.match(name))), None)


def _idle(device: BlockDevice) -> bool:
    """Empty slots that only make a long list: loop devices without a file, memory disks, drives without a disc."""
    return device.size == 0 or bool(
        EMPTY.match(device.name) and not (device.holders or device.mounts or device.swap)
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """sda2 before sda10."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
