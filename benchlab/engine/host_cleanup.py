# SPDX-License-Identifier: Apache-2.0
"""Layouts that hold a host or left something on it: orphans are shown and taken down, hosts are released.

An owner releases a host whose layout cannot be taken down: a disk of it is dead, or the host itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.contracts import AgentError, Claim
from agents.facts.model import HostFacts
from agents.plans.applied_part import Destroyed, what_is_destroyed
from agents.plans.blank import not_blank
from benchlab.audit import chain
from benchlab.engine.checks import planning
from benchlab.engine.commands import CommandError, wake_layouts
from benchlab.engine.phases import end_attempts
from benchlab.hosts import blocks, discovery, host_tasks
from benchlab.hosts.blocks import LayoutNames
from benchlab.hosts.models import Device, FactSnapshot, Host, HostsError, HostTask
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog, installation_tag
from benchlab.runs.states import HOLDING, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.team.models import has_role
from benchlab.team.roles import Role
from benchlab.topologies import plan_view


@dataclass(frozen=True, slots=True)
class Orphan:
    """`why_not`: why no button can take it down; "" when one can."""

    name: str
    # what of it is on the host, in words
    left: tuple[str, ...]
    layout: Layout | None = None
    # the disks that its plan claims, as they are now
    destroys: tuple[Destroyed, ...] = ()
    why_not: str = ""
    # commands
    by_hand: tuple[str, ...] = ()


def find_orphans(host: Host, snapshot: FactSnapshot) -> list[Orphan]:
    """Orphans that one reading of the host shows."""
    facts = discovery.facts_of(snapshot)
    names = layout_names(host, snapshot)
    rows = {row.name: row for row in host.layouts.select_related("campaign", "topology")}
    return [
        _orphan(name, leftovers, rows.get(name), facts)
        for name, leftovers in _orphan_names(facts, names)
    ]


def _orphan_names(
    facts: HostFacts, names: blocks.LayoutNames
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names of the orphans, each with what carries it."""
    texts_by_name: dict[str, list[str]] = defaultdict(list)
    for block in blocks.walk_blocks(blocks.device_trees(facts, names)):
        if block.orphan:
            words = f"{block.device.path} ({block.member or block.device.type})"
            texts_by_name[block.layout].append(words)
    elsewhere = [mount.target for mount in facts.mounts] + [pool.name for pool in facts.zpools]
    elsewhere += [name for name, _ in facts.mappings()]
    for text in elsewhere:
        name = blocks.first_layout_name([text])
        if names.owner_of(name) is blocks.Owner.ORPHAN:
            texts_by_name[name] += []
    for name in sorted(texts_by_name):
        yield name, tuple(dict.fromkeys([*texts_by_name[name], *not_blank((), facts, name)]))


def _orphan(
    name: str, leftovers: tuple[str, ...], layout: Layout | None, facts: HostFacts
) -> Orphan:
    lost: tuple[Destroyed, ...] = ()
    why_not = _obstacle(layout, facts) if layout else _unknown(name)
    if layout is not None and not why_not:
        lost = tuple(what_is_destroyed(planning.begun_plan(layout, facts), facts))
    by_hand = tuple(_manual_commands(name, facts)) if why_not else ()
    return Orphan(name, leftovers, layout, lost, why_not, by_hand)


def _unknown(name: str) -> str:
    number = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    if len(number) < 19 and Layout.objects.filter(pk=int(number)).exists():
        return "It was built on another host, and its disks were moved here."
    return "Its layout is no longer in the database, so its layers are unknown."


def _obstacle(layout: Layout, facts: HostFacts) -> str:
    if layout.phase != LayoutPhase.DONE:
        return f"Its layout is {layout.get_phase_display()}: use its campaign's page."
    if not layout.steps.filter(kind=StepLog.Kind.APPLY).exists():
        return "No command of it is recorded, so it is unknown what was created."
    try:
        if planning.stored_plan(layout).claims and not planning.begun_plan(layout, facts).claims:
            return "No command of it touched its disks, so it is unknown whether these leftovers are its own."
    except AgentError as error:
        return f"Its plan cannot be used: {error}."
    return ""


