# SPDX-License-Identifier: Apache-2.0
"""Queries of the pages of hosts, as few as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from agents.facts.model import BlockDevice, HostFacts
from benchlab.hosts.discovery import needs
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.hosts.trouble import advice
from benchlab.runs.models import Layout
from benchlab.web import lists
from benchlab.web.natural import natural


@dataclass(frozen=True, slots=True)
class State:
    """State of a host: `css` is the badge's class, `words` what it says."""

    css: str
    words: str


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A program that some layer or tool wants. `version` is empty where it is missing."""

    program: str
    version: str
    present: bool
    # what brings it on this OS family, "" where nobody said
    package: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in a list. `os_name` is None before its first reading."""

    host: Host
    os_name: str | None
    disks: int
    spare_disks: int
    state: State


# Of `rows`, as `state` tells them apart: what needs a person first.
STATE = Case(
    When(~Q(access=Host.Access.SSH), then=Value(6)),
    When(~Q(trouble=""), then=Value(0)),
    When(host_key="", then=Value(1)),
    When(Q(sudo=True) | Q(sudo=False), busy__isnull=False, then=Value(4)),
    When(sudo=True, then=Value(5)),
    When(sudo=False, then=Value(3)),
    default=Value(2),
)
# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.by_name(),
    "address": lists.by_name("Address", "address"),
    "system": lists.by("System", "os_name"),
    "disks": lists.by("Disks", "disks", "num"),
    "spare": lists.by("Spare", "spare_disks", "num"),
    "state": lists.By("State", STATE),
    "seen": lists.by("Last answer", "seen_at"),
}
FINDS = ("name", "address", "notes", "os_name")
# what is stored of it, and how the facts saw it
Disk = tuple[Device, BlockDevice | None]
# Of the disks on a host's page.
DISKS = {
    "name": lists.by_key("Disk", lambda one: one[0].name),
    "size": lists.by_key("Size", lambda one: one[0].size, "num"),
    "model": lists.by_key("Model", lambda one: one[0].model),
    "serial": lists.by_key("Serial or WWN", lambda one: one[0].serial or one[0].wwn),
    "kind": lists.by_key("Kind", lambda one: _kind(*one)),
    "sectors": lists.by_key(
        "Sectors", lambda one: one[1] and (one[1].physical_sector, one[1].logical_sector), "num"
    ),
    "scheduler": lists.by_key("Scheduler", lambda one: one[1] and one[1].scheduler),
    "use": lists.by_key("Use", lambda one: _use(one[0])),
    "actions": lists.By("Actions"),
}


def rows(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Host]:
    """The hosts a person sees, with what the list shows of each, in one query."""
    latest = FactSnapshot.objects.filter(host=OuterRef("pk")).order_by("-pk")
    holding = Layout.objects.holding().filter(host=OuterRef("pk"))
    os_name = latest.annotate(found=KeyTextTransform("os_name", "facts")).values("found")
    sudo = latest.annotate(found=KeyTransform("sudo", "facts")).values("found")
    return Host.objects.for_user(user).annotate(
        os_name=Subquery(os_name[:1]),
        sudo=Subquery(sudo[:1]),
        disks=Count("devices", filter=Q(devices__present=True)),
        spare_disks=Count("devices", filter=Q(devices__present=True, devices__spare=True)),
        busy=Subquery(holding.values("phase")[:1]),
    )


def disks(host: Host, seen: Mapping[str, BlockDevice]) -> list[Disk]:
    """Those that are there first, sdb2 before sdb10. `seen`: by identity."""
    rows = sorted(host.devices.all(), key=lambda one: (not one.present, natural(one.name)))
    return [(row, seen.get(row.identity)) for row in rows]


def disk_texts(one: Disk) -> tuple[str, ...]:
    """Texts of a disk that are searched, as the page shows them."""
    device, seen = one
    told = (device.name, device.model, device.serial, device.wwn, device.role, device.in_use)
    return *told, *_kind(device, seen), seen.scheduler if seen else "", STATES[_use(device)[0]]


# As a list of disks is sorted by its use: what can be had first.
STATES = ("spare", "free", "in use", "not there")


def _use(device: Device) -> tuple[int, str]:
    if not device.present:
        return 3, ""
    if device.spare:
        return 0, device.role
    return (2, device.in_use) if device.in_use else (1, "")


def _kind(device: Device, seen: BlockDevice | None) -> tuple[str, str]:
    """With how it is attached."""
    word = {True: "rotational", False: "flash", None: "unknown"}[device.rotational]
    return word, seen.transport if seen else ""


def shown(hosts: Iterable[Any]) -> list[HostRow]:
    """Of `rows`."""
    return [HostRow(h, h.os_name, h.disks, h.spare_disks, state(h, h.sudo, h.busy)) for h in hosts]


def state(host: Host, sudo: bool | None, busy: str | None) -> State:
    """State of a host in two or three words; the worst first."""
    if host.access != Host.Access.SSH:
        return State("badge-queued", host.get_access_display())
    if host.trouble:
        return State("badge-failed", advice(host.trouble).title)
    if not host.host_key:
        return State("badge-waiting", "Key not confirmed")
    if sudo is None:
        return State("badge-waiting", "Not read yet")
    if busy:
        return State(f"badge-{busy}", "A layout holds it")
    if not sudo:
        return State("badge-interrupted", "No sudo: disks cannot be used")
    return State("badge-succeeded", "Ready")


def tool_rows(facts: HostFacts) -> list[ToolRow]:
    """Programs that our drivers want on a host, and whether they are there; missing ones last."""
    rows = [
        ToolRow(
            program=need.program,
            version=facts.tools.get(need.program, ""),
            present=need.program in facts.tools,
            package=_package(need.packages, facts.os_family),
        )
        for need in needs()
        if need.program in facts.tools or _of_its_system(need.packages, facts.os_family)
    ]
    return sorted(rows, key=lambda row: (not row.present, row.program))


def _of_its_system(packages: Mapping[str, str], family: str) -> bool:
    """Nobody looks for gpart on Linux, or for LVM on FreeBSD."""
    return "freebsd" in packages if family == "freebsd" else set(packages) != {"freebsd"}


def _package(packages: Mapping[str, str], family: str) -> str:
    return packages.get(family, "")


def spare_counts(user: AbstractBaseUser | AnonymousUser) -> dict[Host, dict[str, int]]:
    """Host -> role -> how many spare disks are there, for the hosts a person sees. Two queries."""
    hosts = {host.pk: host for host in Host.objects.for_user(user)}
    found: dict[Host, dict[str, int]] = {host: {} for host in hosts.values()}
    rows = Device.objects.filter(host__in=hosts, present=True, spare=True)
    for pk, role, number in rows.values_list("host", "role").annotate(n=Count("pk")).order_by():
        found[hosts[pk]][role] = number
    return found
