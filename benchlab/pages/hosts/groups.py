# SPDX-License-Identifier: Apache-2.0
"""Groups of disks of a host: volume groups, md arrays, zpools, bcache sets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agents.facts.graph import Graph
from agents.facts.model import Bcache, HostFacts, MdArray, Zpool
from benchlab.hosts.blocks import LayoutNames, Owner, first_layout_name
from benchlab.web.texts import natural_key


@dataclass(frozen=True, slots=True)
class DiskGroup:
    # "LVM", "md", "zpool", "bcache"
    kind: str
    name: str
    # in words: "raid5, 3 of 3 up, resync 40 %"
    state: str
    # kernel names with what they are for: "sdb", "sdd (log, mirror-1)"
    members: tuple[str, ...]
    # volumes made of it
    gives: tuple[str, ...] = ()
    layout: str = ""
    whose: Owner = Owner.NOBODY


def disk_groups(facts: HostFacts, names: LayoutNames) -> list[DiskGroup]:
    graph = Graph(facts)
    groups = [*_volume_groups(graph, names), *_md_arrays(graph, names), *_zpools(graph, names)]
    return [*groups, *_bcache_sets(graph, names)]


def _volume_groups(graph: Graph, names: LayoutNames) -> Iterator[DiskGroup]:
    members: dict[str, list[str]] = defaultdict(list)
    for device, owner in graph.facts.members.items():
        kind, _, group = owner.partition(" ")
        if kind == "lvm" and group:
            members[group].append(device)
    for group, devices in sorted(members.items()):
        on = {above for name in devices for above in graph.stack_on(name)}
        volumes = [d.path for n in on if (d := graph.devices.get(n)) and d.type == "lvm"]
        layout = first_layout_name([group])
        yield DiskGroup(
            "LVM",
            group,
            f"{len(devices)} physical volumes",
            _sort_names(devices),
            _sort_names(volumes),
            layout,
            names.owner_of(layout),
        )


def _md_arrays(graph: Graph, names: LayoutNames) -> Iterator[DiskGroup]:
    for array in graph.facts.md_arrays:
        device = graph.devices.get(array.name)
        paths = (device.path, *device.links) if device else ()
        owners = [graph.facts.members.get(m.device, "").partition(" ")[2] for m in array.members]
        layout = first_layout_name([*paths, *(owner.rpartition(":")[2] for owner in owners)])
        path = next((p for p in paths if p.startswith("/dev/md/")), array.name)
        flags = {"S": "spare", "F": "failed", "J": "journal", "R": "replacement"}
        members = []
        for member in sorted(
            array.members, key=lambda array_member: natural_key(array_member.device)
        ):
            words = [flags[letter] for letter in member.flags if letter in flags]
            members.append(_with_notes(member.device, words))
        volumes = (device.path,) if device else ()
        yield DiskGroup(
            "md",
            path.rpartition("/")[2],
            _array_state(array),
            tuple(members),
            volumes,
            layout,
            names.owner_of(layout),
        )


def _array_state(array: MdArray) -> str:
    words = [array.level or "not started"]
    if array.state != "active" and array.level:
        words.append(array.state)
    if array.slots:
        words.append(f"{array.up} of {array.slots} up")
    if array.action:
        words.append(f"{array.action} {array.done:.0%}")
    return ", ".join(words)


def _zpools(graph: Graph, names: LayoutNames) -> Iterator[DiskGroup]:
    for pool in graph.facts.zpools:
        layout = first_layout_name([pool.name])
        volumes = [
            d.path
            for d in graph.facts.devices
            if any(link.startswith(f"/dev/zvol/{pool.name}/") for link in (d.path, *d.links))
        ]
        volumes += [d.name for d in graph.facts.datasets if d.name.startswith(f"{pool.name}/")]
        yield DiskGroup(
            "zpool",
            pool.name,
            pool.state.lower() or "state unknown",
            tuple(_vdev_names(pool, graph)),
            tuple(dict.fromkeys(volumes)),
            layout,
            names.owner_of(layout),
        )


def _vdev_names(pool: Zpool, graph: Graph) -> Iterator[str]:
    for vdev in pool.vdevs:
        device = graph.find_device(vdev.path)
        words = [vdev.use if vdev.use != "data" else "", vdev.group]
        words.append(vdev.state.lower() if vdev.state not in ("ONLINE", "AVAIL") else "")
        yield _with_notes(device.name if device else vdev.path, words)


def _bcache_sets(graph: Graph, names: LayoutNames) -> Iterator[DiskGroup]:
    """Yield one group per set UUID; a backing device without a set is a group of its own."""
    sets: dict[str, dict[str, Bcache]] = defaultdict(dict)
    for device, bcache in graph.facts.bcache.items():
        alone = not bcache.set_uuid.strip("0-")
        sets[f"none: {device}" if alone else bcache.set_uuid][device] = bcache
    layouts = sorted(names.holding | names.past)
    for uuid, devices in sorted(sets.items()):
        owners = [graph.facts.members.get(name, "").partition(" ")[2] for name in devices]
        layout = first_layout_name([*owners, *(bcache.label for bcache in devices.values())])
        mine = (n for n in layouts if any(graph.is_our_bcache(device, n) for device in devices))
        layout = layout or next(mine, "")
        members = [
            _with_notes(name, [_bcache_role(devices[name])]) for name in _sort_names(devices)
        ]
        volumes = [n for name in devices for n in graph.above[name] if n.startswith("bcache")]
        modes = {mode for bcache_device in devices.values() if (mode := _cache_mode(bcache_device))}
        yield DiskGroup(
            "bcache",
            uuid,
            ", ".join(sorted(modes)) or "no mode known",
            tuple(members),
            _sort_names(set(volumes)),
            layout,
            names.owner_of(layout),
        )


def _bcache_role(device: Bcache) -> str:
    if not device.registered:
        return "not registered"
    return "backing" if "cache_mode" in device.values else "cache"


def _cache_mode(device: Bcache) -> str:
    """The kernel prints all modes, and the one that holds in brackets."""
    modes = device.values.get("cache_mode", "")
    return modes.partition("[")[2].partition("]")[0] or modes


def _with_notes(name: str, words: list[str]) -> str:
    notes = ", ".join(word for word in words if word)
    return f"{name} ({notes})" if notes else name


def _sort_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural_key))
