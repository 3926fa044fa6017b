# SPDX-License-Identifier: Apache-2.0
"""A zpool of disks, partitions or the volume below, with log (SLOG), cache (L2ARC), special and spare devices.

OpenZFS on Linux makes a partition of each whole disk (1, and 9 of 8 MiB), which stay when the pool is gone. Sources:
zpool-create(8), zpoolprops(7), articles 000 and 001.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agents.contracts import (
    AgentError,
    Claim,
    Need,
    OptionsError,
    Part,
    Plan,
    PlanError,
    Reason,
    Step,
    Target,
    Use,
    claims_of,
)
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts, Zpool
from agents.facts.volumes import missing_device_message
from agents.layers import _zfs
from agents.options import option
from agents.steps.common import (
    MIB,
    erase_all,
    member_nodes,
    settle,
    still_there,
    without_uses,
    zeros,
)

LABEL = "zpool"
NEEDS = (_zfs.ZPOOL,)
USES = {
    "data": Use("disks of the pool"),
    "log": Use("SLOG, the intent log", least=0, most=2),
    "cache": Use("L2ARC, the read cache", least=0),
    "special": Use("disks for metadata", least=0),
    "spare": Use("hot spares", least=0),
}
REQUIRES = "devices"
PROVIDES = "pool"
PARITY = {"raidz1": 1, "raidz2": 2, "raidz3": 3}
IN_ORDER = {"ONLINE", "AVAIL"}
# partition 9, which nothing is ever written to
RESERVED = 8 << 20
# A command that writes to such a pool waits for ever, and with it whoever asks about pools.
CANNOT_WRITE = {"SUSPENDED", "UNAVAIL", "FAULTED"}
LOST = "because it lost a disk and its I/O is suspended: reboot the host, then retry"


@dataclass(frozen=True, slots=True)
class Options:
    layout: str = option(
        "stripe", "Redundancy of the data disks", choices=("stripe", "mirror", *PARITY)
    )
    width: int = option(0, "Disks per mirror or raidz; 0: mirrors of 2, one raidz", minimum=0)
    ashift: int = option(
        0, "Sector size as a power of two, 9 to 16; 0: as the disks report", minimum=0
    )
    log_mirror: bool = option(False, "Mirror the two log devices")
    special_mirror: bool = option(False, "Special devices as one mirror")
    autotrim: bool = option(False, "Discard freed blocks all the time")
    autoexpand: bool = option(False, "Grow when the disks have grown")

    def __post_init__(self) -> None:
        if self.ashift and not 9 <= self.ashift <= 16:
            raise OptionsError("ashift: 9 to 16, or 0")
        if self.layout == "stripe" and self.width:
            raise OptionsError("width: a stripe has none")
        if self.width and self.width <= PARITY.get(self.layout, 1):
            raise OptionsError(f"width: {self.width} disks make no {self.layout}")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Erase, load the module, make the pool in one command. Raises PlanError naming the numbers."""
    _zfs.check_module(facts)
    _refuse_arrays(target)
    if target.pool:
        raise PlanError(
            f"a zpool cannot be built on a volume of {target.pool}: remove one of the two"
        )
    groups = device_groups(options, target)
    _check_sizes(target, facts)
    steps = erase_all(target, _nodes(target), facts)
    if facts.os_family != "freebsd":
        steps.append(Step(("modprobe", "zfs"), "Load the kernel's ZFS"))
    claims = claims_of(target)
    steps += [
        Step(
            _create_command(options, target.name, groups),
            f"Make the pool {target.name}",
            destroys=claims,
            undo=(_destroy_step(target.name, claims),),
            # OpenZFS waits for udev at each disk
            timeout_s=900,
        ),
        settle(),
    ]
    shape, size = _space(options, target, facts)
    gives = replace(without_uses(target, *USES), pool=target.name, size=size, parity=shape.parity)
    if shape.parity:
        gives = replace(gives, stripe_unit=shape.sector, stripe_count=shape.width - shape.parity)
    return Plan(_zfs.settled(steps, facts), gives)


def _create_command(options: Options, name: str, groups: list[Group]) -> tuple[str, ...]:
    """No cache file: nothing imports it by itself after a boot. -f: mixed redundancy is what was asked for."""
    devices: list[str] = []
    for use in USES:
        own = [group for group in groups if group.use == use]
        if own and use != "data":
            devices.append(use)
        for group in own:
            devices += [*([group.kind] if group.kind else []), *group.nodes]
    root = {"mountpoint": "none", "canmount": "off"}
    pool = _zfs.property_arguments("-o", _properties(options))
    return ("zpool", "create", "-f", *pool, *_zfs.property_arguments("-O", root), name, *devices)


def _properties(options: Options) -> dict[str, str]:
    """failmode: when a disk is lost a program gets an error, where it would wait for ever."""
    properties = {
        "cachefile": "none",
        "failmode": "continue",
        "autoexpand": _zfs.on_or_off(options.autoexpand),
    }
    if options.ashift:
        properties["ashift"] = str(options.ashift)
    return properties | ({"autotrim": "on"} if options.autotrim else {})


