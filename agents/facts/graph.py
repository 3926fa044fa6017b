# SPDX-License-Identifier: Apache-2.0
"""Questions about facts: what stands on a device, what it stands on, whose it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from agents.facts.model import BlockDevice, HostFacts
from agents.uuids import is_uuid_of

# What may stand before a name that we gave.
OWN_PREFIXES = (
    "/dev/mapper/",
    "/dev/md/",
    "/dev/zvol/",
    "/dev/disk/by-partlabel/",
    "/dev/bcache/by-label/",
    "/dev/gpt/",
    "/dev/",
)


# What may follow the layout's name in one of its own: what is in a group or pool; what a layer adds behind a hyphen
# (of one in a group's name LVM makes two: bl1--old-data is of the group bl1-old); mdadm's number where a name is taken.
NAME_SUFFIX = re.compile(r"(?:/.*|-(?!-)[A-Za-z0-9+_.-]*|_\d+)?", re.DOTALL)


def has_layout_name(name: str, layout: str) -> bool:
    """True for the layout's own names: bl1, bl1-data, bl1/data, never bl17, foreign_bl1, bl1_old or bl1-data:old."""
    return (
        bool(layout) and name.startswith(layout) and bool(NAME_SUFFIX.fullmatch(name, len(layout)))
    )


def is_own_path(path: str, layout: str) -> bool:
    """True when only this layout makes nodes of that path: /dev/bl1/data, /dev/zvol/bl1/vol, never /dev/bl1/../sda."""
    if not layout or ".." in path.split("/"):
        return False
    return any(
        path.startswith(p) and has_layout_name(path.removeprefix(p), layout) for p in OWN_PREFIXES
    )


def names_by_path(devices: Iterable[BlockDevice]) -> dict[str, list[str]]:
    """Every path -> kernel names of all that have it: udev notes a link for each device that asks for it."""
    names: dict[str, list[str]] = {}
    for device in devices:
        for path in (device.path, *device.links):
            names.setdefault(path, []).append(device.name)
    return names


def resolve_paths(
    owned: Mapping[str, Sequence[str]], devices: Mapping[str, BlockDevice]
) -> dict[str, str]:
    """Every path that leads to one device for certain -> its kernel name.

    Of several owners /dev has one, and nobody can say which; unless one is multipath's and the others are its paths:
    then it is one disk.
    """
    resolved = {}
    for path, names in owned.items():
        tops = names if len(names) == 1 else [n for n in names if _is_multipath(devices[n], names)]
        if len(tops) == 1:
            resolved[path] = tops[0]
    return resolved


def _is_multipath(device: BlockDevice, names: Sequence[str]) -> bool:
    return device.type == "mpath" and {*names} <= {device.name, *device.parents}


class Graph:
    """The devices of one reading with their edges in both directions."""

    def __init__(self, facts: HostFacts) -> None:
        self.facts = facts
        self.devices = {device.name: device for device in facts.devices}
        self.below: dict[str, set[str]] = {name: set(d.parents) for name, d in self.devices.items()}
        self.above: dict[str, set[str]] = {name: set(d.holders) for name, d in self.devices.items()}
        for device in facts.devices:
            for parent in device.parents:
                self.above.setdefault(parent, set()).add(device.name)
            for holder in device.holders:
                self.below.setdefault(holder, set()).add(device.name)
        self.hollow = _devices_without_disks(facts, self.below)
        self.owners = names_by_path(facts.devices)
        # a path of several devices leads nowhere
        self.paths = resolve_paths(self.owners, self.devices)

    def stack_on(self, name: str) -> list[str]:
        """The device itself, its partitions and all that stands on them; names may be unknown."""
        return _reachable(name, lambda n: self.above.get(n, ()))

    def stack_under(self, name: str) -> list[str]:
        """The device itself and all it stands on."""
        return _reachable(name, lambda n: self.below.get(n, ()))

    def disks_under(self, name: str) -> set[str]:
        """The devices at the very bottom; none where all that it stands on answers nothing but errors."""
        return {n for n in self.stack_under(name) if not self.below.get(n)} - self.hollow

    def find_device(self, path_or_name: str) -> BlockDevice | None:
        """The device with this path, link or kernel name."""
        return self.devices.get(self.paths.get(path_or_name, path_or_name))

    def is_ours(self, name: str, layout: str) -> bool:
        """True when a stacked device was made by this layout: it has a name that we gave."""
        device = self.devices.get(name)
        if device is None or not (self.below.get(name) or name in self.hollow):
            # a disk is never made by a layout
            return False
        certain = (path for path in device.links if self.paths.get(path) == name)
        for path in (device.path, *certain):
            prefix = next(prefix for prefix in OWN_PREFIXES if path.startswith(prefix))
            if has_layout_name(path.removeprefix(prefix), layout):
                return True
        below = self.below.get(name, set())
        # one that could not start has no name of ours itself
        if device.name.startswith("md"):
            parents = below or self._array_members(name)
            owners = [self.facts.members.get(parent, "") for parent in parents]
            ours = (o.startswith("md ") and has_layout_name(o[3:], layout) for o in owners)
            return bool(owners) and all(ours)
        return any(self.is_our_bcache(parent, layout) for parent in below)

    def _array_members(self, name: str) -> list[str]:
        """Members of an array, including those that are no longer devices."""
        return [
            m.device for array in self.facts.md_arrays if array.name == name for m in array.members
        ]

    def is_our_bcache(self, name: str, layout: str) -> bool:
        """True when a backing or cache device has this layout's label, or is in a set of this layout."""
        owner, device = self.facts.members.get(name, ""), self.facts.bcache.get(name)
        if owner.startswith("bcache ") and has_layout_name(owner[7:], layout):
            return True
        return device is not None and is_uuid_of(device.set_uuid, layout)


def _devices_without_disks(facts: HostFacts, below: Mapping[str, Collection[str]]) -> set[str]:
    """Mappings that stand on nothing: all of their table is `error`, as of a mirror's leg whose disk LVM misses. And
    arrays and volumes of bcache none of whose disks is a device any more.
    """
    tables: dict[str, set[str]] = {}
    for name, words in facts.mappings():
        tables.setdefault(f"/dev/mapper/{name}", set()).add("".join(words[2:3]))
    present = {device.name for device in facts.devices}
    members = {a.name: {member.device for member in a.members} for a in facts.md_arrays}
    errors = {
        device.name
        for device in facts.devices
        if not below.get(device.name) and tables.get(device.path) == {"error"}
    }
    cached = {name: set(below[name]) for name in present if re.fullmatch(r"bcache\d+", name)}
    return (
        errors
        | {name for name, those in members.items() if those and not those & present}
        | {name for name, those in cached.items() if not those & present}
    )


def _reachable(start: str, edges: Callable[[str], Iterable[str]]) -> list[str]:
    reached, todo = {start: None}, [start]
    while todo:
        for name in sorted(edges(todo.pop())):
            if name not in reached:
                reached[name] = None
                todo.append(name)
    return list(reached)