def _manual_commands(name: str, facts: HostFacts) -> Iterator[str]:
    """Commands that a person would type as root, top first. Each must be looked at: we know the names only."""
    for mount in facts.mounts:
        if blocks.first_layout_name([mount.target]) == name:
            yield f"umount {mount.target}"
    owners = {
        owner
        for owner in facts.members.values()
        if blocks.first_layout_name([owner.partition(" ")[2]]) == name
    }
    commands = {"lvm": "vgremove", "md": "mdadm --stop /dev/md/", "zpool": "zpool destroy"}
    for kind, _, group in (owner.partition(" ") for owner in sorted(owners)):
        if kind in commands:
            command = commands[kind]
            yield f"{command}{group}" if command.endswith("/") else f"{command} {group}"
    names = blocks.LayoutNames(past=frozenset({name}))
    for block in blocks.device_trees(facts, names):
        if any(child.layout == name for child in blocks.walk_blocks([block])):
            yield f"wipefs --all {block.device.path}"


def tear_down_orphan(layout: Layout, snapshot: int | None) -> None:
    """Take a finished layout down once more, by its stored plan, guarded as always.

    `snapshot`: id of the facts in which its remains were seen. Raises CommandError when they are not the newest, when
    nothing of it is in them, or when another layout holds the host.
    """
    latest = layout.host.snapshots.first()
    if latest is None:
        raise CommandError(
            f"The facts of {layout.host} were never read: it is unknown what is left of {layout.name}."
        )
    if snapshot is None:
        raise CommandError(
            f"Name the facts of {layout.host} you saw: what is left is listed with them."
        )
    # A reading with equal facts adds no row.
    if latest.pk != snapshot:
        raise CommandError(
            f"{layout.host} has changed since: look at what is left of {layout.name} now."
        )
    orphan_here = {orphan.name: orphan for orphan in find_orphans(layout.host, latest)}.get(
        layout.name
    )
    if orphan_here is None:
        raise CommandError(f"Nothing of {layout.name} was on {layout.host} when it was last read.")
    if orphan_here.why_not:
        raise CommandError(f"{layout.name} cannot be taken down from here. {orphan_here.why_not}")
    try:
        transitions.move_layout(
            layout,
            LayoutPhase.TEARING_DOWN,
            "a person saw what it left",
            **FRESH_TEARDOWN,
            seen_at=timezone.now(),
        )
    except transitions.HostBusy:
        raise CommandError(_holder_message(layout)) from None
    except transitions.Moved:
        raise CommandError(f"{layout.name} is being taken down already.") from None
    wake_layouts(layout.pk)


FRESH_TEARDOWN: dict[str, Any] = {
    "teardown_tries": 0,
    "next_step_at": None,
    "ended_at": None,
    "trouble": "",
}


def _holder_message(layout: Layout) -> str:
    holder = holding_layout(layout.host)
    who = f"Layout {holder.name} of campaign {holder.campaign}" if holder else "Another layout"
    return f"{who} holds {layout.host}: {layout.name} can be taken down when that is over."


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
    identities = _unproven_disks(layout, _facts_or_none(layout))
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


def _facts_or_none(layout: Layout) -> HostFacts | None:
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


def holding_layout(host: Host) -> Layout | None:
    """The layout that holds the host now."""
    layouts = host.layouts.holding().select_related("campaign", "topology")
    return layouts.first()


def layout_names(host: Host, snapshot: FactSnapshot) -> LayoutNames:
    """Names of our layouts on the host, with those that may have stood there when it was read as `holding`."""
    holds = Q(phase__in=HOLDING) | Q(ended_at__gte=snapshot.read_at)
    now = host.layouts.filter(holds, created_at__lte=snapshot.read_at)
    held = frozenset(row.name for row in now.only("pk", "tag"))
    every = frozenset(row.name for row in host.layouts.only("pk", "tag"))
    return LayoutNames(held, every - held, installation_tag())
