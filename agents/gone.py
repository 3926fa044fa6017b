"""Disks that a host has no more: what is left of a layout is taken down without them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from agents.contracts import Claim, Step
from agents.facts.model import HostFacts


def gone(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """Those whose identity no device of the host has, under whatever name."""
    here = {device.identity for device in facts.devices}
    return tuple(claim for claim in claims if claim.identity not in here)


def forgotten(facts: HostFacts, lost: Collection[Claim]) -> HostFacts:
    """The facts without the kernel's memory of lost disks: what stood on one still names it as what it stands on, and
    the guard would take it for a disk that nobody claims. Only names that no device of the host has now.
    """
    here = {device.name for device in facts.devices}
    names = {PurePosixPath(claim.node).name for claim in lost} - here
    if not names:
        return facts
    devices = tuple(
        replace(device, parents=tuple(p for p in device.parents if p not in names))
        for device in facts.devices
    )
    return replace(facts, devices=devices)


def without(steps: Iterable[Step], lost: Collection[Claim]) -> list[Step]:
    """Steps of a teardown on the disks that are there; one that was for lost disks alone is left out.

    The guard refuses a Step that claims a disk which is not there, and rightly: it cannot know what that disk is. A
    command that names one is refused still.
    """
    away = {claim.identity for claim in lost}
    found = []
    for step in steps:
        here = tuple(claim for claim in step.destroys if claim.identity not in away)
        if here or not step.destroys:
            found.append(replace(step, destroys=here))
    return found
