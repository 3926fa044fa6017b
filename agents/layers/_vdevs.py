# SPDX-License-Identifier: Apache-2.0
"""The devices of a zpool in their groups: as a plan wants them, and as `zpool status` shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.contracts import PlanError, Target
from agents.facts.graph import Graph
from agents.facts.model import HostFacts, Zpool
from agents.steps.common import member_nodes

PARITY = {"raidz1": 1, "raidz2": 2, "raidz3": 3}
IN_ORDER = {"ONLINE", "AVAIL"}


@dataclass(frozen=True, slots=True)
class Group:
    """Devices that belong together, or one alone (kind "")."""

    use: str
    # "", "mirror", "raidz1", …
    kind: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(self.nodes)}" if self.kind else ", ".join(self.nodes)


class Wish(Protocol):
    """zpool's options that say how disks are grouped."""

    @property
    def layout(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def log_mirror(self) -> bool: ...
    @property
    def special_mirror(self) -> bool: ...


def device_groups(wish: Wish, target: Target) -> list[Group]:
    """All groups, uses in the order of the command. Raises PlanError when the numbers do not fit."""
    data_groups = _data(wish, _nodes(target, "data"))
    for use, mirrored in (
        ("log", wish.log_mirror),
        ("cache", False),
        ("special", wish.special_mirror),
        ("spare", False),
    ):
        nodes = _nodes(target, use)
        if mirrored and len(nodes) < 2:
            raise PlanError(f"{use}_mirror: a mirror needs 2 {use} devices, there are {len(nodes)}")
        data_groups += (
            [Group(use, "mirror", nodes)] if mirrored else _single_device_groups(use, nodes)
        )
    return data_groups


def _nodes(target: Target, use: str) -> tuple[str, ...]:
    return tuple(part.node for part in member_nodes(target, use, main=use == "data"))


def _single_device_groups(use: str, nodes: Sequence[str]) -> list[Group]:
    return [Group(use, "", (node,)) for node in nodes]


def _data(wish: Wish, nodes: Sequence[str]) -> list[Group]:
    if not nodes:
        raise PlanError("data: a pool needs at least one disk, partition or volume")
    if wish.layout == "stripe":
        return _single_device_groups("data", nodes)
    least = PARITY.get(wish.layout, 1) + 1
    width = wish.width or (2 if wish.layout == "mirror" else max(len(nodes), least))
    if len(nodes) % width or len(nodes) < least:
        raise PlanError(
            f"data: {wish.layout} in groups of {width} disks (at least {least}) cannot be made of"
            f" {len(nodes)}: use a multiple of {width}, or change the width"
        )
    return [
        Group("data", wish.layout, tuple(nodes[start : start + width]))
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
