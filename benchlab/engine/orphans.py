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
from agents.plans.applied_part import Destroyed, what_is_destroyed
from agents.plans.blank import not_blank
from benchlab.engine.checks import planning
from benchlab.engine.commands import CommandError, wake_layouts
from benchlab.hosts import blocks, discovery
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs import host_layouts, transitions
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


def find_orphans(host: Host, snapshot: FactSnapshot) -> list[Orphan]:
    """Orphans that one reading of the host shows."""
    facts = discovery.facts_of(snapshot)
    names = host_layouts.layout_names(host, snapshot)
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
    holder = host_layouts.holding_layout(layout.host)
    who = f"Layout {holder.name} of campaign {holder.campaign}" if holder else "Another layout"
    return f"{who} holds {layout.host}: {layout.name} can be taken down when that is over."
