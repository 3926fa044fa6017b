# SPDX-License-Identifier: Apache-2.0
"""The check that the disks of a layout are blank again; it reports what cannot be proven blank. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.contracts import Claim
from agents.facts.device_uses import MOUNT_ROOT
from agents.facts.graph import Graph, has_layout_name
from agents.facts.model import BlockDevice, HostFacts


def not_blank(claims: Sequence[Claim], facts: HostFacts, layout: str) -> list[str]:
    """Remains of a layout: signatures, holders, mounts, names of ours; [] if the disks are blank."""
    graph = Graph(facts)
    remains = [f"could not be read: {what}" for what in facts.unknown] if claims else []
    for claim in claims:
        remains += _disk(claim, graph)
    remains += _names_left(graph, layout)
    return list(dict.fromkeys(remains))


def kernel_remains(claims: Sequence[Claim], facts: HostFacts, layout: str) -> list[str]:
    """Devices and names that the kernel holds of it, in words: not what is merely written on a disk."""
    graph = Graph(facts)
    devices = filter(None, (_claimed_device(claim, graph) for claim in claims))
    remains = [remain for device in devices for remain in _stacked(device, graph)]
    return list(dict.fromkeys([*remains, *_names_left(graph, layout)]))


def _claimed_device(claim: Claim, graph: Graph) -> BlockDevice | None:
    device = graph.find_device(claim.node)
    if device is not None and device.identity == claim.identity:
        return device
    elsewhere = [d for d in graph.facts.devices if d.identity == claim.identity]
    # renamed by a reboot
    return elsewhere[0] if len(elsewhere) == 1 else None


def _disk(claim: Claim, graph: Graph) -> Iterator[str]:
    device = _claimed_device(claim, graph)
    if device is None:
        yield f"{claim.node} ({claim.identity}) is not on this host, or not the only one"
        return
    if not device.signatures_known:
        yield f"{device.path}: its signatures could not be read"
    for signature in device.signatures:
        label = f" {signature.label!r}" if signature.label else ""
        yield f"{device.path} has a {signature.type} signature{label} at byte {signature.offset}"
    yield from _stacked(device, graph)
    for target in device.mounts:
        yield f"{device.path} is mounted at {target}"
    if device.swap:
        yield f"{device.path} is swap"
    if owner := graph.facts.members.get(device.name):
        yield f"{device.path} belongs to {owner}"


def _stacked(device: BlockDevice, graph: Graph) -> Iterator[str]:
    for name in graph.stack_on(device.name):
        if name != device.name:
            yield f"{device.path} still has {name} on it"


def _names_left(graph: Graph, layout: str) -> Iterator[str]:
    """Anything that still has the layout's name, wherever it lies."""
    for device in graph.facts.devices:
        if graph.is_ours(device.name, layout):
            yield f"{device.path} is still there"
    for mount in graph.facts.mounts:
        if mount.target == f"{MOUNT_ROOT}/{layout}":
            yield f"{mount.target} is still mounted"
    for name, _ in graph.facts.mappings():
        if has_layout_name(name, layout):
            yield f"device-mapper still has {name}"
    for name, owner in graph.facts.members.items():
        if has_layout_name(owner.partition(" ")[2], layout):
            yield f"{name} still belongs to {owner}"
