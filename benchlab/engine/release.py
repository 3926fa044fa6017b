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
from benchlab.engine.commands import CommandError
from benchlab.engine.phases import end_attempts
from benchlab.hosts import discovery, host_tasks
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Device, Host, HostTask
from benchlab.runs import transitions
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.team.models import has_role
from benchlab.team.roles import Role
from benchlab.topologies import plan_view


def release_phrase(layout: Layout) -> str:
    """Phrase that the person types to agree."""
    return f"release {layout.host}"


def release_host(
    layout: Layout, typed: str, user: AbstractBaseUser | AnonymousUser
) -> list[Device]:
    """End a stuck layout as it is. Return its disks that a look at the host now does not prove blank.

    They are no longer spare: nothing is built on one until a person marks it again.

    Raises CommandError when it is not stuck, or something else was typed.
    """
    _check_agreed(layout, typed)
    identities = _unproven_disks(layout, _current_facts(layout))
    who = user.get_username()
    with transaction.atomic():
        devices = layout.host.devices.select_for_update(of=("self",)).filter(
            identity__in=identities
        )
        devices_lost = list(devices.filter(spare=True))
        names = ", ".join(device.name for device in devices_lost) or "none"
        _end_layout(layout, f"{who} released {layout.host}; no longer spare: {names}")
        devices.update(spare=False)
        chain.add_entry(
            "release",
            actor_id=user.pk,
            actor=who,
            team_id=layout.host.team_id,
            subject=f"host {layout.host}",
            details={"layout": layout.name, "not_blank": sorted(identities)},
        )
    return devices_lost


def request_release(layout: Layout, typed: str, user: AbstractBaseUser | AnonymousUser) -> HostTask:
    """Have a worker release the host, for it looks at the host first. Raises CommandError like `release_host`."""
    _check_agreed(layout, typed)
    return host_tasks.request_task(layout.host, "release", user, layout=layout.pk, typed=typed)


def perform_release(
    host: Host, by: AbstractBaseUser | None, layout: int, typed: str
) -> dict[str, list[str]]:
    """The host task. The names of the disks that are no longer spare. Raises HostsError."""
    row = host.layouts.select_related("host__credential", "topology").get(pk=layout)
    if by is None or not has_role(by, host.team_id, Role.OWNER):
        raise HostsError(
            f"The person who asked to release {host} is no longer an owner of its team."
        )
    try:
        return {"taken": [device.name for device in release_host(row, typed, by)]}
    except CommandError as error:
        raise HostsError(str(error)) from None


def touched_devices(layout: Layout) -> QuerySet[Device]:
    """Devices that the layout has touched, or may have."""
    return layout.host.devices.filter(identity__in=_unproven_disks(layout, None))


def _check_agreed(layout: Layout, typed: str) -> None:
    if layout.phase != LayoutPhase.STUCK:
        raise CommandError(f"{layout.name} is not stuck, it is {layout.phase}.")
    if not plan_view.is_agreed(typed, release_phrase(layout)):
        raise CommandError(f"Nothing was done. Type “{release_phrase(layout)}” to confirm.")


def _current_facts(layout: Layout) -> HostFacts | None:
    """Facts of the host; None if it does not answer, which may be why it is released."""
    try:
        return discovery.facts_of(discovery.read_facts(layout.host))
    except AgentError:
        return None


def _unproven_disks(layout: Layout, facts: HostFacts | None) -> set[str]:
    """Identities of the layout's disks that are not known to be blank."""
    try:
        claims = planning.begun_plan(layout, facts).claims
    except AgentError:
        # The stored plan cannot be read, so the log of commands has to do.
        return set[str]().union(*planning.touched_disks(layout))
    return {claim.identity for claim in claims if not _is_proven_blank(claim, facts)}


def _is_proven_blank(claim: Claim, facts: HostFacts | None) -> bool:
    return facts is not None and not not_blank((claim,), facts, "")


def _end_layout(layout: Layout, why: str) -> None:
    verdict = Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)
    end_attempts.end_open_attempts(layout, verdict)
    try:
        transitions.move_layout(layout, LayoutPhase.DONE, why, trouble="", needs_person="")
    except transitions.Moved:
        raise CommandError(f"{layout.name} has changed in the meantime; look again.") from None
