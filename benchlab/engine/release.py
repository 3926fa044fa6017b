# SPDX-License-Identifier: Apache-2.0
"""An owner lets a host go whose layout cannot be taken down: a disk of it is dead, or the host itself."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.db.models import QuerySet

from agents.contracts import AgentError, Claim
from agents.facts.model import HostFacts
from agents.plans.blank import not_blank
from benchlab.audit import chain
from benchlab.engine.checks import planning
from benchlab.engine.phases import ending
from benchlab.engine.wishes import CommandError
from benchlab.hosts import host_tasks
from benchlab.hosts import services as hosts
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Device, Host, HostTask
from benchlab.runs import moves
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.team.models import has_role
from benchlab.team.roles import Role
from benchlab.topologies import planned


def phrase(layout: Layout) -> str:
    """Phrase that the person types to agree."""
    return f"release {layout.host}"


def release(layout: Layout, typed: str, user: AbstractBaseUser | AnonymousUser) -> list[Device]:
    """End a stuck layout as it is. Every disk of it that is not proven blank by a look at the host now is no longer
    spare: nothing is built on it until a person marks it again. Those disks are returned.

    Raises CommandError when it is not stuck, or something else was typed.
    """
    _agreed(layout, typed)
    identities = _not_proven(layout, _look(layout))
    who = user.get_username()
    with transaction.atomic():
        devices = layout.host.devices.select_for_update(of=("self",)).filter(
            identity__in=identities
        )
        taken = list(devices.filter(spare=True))
        names = ", ".join(device.name for device in taken) or "none"
        _let_go(layout, f"{who} released {layout.host}; no longer spare: {names}")
        devices.update(spare=False)
        chain.record(
            "release",
            actor_id=user.pk,
            actor=who,
            team_id=layout.host.team_id,
            subject=f"host {layout.host}",
            details={"layout": layout.name, "not_blank": sorted(identities)},
        )
    return taken


def ask(layout: Layout, typed: str, user: AbstractBaseUser | AnonymousUser) -> HostTask:
    """Have a worker do it, for it looks at the host first. Raises CommandError like `release`."""
    _agreed(layout, typed)
    return host_tasks.ask(layout.host, "release", user, layout=layout.pk, typed=typed)


def perform(
    host: Host, by: AbstractBaseUser | None, layout: int, typed: str
) -> dict[str, list[str]]:
    """The host task. The names of the disks that are no longer spare. Raises HostsError."""
    row = host.layouts.select_related("host__credential", "topology").get(pk=layout)
    if by is None or not has_role(by, host.team_id, Role.OWNER):
        raise HostsError(
            f"The person who asked to release {host} is no longer an owner of its team."
        )
    try:
        return {"taken": [device.name for device in release(row, typed, by)]}
    except CommandError as error:
        raise HostsError(str(error)) from None


def disks(layout: Layout) -> QuerySet[Device]:
    """Those that the layout has touched, or may have."""
    return layout.host.devices.filter(identity__in=_not_proven(layout, None))


def _agreed(layout: Layout, typed: str) -> None:
    if layout.phase != LayoutPhase.STUCK:
        raise CommandError(f"{layout.name} is not stuck, it is {layout.phase}.")
    if not planned.agreed(typed, phrase(layout)):
        raise CommandError(f"Nothing was done. Type “{phrase(layout)}” to confirm.")


def _look(layout: Layout) -> HostFacts | None:
    """None: the host does not answer, which may be why it is released."""
    try:
        return hosts.facts_of(hosts.read_facts(layout.host))
    except AgentError:
        return None


def _not_proven(layout: Layout, facts: HostFacts | None) -> set[str]:
    """Identities of the layout's disks of which nobody can say that they are blank."""
    try:
        claims = planning.plan_of(layout, facts).claims
    except AgentError:
        # the stored plan cannot be read: what was logged has to do
        return set[str]().union(*planning.touched(layout))
    return {claim.identity for claim in claims if not _proven(claim, facts)}


def _proven(claim: Claim, facts: HostFacts | None) -> bool:
    return facts is not None and not not_blank((claim,), facts, "")


def _let_go(layout: Layout, why: str) -> None:
    verdict = Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)
    ending.end_open(layout, verdict)
    try:
        moves.layout(layout, LayoutPhase.DONE, why, trouble="", needs_person="")
    except moves.Moved:
        raise CommandError(f"{layout.name} has changed in the meantime; look again.") from None
