"""Questions about facts: what stands on a device, what it stands on, whose it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agents.facts.model import BlockDevice, HostFacts
from agents.layers._names import is_uuid_of

# What may stand before a name that we gave.
OWN = ("/dev/mapper/", "/dev/md/", "/dev/zvol/", "/dev/disk/by-partlabel/", "/dev/bcache/by-label/",
       "/dev/gpt/", "/dev/")  # fmt: skip


def carries(name: str, layout: str) -> bool:
    """Whether a name is the layout's own: bl1, bl1-data, bl1/data, never bl17 or foreign_bl1."""
    rest = name.removeprefix(layout)
    return bool(layout) and name.startswith(layout) and not (rest and rest[0].isalnum())


def own_path(path: str, layout: str) -> bool:
    """Whether only this layout makes nodes of that path: /dev/bl1/data, /dev/zvol/bl1/vol, never /dev/bl1/../sda."""
    if not layout or ".." in path.split("/"):
        return False
    return any(path.startswith(p) and carries(path.removeprefix(p), layout) for p in OWN)


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
        self.paths = {path: d.name for d in facts.devices for path in (d.path, *d.links)}

    def stack_on(self, name: str) -> list[str]:
        """The device itself, its partitions and all that stands on them; names may be unknown."""
        return _reach(name, lambda n: self.above.get(n, ()))

    def stack_under(self, name: str) -> list[str]:
        """The device itself and all it stands on."""
        return _reach(name, lambda n: self.below.get(n, ()))

    def disks_under(self, name: str) -> set[str]:
        """The devices at the very bottom."""
        return {n for n in self.stack_under(name) if not self.below.get(n)}

    def find(self, path_or_name: str) -> BlockDevice | None:
        """By any path, link or kernel name."""
        return self.devices.get(self.paths.get(path_or_name, path_or_name))

    def is_ours(self, name: str, layout: str) -> bool:
        """Whether a stacked device was made by this layout: it has a name that we gave."""
        device = self.devices.get(name)
        if device is None or not self.below.get(name):
            return False  # a disk is never made by a layout
        given = (_own_name(path) for path in (device.path, *device.links))
        if any(carries(name, layout) for name in given):
            return True
        below = self.below[name]
        if device.name.startswith("md"):  # one that could not start has no name of ours itself
            owners = [self.facts.members.get(parent, "") for parent in below]
            return all(o.startswith("md ") and carries(o[3:], layout) for o in owners)
        return any(self.is_our_bcache(parent, layout) for parent in below)

    def is_our_bcache(self, name: str, layout: str) -> bool:
        """Whether a backing or cache device has this layout's label, or is in a set of this layout."""
        owner, found = self.facts.members.get(name, ""), self.facts.bcache.get(name)
        if owner.startswith("bcache ") and carries(owner[7:], layout):
            return True
        return found is not None and is_uuid_of(found.set_uuid, layout)


def _own_name(path: str) -> str:
    return next(path.removeprefix(prefix) for prefix in OWN if path.startswith(prefix))


def _reach(start: str, edges: Callable[[str], Iterable[str]]) -> list[str]:
    found, todo = {start: None}, [start]
    while todo:
        for name in sorted(edges(todo.pop())):
            if name not in found:
                found[name] = None
                todo.append(name)
    return list(found)
