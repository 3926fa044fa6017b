# SPDX-License-Identifier: Apache-2.0
"""Disks that a host has no more, or has under another name: what stands on them is taken down still. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from agents.contracts import Claim, Part, Step, Target
from agents.facts.model import HostFacts
from agents.plans.stack import Placed, StackPlan


def missing_claims(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """The claims whose identity no device of the host has, under whatever name."""
    identities = {device.identity for device in facts.devices}
    return tuple(claim for claim in claims if claim.identity not in identities)


def pulled_claims(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """Those that have another name than when they were claimed, or none, while no other disk has their old one. In one
    boot that is a disk that was pulled out, put back in or not; after another a disk may have any name.
    """
    names = {device.name for device in facts.devices}
    return tuple(claim for claim in claims if _kernel_name(claim) not in names)


def current_path(claim: Claim, facts: HostFacts) -> str:
    """The path that a disk has now; "" where there is none, or more than one."""
    name = _name_now(claim, facts)
    return next((device.path for device in facts.devices if device.name == name), "")


def with_current_names(facts: HostFacts, claims: Iterable[Claim], layout: str = "") -> HostFacts:
    """The facts without the kernel's memory of disks as they were called when they were claimed.

    What stood on a disk that was pulled out names it still as what it stands on, and the guard would take that for a
    disk that nobody claims: for it the name stands that the disk has now, if it was plugged in again, or none. Only
    names that no device of the host has, and those of their partitions.

    An array all of whose members have such names stood on the claimed disks and is the layout's, though nothing on the
    host can say so any more: its superblocks are gone with them, and udev may have taken its link away.
    """
    names = {device.name for device in facts.devices}
    old = {_kernel_name(claim): _name_now(claim, facts) for claim in claims}
    old = {name: now for name, now in old.items() if name not in names}

    if not old:
        return facts
    disks = re.compile(rf"({'|'.join(map(re.escape, old))})(?:p?(\d+))?")

    def now(name: str) -> str:
        """Its present name; "" for a disk that is gone."""
        match = disks.fullmatch(name)
        if name in names or match is None:
            return name
        disk, number = old[match[1]], match[2]
        parts = (f"{disk}{number}", f"{disk}p{number}") if number else (disk,)
        return next((part for part in parts if part in names), "")

    devices = tuple(
        replace(device, parents=_current_names(device.parents, now)) for device in facts.devices
    )
    arrays = tuple(
        replace(
            array,
            members=tuple(
                replace(member, device=now(member.device) or member.device)
                for member in array.members
            ),
        )
        for array in facts.md_arrays
    )
    lost = {
        member.device
        for array in facts.md_arrays
        if all(m.device not in names and disks.fullmatch(m.device) for m in array.members)
        for member in array.members
        if layout and facts.members.get(member.device) == f"md {array.name}"
    }
    members = {**facts.members, **dict.fromkeys(lost, f"md {layout}")}
    owned = {now(name) or name: owner for name, owner in members.items()}
    return replace(facts, devices=devices, md_arrays=arrays, members=owned | members)


def _current_names(names: Iterable[str], now: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(current for name in names if (current := now(name))))


def _kernel_name(claim: Claim) -> str:
    return claim.node.removeprefix("/dev/").replace("/", "!")


def _name_now(claim: Claim, facts: HostFacts) -> str:
    """ "" where no device, or more than one, has its identity."""
    names = [device.name for device in facts.devices if device.identity == claim.identity]
    return names[0] if len(names) == 1 else ""


def steps_without(steps: Iterable[Step], lost: Collection[Claim]) -> list[Step]:
    """Steps of a teardown on the disks that are there; one that was for lost disks alone is left out.

    The guard refuses a Step that claims a disk which is not there, and rightly: it cannot know what that disk is. A
    command that names one is refused still.
    """
    away = {claim.identity for claim in lost}
    remaining_steps = []
    for step in steps:
        claims = tuple(claim for claim in step.destroys if claim.identity not in away)
        if claims or not step.destroys:
            remaining_steps.append(replace(step, destroys=claims))
    return remaining_steps


def relocated(plan: StackPlan, facts: HostFacts) -> StackPlan:
    """The same layers on the same disks, under the names these have now; its commands stay as they once ran.

    For taking down only. A disk that is not here, or not the only one of its identity, keeps its old name: layers and
    guard then see that another disk, or none, is there.
    """
    names = {claim.node: current_path(claim, facts) or claim.node for claim in plan.claims}
    if all(old == new for old, new in names.items()):
        return plan
    stages = tuple(
        replace(stage, layers=tuple(_rename_layer(layer, names) for layer in stage.layers))
        for stage in plan.stages
    )
    return replace(
        plan, layers=tuple(_rename_layer(layer, names) for layer in plan.layers), stages=stages
    )


def _rename_layer(layer: Placed, names: Mapping[str, str]) -> Placed:
    return replace(
        layer, target=_rename_target(layer.target, names), gives=_rename_target(layer.gives, names)
    )


def _rename_target(target: Target, names: Mapping[str, str]) -> Target:
    devices = {
        use: tuple(replace(claim, node=names.get(claim.node, claim.node)) for claim in claims)
        for use, claims in target.devices.items()
    }
    parts = {
        use: tuple(Part(names.get(part.node, part.node), part.size) for part in claims)
        for use, claims in target.parts.items()
    }
    volume = names.get(target.volume, target.volume)
    return replace(target, devices=devices, parts=parts, volume=volume)
