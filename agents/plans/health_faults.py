# SPDX-License-Identifier: Apache-2.0
"""Faults of a built layout: no layer hides those below it here, as they do for `stack.verify`. Pure."""

from __future__ import annotations

from agents import options
from agents.contracts import claims_of
from agents.drivers import protocols, registry
from agents.facts.health import Health
from agents.plans.stack import StackPlan


def stack_faults(plan: StackPlan, health: Health, stage: int = 0) -> list[str]:
    """Faults in any layer, hidden or not, after `stage` stages; and disks that are gone. [] is right."""
    layers = plan.layers_after(stage)
    found = [said for claim in claims_of(layers[-1].gives) for said in _disk(claim.node, health)]
    for layer in layers:
        kind = layer.spec.kind
        if driver := registry.implements(kind, protocols.HealthCheck):
            built = options.build_options(driver.Options, layer.spec.options)
            found += [
                f"{kind}: {said}" for said in driver.health_faults(built, layer.target, health)
            ]
    return list(dict.fromkeys(found))


def _disk(node: str, health: Health) -> list[str]:
    if node not in health.names:
        return [f"{node} is gone"]
    values = health.values.get(health.kernel_name(node), {})
    wrong = [f"{node} is gone"] if values.get("size") == "0" else []
    if values.get("ro") == "1":
        wrong.append(f"{node} is read-only")
    if values.get("device/state", "running") not in ("running", "live"):
        wrong.append(f"{node} is {values['device/state']}")
    return wrong


def layout_nodes(plan: StackPlan, stage: int = 0) -> list[str]:
    """Every node that a layer after `stage` stages stands on or gives: disks, pieces of them, volumes."""
    found: dict[str, None] = {}
    for layer in plan.layers_after(stage):
        for target in (layer.target, layer.gives):
            found |= dict.fromkeys(claim.node for claim in claims_of(target))
            found |= dict.fromkeys(part.node for parts in target.parts.values() for part in parts)
            found |= dict.fromkeys([target.volume] if target.volume else [])
    return list(found)
