"""Which spare disks a stack gets: by role, in an order that a reboot does not change. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agents.contracts import Claim, PlanError
from agents.facts.model import HostFacts
from agents.plans.chain import Wanted
from agents.safety.guard import Spare


def free(facts: HostFacts, pool: Iterable[Spare]) -> dict[str, list[Claim]]:
    """Role -> spare disks of this host in a lasting order. One that is not unambiguously here is left out."""
    free: dict[str, list[Claim]] = {}
    for spare in sorted(pool, key=lambda spare: spare.identity):
        here = [d for d in facts.devices if d.identity == spare.identity]
        if len(here) == 1 and (here[0].size, here[0].model) == (spare.size, spare.model):
            claim = Claim(spare.identity, here[0].path, spare.size, spare.model)
            free.setdefault(spare.role, []).append(claim)
    return free


def pick(devices: Iterable[Wanted], free: dict[str, list[Claim]]) -> dict[str, tuple[Claim, ...]]:
    """Takes from `free`, so that no disk is used twice."""
    picked = {}
    for wanted in devices:
        there = free.get(wanted.role, [])
        if len(there) < wanted.count:
            raise PlanError(
                f"{wanted.use} needs {wanted.count} {wanted.role or 'disk'}(s) and the host has"
                f" {len(there)} spare: mark more disks spare with that role, or ask for fewer"
            )
        picked[wanted.use] = tuple(there[: wanted.count])
        del there[: wanted.count]
    return picked
