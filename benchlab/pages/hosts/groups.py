# SPDX-License-Identifier: Apache-2.0
"""Groups of disks of a host: volume groups, md arrays, zpools, bcache sets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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
    groups = [*_volume_groups(graph), *_md_arrays(graph), *_zpools(graph)]
    groups += _bcache_sets(graph, sorted(names.holding | names.past))
    return [replace(group, whose=names.owner_of(group.layout)) for group in groups]


def _volume_groups(graph: Graph) -> Iterator[DiskGroup]:
    members: dict[str, list[str]] = defaultdict(list)
    for device, owner in graph.facts.members.items():
        kind, _, group = owner.partition(" ")
        if kind == "lvm" and group:
            members[group].append(device)
    for group, devices in sorted(members.items()):
        on = {above for name in devices for above in graph.stack_on(name)}
        volumes = [d.path for n in on if (d := graph.devices.get(n)) and d.type == "lvm"]
        state = f"{len(devices)} physical volumes"
        disks, gives = _sort_names(devices), _sort_names(volumes)
        yield DiskGroup("LVM", group, state, disks, gives, first_layout_name([group]))


def _md_arrays(graph: Graph) -> Iterator[DiskGroup]:
    flags = {"S": "spare", "F": "failed", "J": "journal", "R": "replacement"}
    for array in graph.facts.md_arrays:
        device = graph.devices.get(array.name)
        paths = (device.path, *device.links) if device else ()
        owners = [_owner_name(graph, member.device) for member in array.members]
        path = next((p for p in paths if p.startswith("/dev/md/")), array.name)
        yield DiskGroup(
            "md",
            path.rpartition("/")[2],
            _array_state(array),
            tuple(
                _with_notes(member.device, [flags.get(letter, "") for letter in member.flags])
                for member in sorted(array.members, key=lambda member: natural_key(member.device))
            ),
            (device.path,) if device else (),
            first_layout_name([*paths, *(owner.rpartition(":")[2] for owner in owners)]),
        )


def _owner_name(graph: Graph, device: str) -> str:
    """Name of the group that a device is a member of, after its kind; "" without one."""
    return graph.facts.members.get(device, "").partition(" ")[2]


def _array_state(array: MdArray) -> str:
    words = [array.level or "not started"]
    if array.state != "active" and array.level:
        words.append(array.state)
    if array.slots:
        words.append(f"{array.up} of {array.slots} up")
    if array.action:
        words.append(f"{array.action} {array.done:.0%}")
    return ", ".join(words)


def _zpools(graph: Graph) -> Iterator[DiskGroup]:
    for pool in graph.facts.zpools:
        zvols = f"/dev/zvol/{pool.name}/"
        volumes = [
            device.path
            for device in graph.facts.devices
            if any(link.startswith(zvols) for link in (device.path, *device.links))
        ]
        volumes += [d.name for d in graph.facts.datasets if d.name.startswith(f"{pool.name}/")]
        yield DiskGroup(
            "zpool",
            pool.name,
            pool.state.lower() or "state unknown",
            tuple(_vdev_names(pool, graph)),
            tuple(dict.fromkeys(volumes)),
            first_layout_name([pool.name]),
        )


def _vdev_names(pool: Zpool, graph: Graph) -> Iterator[str]:
    for vdev in pool.vdevs:
        device = graph.find_device(vdev.path)
        words = [vdev.use if vdev.use != "data" else "", vdev.group]
        words.append(vdev.state.lower() if vdev.state not in ("ONLINE", "AVAIL") else "")
        yield _with_notes(device.name if device else vdev.path, words)


def _bcache_sets(graph: Graph, layouts: Sequence[str]) -> Iterator[DiskGroup]:
    """Yield one group per set UUID; a backing device without a set is a group of its own."""
    sets: dict[str, dict[str, Bcache]] = defaultdict(dict)
    for device, bcache in graph.facts.bcache.items():
        alone = not bcache.set_uuid.strip("0-")
        sets[f"none: {device}" if alone else bcache.set_uuid][device] = bcache
    for uuid, devices in sorted(sets.items()):
        owners = [_owner_name(graph, name) for name in devices]
        labels = [bcache.label for bcache in devices.values()]
        ours = (n for n in layouts if any(graph.is_our_bcache(device, n) for device in devices))
        volumes = {n for name in devices for n in graph.above[name] if n.startswith("bcache")}
        modes = sorted({_cache_mode(bcache) for bcache in devices.values()} - {""})
        yield DiskGroup(
            "bcache",
            uuid,
            ", ".join(modes) or "no mode known",
            tuple(
                _with_notes(name, [_bcache_role(devices[name])]) for name in _sort_names(devices)
            ),
            _sort_names(volumes),
            first_layout_name([*owners, *labels]) or next(ours, ""),
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