def _check_sizes(target: Target, facts: HostFacts) -> None:
    for part in _nodes(target):
        if _usable_bytes(part, target, facts) < _zfs.LEAST:
            raise PlanError(
                f"{part.node} has {part.size >> 20} MiB: ZFS needs {_zfs.LEAST >> 20} MiB"
                " besides its own partition table"
            )


def _usable_bytes(part: Part, target: Target, facts: HostFacts) -> int:
    """Bytes that ZFS takes of it. Volumes too: it may make partitions on them as on a disk."""
    if facts.os_family == "freebsd" or any(part in parts for parts in target.parts.values()):
        return part.size
    return _zfs.partition(part.size)


def _space(options: Options, target: Target, facts: HostFacts) -> tuple[_zfs.Shape, int]:
    """Geometry by which a group stores a block, and the bytes that the whole pool holds at least."""
    sizes = {
        part.node: _usable_bytes(part, target, facts)
        for part in member_nodes(target, "data", main=True)
    }
    graph = Graph(facts)
    sector_sizes = [device.physical_sector for node in sizes if (device := graph.find_device(node))]
    sector = 1 << options.ashift if options.ashift else max(sector_sizes, default=4096)
    data = [group for group in device_groups(options, target) if group.use == "data"]
    parity = PARITY.get(options.layout, 0)
    shape = _zfs.Shape(len(data[0].nodes) if parity else 1, parity, sector)
    spaces = [_zfs.group_bytes([sizes[node] for node in group.nodes], shape) for group in data]
    return shape, _zfs.usable(spaces, shape)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Destroy the pool if it is imported; its labels, then what else is on the disks, go directly if not."""
    claims = claims_of(target)
    steps: list[Step] = []
    pool = _zfs.imported(target.name, facts)
    if pool is not None:
        _refuse_to_wait(pool, facts)
        steps.append(_destroy_step(pool.name, claims))
    present_nodes = still_there(target, _nodes(target), facts)
    if labelled := _labelled(present_nodes, facts):
        steps.append(_unlabel(labelled, claims, facts))
    return list(_zfs.settled([*steps, *erase_all(target, present_nodes, facts)], facts))


def _refuse_to_wait(pool: Zpool, facts: HostFacts) -> None:
    """A pulled disk counts as open until the pool writes to it, and umount and destroy do: raises AgentError before
    any step of any layer.
    """
    if pool.state in CANNOT_WRITE:
        raise AgentError(f"{pool.name} cannot be destroyed, {LOST}", Reason.NOT_BLANK)
    messages = (missing_device_message(pool.name, vdev.path) for vdev in pool.vdevs)
    if missing := [message for message in messages if message in facts.unknown]:
        raise AgentError(f"{'; '.join(missing)}: fix that, then retry", Reason.DISK_GONE)


def _nodes(target: Target) -> list[Part]:
    return [part for use in USES for part in member_nodes(target, use, main=use == "data")]


def _destroy_step(name: str, claims: tuple[Claim, ...]) -> Step:
    return Step(("zpool", "destroy", name), f"Destroy the pool {name}", destroys=claims)


def _labelled(nodes: Iterable[Part], facts: HostFacts) -> list[Part]:
    """The partitions that OpenZFS made; on FreeBSD it makes none."""
    graph = Graph(facts)
    names = [device.name for node in nodes if (device := graph.find_device(node.node))]
    labelled = [
        graph.devices.get(part) for name in names for part in sorted(graph.above.get(name, ()))
    ]
    parts = [part for part in labelled if part and part.type == "part" and part.size > RESERVED]
    return [] if facts.os_family == "freebsd" else [Part(part.path, part.size) for part in parts]


def _unlabel(parts: list[Part], claims: tuple[Claim, ...], facts: HostFacts) -> Step:
    """The label of a cache or spare device nobody but ZFS sees, so what has one is not looked for."""
    ends = [(part.node, at) for part in parts for at in (0, part.size - MIB)]
    purpose = "Write zeros over the ZFS labels at both ends of " + ", ".join(p.node for p in parts)
    return zeros(ends, claims, facts, purpose)


def _refuse_arrays(target: Target) -> None:
    """OpenZFS cuts an array by the array's own alignment, so what the pool holds is not what its arithmetic says."""
    for node in (part.node for use in USES for part in member_nodes(target, use, use == "data")):
        if node.startswith("/dev/md/"):
            raise PlanError(
                f"{node} is an md array: use its disks in the pool directly (mirror, raidz1 to raidz3)"
            )


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """Faults that `zpool status -x` prints; it is silent on a healthy pool. A small ashift is a choice and no fault."""
    if target.name in health.sound:
        return []
    pool = health.pools.get(target.name)
    if pool is None:
        return [f"the pool {target.name} is not there any more {health.pool_message}".strip()]
    if wrong := out_of_order(pool):
        return wrong
    chosen = pool.state == "ONLINE" and "non-native block size" in health.pool_message
    return (
        [] if chosen else [f"{pool.name} is {pool.state}: {health.pool_message}".removesuffix(": ")]
    )


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check that every device is in its place and healthy, every property, and the promised size."""
    pool = _zfs.imported(target.name, facts)
    if pool is None:
        return [f"there is no pool {target.name}"]
    wrong = group_differences(pool, device_groups(options, target), facts)
    for key, value in _properties(options).items():
        now = pool.properties.get(key, "unknown")
        if now != value:
            wrong.append(f"{pool.name}: {key} is {now}, not {value}")
    root = {"mountpoint": "none", "canmount": "off"}
    return (
        wrong
        + _zfs.property_differences(pool.name, root, facts)
        + _too_small(options, target, pool, facts)
    )


def _too_small(options: Options, target: Target, pool: Zpool, facts: HostFacts) -> list[str]:
    """`used` may be there already: a layer above took it."""
    root_dataset = _zfs.dataset(pool.name, facts)
    space_values = (
        [root_dataset.properties.get(key, "") for key in ("available", "used")]
        if root_dataset
        else []
    )
    if not space_values or not all(word.isdigit() for word in space_values):
        return [f"{pool.name}: its capacity is unknown"]
    promised = _space(options, target, facts)[1]
    holds = sum(map(int, space_values))
    return [f"{pool.name} holds {holds} B, not {promised}"] if holds < promised else []


@dataclass(frozen=True, slots=True)
class Group:
    """Devices that belong together, or one alone (kind "")."""

    use: str
    # "", "mirror", "raidz1", …
    kind: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(self.nodes)}" if self.kind else ", ".join(self.nodes)


def device_groups(options: Options, target: Target) -> list[Group]:
    """All groups, uses in the order of the command. Raises PlanError when the numbers do not fit."""
    data_groups = _data(options, _vdev_nodes(target, "data"))
    for use, mirrored in (
        ("log", options.log_mirror),
        ("cache", False),
        ("special", options.special_mirror),
        ("spare", False),
    ):
        nodes = _vdev_nodes(target, use)
        if mirrored and len(nodes) < 2:
            raise PlanError(f"{use}_mirror: a mirror needs 2 {use} devices, there are {len(nodes)}")
        data_groups += (
            [Group(use, "mirror", nodes)] if mirrored else _single_device_groups(use, nodes)
        )
    return data_groups


def _vdev_nodes(target: Target, use: str) -> tuple[str, ...]:
    return tuple(part.node for part in member_nodes(target, use, main=use == "data"))


def _single_device_groups(use: str, nodes: Sequence[str]) -> list[Group]:
    return [Group(use, "", (node,)) for node in nodes]


def _data(options: Options, nodes: Sequence[str]) -> list[Group]:
    if not nodes:
        raise PlanError("data: a pool needs at least one disk, partition or volume")
    if options.layout == "stripe":
        return _single_device_groups("data", nodes)
    least = PARITY.get(options.layout, 1) + 1
    width = options.width or (2 if options.layout == "mirror" else max(len(nodes), least))
    if len(nodes) % width or len(nodes) < least:
        raise PlanError(
            f"data: {options.layout} in groups of {width} disks (at least {least}) cannot be made of"
            f" {len(nodes)}: use a multiple of {width}, or change the width"
        )
    return [
        Group("data", options.layout, tuple(nodes[start : start + width]))
        for start in range(0, len(nodes), width)
    ]


def group_differences(pool: Zpool, expected_groups: Iterable[Group], facts: HostFacts) -> list[str]:
    """Groups that are missing or too many, and devices that are not in order."""
    graph = Graph(facts)
    expected = {
        _group_key(g.use, g.kind, (_device_name(node, graph, ()) for node in g.nodes)): g
        for g in expected_groups
    }
    whole = {name for _, _, names in expected for name in names}
    disks_by_group: dict[tuple[str, str], set[str]] = {}
    for number, vdev in enumerate(pool.vdevs):
        group = vdev.group or f"-{number}"
        disks_by_group.setdefault((vdev.use, group), set()).add(
            _device_name(vdev.path, graph, whole)
        )
    actual = {
        _group_key(use, group.rpartition("-")[0], names)
        for (use, group), names in disks_by_group.items()
    }
    wrong = [f"{pool.name} has no {g.use} {g}" for key, g in expected.items() if key not in actual]
    wrong += [
        f"{pool.name} has {use} {kind} {', '.join(sorted(names))}, which was not requested".replace(
            "  ", " "
        )
        for use, kind, names in sorted(actual - expected.keys(), key=str)
    ]
    return wrong + out_of_order(pool)


def out_of_order(pool: Zpool) -> list[str]:
    return [
        f"{pool.name}: {vdev.path} is {vdev.state}"
        for vdev in pool.vdevs
        if vdev.state not in IN_ORDER
    ]


def _group_key(use: str, kind: str, names: Iterable[str]) -> tuple[str, str, frozenset[str]]:
    return use, kind, frozenset(names)


def _device_name(path: str, graph: Graph, whole: Iterable[str]) -> str:
    """Kernel name; of the disk where OpenZFS made a partition of a whole one."""
    device = graph.find_device(path)
    if device is None:
        return path
    below = graph.below.get(device.name, set()) & set(whole)
    return min(below) if device.type == "part" and below else device.name
