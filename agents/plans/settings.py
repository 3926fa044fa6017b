# SPDX-License-Identifier: Apache-2.0
"""Settings that a built layout is measured under: which those are, and how they are set again. Pure."""

from __future__ import annotations

from agents.contracts import Step, claims_of
from agents.drivers import registry
from agents.facts.settings import Scope
from agents.plans import health_faults
from agents.plans.stack import StackPlan


def scope(plan: StackPlan, stage: int = 0, growing: bool = False) -> Scope:
    """The parts of the host whose settings bear on a run after `stage` stages."""
    layers = plan.layers_after(stage)
    disks = tuple(claim.node for claim in claims_of(layers[-1].gives))
    volumes = tuple(node for node in health_faults.layout_nodes(plan, stage) if node not in disks)
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
