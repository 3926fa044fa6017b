"""Disks that a host has no more: what is left of a layout is taken down without them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from agents.contracts import Claim, Step
from agents.facts.model import HostFacts


def gone(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """Those whose identity no device of the host has, under whatever name."""
    here = {device.identity for device in facts.devices}
    return tuple(claim for claim in claims if claim.identity not in here)


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
