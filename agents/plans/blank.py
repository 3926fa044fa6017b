"""Are the disks of a layout blank again? What cannot be proven blank is said. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.contracts import Claim
from agents.facts.graph import Graph, carries
from agents.facts.in_use import MOUNT_ROOT
from agents.facts.model import HostFacts


def not_blank(claims: Sequence[Claim], facts: HostFacts, layout: str) -> list[str]:
    """What is left of a layout: signatures, holders, mounts, names of ours. [] is blank."""
    graph = Graph(facts)
    found = [f"could not be read: {what}" for what in facts.unknown] if claims else []
    for claim in claims:
        found += _disk(claim, graph)
    found += _named(graph, layout)
    return list(dict.fromkeys(found))


def _disk(claim: Claim, graph: Graph) -> Iterator[str]:
    device = graph.find(claim.node)
    if device is None or device.identity != claim.identity:
        elsewhere = [d for d in graph.facts.devices if d.identity == claim.identity]
        if len(elsewhere) != 1:
            yield f"{claim.node} ({claim.identity}) is not on this host, or not the only one"
            return
        device = elsewhere[0]  # renamed by a reboot
    if not device.signatures_known:
        yield f"{device.path}: its signatures could not be read"
    for signature in device.signatures:
        label = f" {signature.label!r}" if signature.label else ""
        yield f"{device.path} has a {signature.type} signature{label} at byte {signature.offset}"
    for name in graph.stack_on(device.name):
        if name != device.name:
            yield f"{device.path} still has {name} on it"
    for target in device.mounts:
        yield f"{device.path} is mounted at {target}"
    if device.swap:
        yield f"{device.path} is swap"
    if owner := graph.facts.members.get(device.name):
        yield f"{device.path} belongs to {owner}"


def _named(graph: Graph, layout: str) -> Iterator[str]:
    """Anything that still has the layout's name, wherever it lies."""
    for device in graph.facts.devices:
        if graph.is_ours(device.name, layout):
            yield f"{device.path} is still there"
    for mount in graph.facts.mounts:
        if mount.target == f"{MOUNT_ROOT}/{layout}":
            yield f"{mount.target} is still mounted"
    for name, _ in graph.facts.mappings():
        if carries(name, layout):
            yield f"device-mapper still has {name}"
    for name, owner in graph.facts.members.items():
        if carries(owner.partition(" ")[2], layout):
            yield f"{name} still belongs to {owner}"
