# SPDX-License-Identifier: Apache-2.0
"""Orphans: leftovers of finished layouts on a host, shown there and taken down on request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from agents.contracts import AgentError
from agents.facts.model import HostFacts
from agents.plans.blank import not_blank
from agents.plans.destroyed import Destroyed, what_is_destroyed
from benchlab.engine.checks import planning
from benchlab.engine.wishes import CommandError, nudge
from benchlab.hosts import blocks
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs import host_layouts, moves
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase


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


def of(host: Host, snapshot: FactSnapshot) -> list[Orphan]:
    """By one reading of the host."""
    facts = hosts.facts_of(snapshot)
    names = host_layouts.names_at(host, snapshot)
    rows = {row.name: row for row in host.layouts.select_related("campaign", "topology")}
    return [_orphan(name, left, rows.get(name), facts) for name, left in _left(facts, names)]


def _left(facts: HostFacts, names: blocks.Names) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name that is an orphan's, with what carries it."""
    found: dict[str, list[str]] = defaultdict(list)
    for block in blocks.walk(blocks.forest(facts, names)):
        if block.orphan:
            words = f"{block.device.path} ({block.member or block.device.type})"
            found[block.layout].append(words)
    elsewhere = [mount.target for mount in facts.mounts] + [pool.name for pool in facts.zpools]
    elsewhere += [name for name, _ in facts.mappings()]
    for text in elsewhere:
        name = blocks.named([text])
        if names.whose(name) is blocks.Whose.ORPHAN:
            found[name] += []
    for name in sorted(found):
        yield name, tuple(dict.fromkeys([*found[name], *not_blank((), facts, name)]))


def _orphan(name: str, left: tuple[str, ...], layout: Layout | None, facts: HostFacts) -> Orphan:
    lost: tuple[Destroyed, ...] = ()
    why_not = _why_not(layout, facts) if layout else _unknown(name)
    if layout is not None and not why_not:
        lost = tuple(what_is_destroyed(planning.plan_of(layout, facts), facts))
    by_hand = tuple(_by_hand(name, facts)) if why_not else ()
    return Orphan(name, left, layout, lost, why_not, by_hand)


def _unknown(name: str) -> str:
    number = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    if len(number) < 19 and Layout.objects.filter(pk=int(number)).exists():
        return "It was built on another host, and its disks were moved here."
    return "Its layout is no longer in the database, so its layers are unknown."


def _why_not(layout: Layout, facts: HostFacts) -> str:
    if layout.phase != LayoutPhase.DONE:
        return f"Its layout is {layout.get_phase_display()}: use its campaign's page."
    if not layout.steps.filter(kind=StepLog.Kind.APPLY).exists():
        return "No command of it is recorded, so it is unknown what was created."
    try:
        if planning.stored(layout).claims and not planning.plan_of(layout, facts).claims:
            return "No command of it touched its disks, so it is unknown whether these leftovers are its own."
    except AgentError as error:
        return f"Its plan cannot be used: {error}."
    return ""


def _by_hand(name: str, facts: HostFacts) -> Iterator[str]:
    """Commands that a person would type as root, top first. Each must be looked at: we know the names only."""
    for mount in facts.mounts:
        if blocks.named([mount.target]) == name:
            yield f"umount {mount.target}"
    owners = {
        owner for owner in facts.members.values() if blocks.named([owner.partition(" ")[2]]) == name
    }
    commands = {"lvm": "vgremove", "md": "mdadm --stop /dev/md/", "zpool": "zpool destroy"}
    for kind, _, group in (owner.partition(" ") for owner in sorted(owners)):
        if kind in commands:
            command = commands[kind]
            yield f"{command}{group}" if command.endswith("/") else f"{command} {group}"
    names = blocks.Names(past=frozenset({name}))
    for block in blocks.forest(facts, names):
        if any(one.layout == name for one in blocks.walk([block])):
            yield f"wipefs --all {block.device.path}"


def tear_down(layout: Layout, snapshot: int | None) -> None:
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
    # a reading that finds the same is no newer row
    if latest.pk != snapshot:
        raise CommandError(
            f"{layout.host} has changed since: look at what is left of {layout.name} now."
        )
    found = {orphan.name: orphan for orphan in of(layout.host, latest)}.get(layout.name)
    if found is None:
        raise CommandError(f"Nothing of {layout.name} was on {layout.host} when it was last read.")
    if found.why_not:
        raise CommandError(f"{layout.name} cannot be taken down from here. {found.why_not}")
    try:
        moves.layout(
            layout,
            LayoutPhase.TEARING_DOWN,
            "a person saw what it left",
            **AGAIN,
            seen_at=timezone.now(),
        )
    except moves.HostBusy:
        raise CommandError(_held(layout)) from None
    except moves.Moved:
        raise CommandError(f"{layout.name} is being taken down already.") from None
    nudge(layout.pk)


AGAIN: dict[str, Any] = {
    "teardown_tries": 0,
    "next_step_at": None,
    "ended_at": None,
    "trouble": "",
}


def _held(layout: Layout) -> str:
    holder = host_layouts.holder(layout.host)
    who = f"Layout {holder.name} of campaign {holder.campaign}" if holder else "Another layout"
    return f"{who} holds {layout.host}: {layout.name} can be taken down when that is over."
