"""What a plan would destroy, for the page that asks whether it may go. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.stack import StackPlan


@dataclass(frozen=True, slots=True)
class Destroyed:
    """What is on a disk that a plan claims, for the page that asks whether it may go."""

    node: str
    identity: str
    model: str
    serial: str
    size: int  # bytes
    holds: tuple[str, ...]  # "sdb1: ext4 'home'"


def what_is_destroyed(stack: StackPlan, facts: HostFacts) -> list[Destroyed]:
    graph = Graph(facts)
    found = []
    for claim in stack.claims:
        device = graph.find(claim.node)
        names = graph.stack_on(device.name) if device else []
        holds = [
            f"{name}: {signature.type}" + (f" {signature.label!r}" if signature.label else "")
            for name in names
            if name in graph.devices
            for signature in graph.devices[name].signatures
        ]
        serial = device.serial if device else ""
        found.append(
            Destroyed(claim.node, claim.identity, claim.model, serial, claim.size, tuple(holds))
        )
    return found
