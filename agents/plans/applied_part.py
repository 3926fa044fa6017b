# SPDX-License-Identifier: Apache-2.0
"""Data derived from a stack's plan: its JSON, the data it destroys, the part that was applied, its settings. Pure.

Only disks that a command of the plan has touched may be taken down.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import cattrs

from agents.contracts import Argument, Claim, PlanError, Secret, Step, claims_of
from agents.drivers import registry
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.facts.settings import Scope
from agents.plans import layout_faults
from agents.plans.stack import BELOW, Placed, StackPlan


def reached(plan: StackPlan, touched: Collection[str]) -> StackPlan:
    """The plan without the layers and stages that never began. `touched`: identities of disks.

    A layer's first command claims all of its own disks, and a stage's all of its new ones: where one of them was not
    touched, none was that matters.
    """

    def begun(claims: Sequence[Claim]) -> bool:
        return all(claim.identity in touched for claim in claims)

    layers = tuple(takewhile(lambda layer: begun(own_claims(layer)), plan.layers))
    numbers = range(1, len(plan.stages) + 1 if layers == plan.layers else 1)
    last = len(list(takewhile(lambda number: begun(new_claims(plan, number)), numbers)))
    return replace(plan, layers=layers, stages=plan.stages[:last])


def own_claims(layer: Placed) -> tuple[Claim, ...]:
    """The disks that no layer below it has."""
    devices = {use: claims for use, claims in layer.target.devices.items() if use != BELOW}
    return claims_of(replace(layer.target, devices=devices))


def new_claims(plan: StackPlan, stage: int) -> tuple[Claim, ...]:
    """The disks that the layout takes in with `stage`, from 1."""
    before, after = (
        claims_of(plan.layers_after(number)[-1].gives) for number in (stage - 1, stage)
    )
    return tuple(claim for claim in after if claim not in before)


_converter = cattrs.Converter(forbid_extra_keys=True)


def _dump_word(word: Argument) -> Any:
    if isinstance(word, Secret):
        raise PlanError("a plan with a secret in a command is not stored")
    return word


_converter.register_unstructure_hook(Argument, _dump_word)
_converter.register_structure_hook(Argument, lambda word, _: str(word))


def to_json(stack: StackPlan) -> dict[str, Any]:
    """The plan as JSON data: `from_json(to_json(stack)) == stack`. Raises PlanError if it holds a secret."""
    data: dict[str, Any] = json.loads(json.dumps(_converter.unstructure(stack)))
    return data


def from_json(data: Mapping[str, Any]) -> StackPlan:
    """Build a plan from JSON. Raises PlanError for data that is no plan."""
    try:
        return _converter.structure(data, StackPlan)
    except Exception as error:
        message = "; ".join(cattrs.transform_error(error, path="plan"))
        raise PlanError(f"the stored plan cannot be read: {message}") from None


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


def scope(plan: StackPlan, stage: int = 0, growing: bool = False) -> Scope:
    """The parts of the host whose settings bear on a run after `stage` stages."""
    layers = plan.layers_after(stage)
    disks = tuple(claim.node for claim in claims_of(layers[-1].gives))
    volumes = tuple(node for node in layout_faults.layout_nodes(plan, stage) if node not in disks)
    mounts = frozenset(layer.gives.mount for layer in layers if layer.gives.mount)
    return Scope(plan.name, disks, volumes, mounts, growing)


def setting_steps(plan: StackPlan, stage: int = 0) -> tuple[Step, ...]:
    """Steps of the layers that give what is below them: they only set something, and can be carried out once more."""
    return tuple(
        step
        for layer in plan.layers_after(stage)
        if registry.layer(layer.spec.kind).PROVIDES == "same"
        for step in layer.steps
    )
