"""A standing layout's plan after its disks got other names: a reboot may swap sdb and sdc. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agents.contracts import Claim, Part, Target
from agents.facts.model import HostFacts
from agents.plans.stack import Placed, StackPlan


def relocated(plan: StackPlan, facts: HostFacts) -> StackPlan:
    """The same layers on the same disks, under the names these have now; its commands stay as they once ran.

    For taking down only. A disk that is not here, or not the only one of its identity, keeps its old name: layers and
    guard then see that another disk, or none, is there.
    """
    names = {claim.node: _now(claim, facts) for claim in plan.claims}
    if all(old == new for old, new in names.items()):
        return plan
    stages = tuple(
        replace(stage, layers=tuple(_placed(layer, names) for layer in stage.layers))
        for stage in plan.stages
    )
    return replace(
        plan, layers=tuple(_placed(layer, names) for layer in plan.layers), stages=stages
    )


def _now(claim: Claim, facts: HostFacts) -> str:
    here = [device.path for device in facts.devices if device.identity == claim.identity]
    return here[0] if len(here) == 1 else claim.node


def _placed(layer: Placed, names: Mapping[str, str]) -> Placed:
    return replace(layer, target=_target(layer.target, names), gives=_target(layer.gives, names))


def _target(target: Target, names: Mapping[str, str]) -> Target:
    devices = {
        use: tuple(replace(claim, node=names.get(claim.node, claim.node)) for claim in given)
        for use, given in target.devices.items()
    }
    parts = {
        use: tuple(Part(names.get(part.node, part.node), part.size) for part in given)
        for use, given in target.parts.items()
    }
    volume = names.get(target.volume, target.volume)
    return replace(target, devices=devices, parts=parts, volume=volume)
