# SPDX-License-Identifier: Apache-2.0
"""Data that a plan would destroy, for the page that asks for confirmation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import Claim
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.plans.stack import StackPlan


@dataclass(frozen=True, slots=True)
class Destroyed:
    """Content of a disk that a plan claims, for the page that asks whether it may go."""

    node: str
    identity: str
    model: str
    serial: str
    # bytes
    size: int
    # "sdb1: ext4 'home'"
    holds: tuple[str, ...]


def what_is_destroyed(stack: StackPlan, facts: HostFacts) -> list[Destroyed]:
    graph = Graph(facts)
    destroyed = []
    for claim in stack.claims:
        device = _claimed(claim, graph)
        names = graph.stack_on(device.name) if device else []
        holds = [
            f"{name}: {signature.type}" + (f" {signature.label!r}" if signature.label else "")
            for name in names
            if name in graph.devices
            for signature in graph.devices[name].signatures
        ]
        if device is None:
            holds = ["not on this host now"]
        node, serial = (device.path, device.serial) if device else (claim.node, "")
        destroyed.append(
            Destroyed(node, claim.identity, claim.model, serial, claim.size, tuple(holds))
        )
    return destroyed


def _claimed(claim: Claim, graph: Graph) -> BlockDevice | None:
    """The claimed disk, even after a reboot has renamed it; never another one that now has its node."""
    device = graph.find_device(claim.node)
    if device is not None and device.identity == claim.identity:
        return device
    return next((d for d in graph.facts.devices if d.identity == claim.identity), None)
