# SPDX-License-Identifier: Apache-2.0
"""Queries of the pages of hosts and of Home's fleet, as few as possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from agents.facts.model import BlockDevice, HostFacts
from benchlab.charts.device_stacks import iterate_claims
from benchlab.hosts import spare_disks
from benchlab.hosts.discovery import required_programs
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.hosts.spare_disks import Mark
from benchlab.hosts.ssh_access import advice
from benchlab.runs.models import Layout
from benchlab.web import lists
from benchlab.web.texts import NaturalOrder, natural_key
from benchlab.web.units import format_size


@dataclass(frozen=True, slots=True)
class HostState:
    """State of a host: the class of its badge and its text."""

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
    state: HostState


# Of `rows`, as `state` tells them apart: what needs a person first.
STATE_RANK = Case(
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
    "name": lists.name_column(),
    "address": lists.name_column("Address", "address"),
    "system": lists.sort_column("System", "os_name"),
    "disks": lists.sort_column("Disks", "disks", "num"),
    "spare": lists.sort_column("Spare", "spare_disks", "num"),
    "state": lists.SortColumn("State", STATE_RANK),
    "seen": lists.sort_column("Last answer", "seen_at"),
}
SEARCHED_COLUMNS = ("name", "address", "notes", "os_name")
# what is stored of it, and how the facts saw it
Disk = tuple[Device, BlockDevice | None]
# Of the disks on a host's page.
DISKS = {
    "name": lists.key_column("Disk", lambda disk: disk[0].name),
    "size": lists.key_column("Size", lambda disk: disk[0].size, "num"),
    "model": lists.key_column("Model", lambda disk: disk[0].model),
    "serial": lists.key_column("Serial or WWN", lambda disk: disk[0].serial or disk[0].wwn),
    "kind": lists.key_column("Kind", lambda disk: _disk_kind(*disk)),
    "sectors": lists.key_column(
        "Sectors", lambda disk: disk[1] and (disk[1].physical_sector, disk[1].logical_sector), "num"
    ),
    "scheduler": lists.key_column("Scheduler", lambda disk: disk[1] and disk[1].scheduler),
    "use": lists.key_column("Use", lambda disk: _disk_use(disk[0])),
    "actions": lists.SortColumn("Actions"),
}


def host_rows(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Host]:
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


def host_disks(host: Host, block_devices: Mapping[str, BlockDevice]) -> list[Disk]:
    """List the disks, present ones first, sdb2 before sdb10. `block_devices`: by identity."""
    rows = sorted(
        host.devices.all(), key=lambda device: (not device.present, natural_key(device.name))
    )
    return [(row, block_devices.get(row.identity)) for row in rows]


def disk_texts(disk: Disk) -> tuple[str, ...]:
    """Texts of a disk that are searched, as the page shows them."""
    device, block_device = disk
    texts = (device.name, device.model, device.serial, device.wwn, device.role, device.in_use)
    return (
        *texts,
        *_disk_kind(device, block_device),
        block_device.scheduler if block_device else "",
        USE_WORDS[_disk_use(device)[0]],
    )


# As a list of disks is sorted by its use: what can be had first.
USE_WORDS = ("spare", "free", "in use", "not there")


def _disk_use(device: Device) -> tuple[int, str]:
    if not device.present:
        return 3, ""
    if device.spare:
        return 0, device.role
    return (2, device.in_use) if device.in_use else (1, "")


def _disk_kind(device: Device, block_device: BlockDevice | None) -> tuple[str, str]:
    """Return the kind of a disk and how it is attached."""
    word = {True: "rotational", False: "flash", None: "unknown"}[device.rotational]
    return word, block_device.transport if block_device else ""


def as_host_rows(hosts: Iterable[Any]) -> list[HostRow]:
    """Convert the annotated hosts of `host_rows`."""
    return [
        HostRow(h, h.os_name, h.disks, h.spare_disks, host_state(h, h.sudo, h.busy)) for h in hosts
    ]


def host_state(host: Host, sudo: bool | None, busy: str | None) -> HostState:
    """State of a host in two or three words; the worst first."""
    if host.access != Host.Access.SSH:
        return HostState("badge-queued", host.get_access_display())
    if host.trouble:
        return HostState("badge-failed", advice(host.trouble).title)
    if not host.host_key:
        return HostState("badge-waiting", "Key not confirmed")
    if sudo is None:
        return HostState("badge-waiting", "Not read yet")
    if busy:
        return HostState(f"badge-{busy}", "A layout holds it")
    if not sudo:
        return HostState("badge-interrupted", "No sudo: disks cannot be used")
    return HostState("badge-succeeded", "Ready")


def tool_rows(facts: HostFacts) -> list[ToolRow]:
    """Programs that our drivers want on a host, and whether they are there; missing ones last."""
    rows = [
        ToolRow(
            program=need.program,
            version=facts.tools.get(need.program, ""),
            present=need.program in facts.tools,
            package=_package_name(need.packages, facts.os_family),
        )
        for need in required_programs()
        if need.program in facts.tools or _is_for_system(need.packages, facts.os_family)
    ]
    return sorted(rows, key=lambda row: (not row.present, row.program))


def _is_for_system(packages: Mapping[str, str], family: str) -> bool:
    """Nobody looks for gpart on Linux, or for LVM on FreeBSD."""
    return "freebsd" in packages if family == "freebsd" else set(packages) != {"freebsd"}


def _package_name(packages: Mapping[str, str], family: str) -> str:
    return packages.get(family, "")


def spare_counts(user: AbstractBaseUser | AnonymousUser) -> dict[Host, dict[str, int]]:
    """Host -> role -> how many spare disks are there, for the hosts a person sees. Two queries."""
    hosts = {host.pk: host for host in Host.objects.for_user(user)}
    counts: dict[Host, dict[str, int]] = {host: {} for host in hosts.values()}
    rows = Device.objects.filter(host__in=hosts, present=True, spare=True)
    for pk, role, number in rows.values_list("host", "role").annotate(n=Count("pk")).order_by():
        counts[hosts[pk]][role] = number
    return counts


# hosts; the others are in the list of them
MAX_HOSTS = 12
# of a host
MAX_DISKS = 60


@dataclass(frozen=True, slots=True)
class FleetRow:
    """`groups`: disks of one kind each, in the order in which they are drawn. `capacity`: of spare ones, in words."""

    host_row: HostRow
    groups: list[list[Mark]]
    # disks that are not drawn
    hidden_disks: int
    spare_count: int
    missing_count: int
    capacity: str


@dataclass(frozen=True, slots=True)
class Fleet:
    rows: list[FleetRow]
    # whether there are further hosts
    hidden_hosts: int

    @property
    def spare_count(self) -> int:
        return sum(row.spare_count for row in self.rows)


def read_fleet(user: AbstractBaseUser | AnonymousUser) -> Fleet:
    """Read the hosts and their disks, in three queries."""
    reachable = (
        host_rows(user).exclude(access=Host.Access.DESCRIBED).order_by(NaturalOrder("name"), "pk")
    )
    hosts = list(reachable[: MAX_HOSTS + 1])
    drawn = as_host_rows(hosts[:MAX_HOSTS])
    held, disks = _held_identities(hosts[:MAX_HOSTS]), _disks_by_host(hosts[:MAX_HOSTS])
    rows = [
        _fleet_row(host_row, disks[host_row.host.pk], held[host_row.host.pk]) for host_row in drawn
    ]
    return Fleet(rows, len(hosts) - len(drawn))


def _disks_by_host(hosts: Iterable[Host]) -> Mapping[int, list[Device]]:
    """Those that are there, and those that a person gave and that are not."""
    disks: dict[int, list[Device]] = defaultdict(list)
    relevant = Q(present=True) | Q(spare=True)
    for disk in Device.objects.filter(relevant, host__in=list(hosts)):
        disks[disk.host_id].append(disk)
    return disks


def _held_identities(hosts: Iterable[Host]) -> Mapping[int, set[str]]:
    """Host -> identities of the disks of the layout that holds it."""
    identities: dict[int, set[str]] = defaultdict(set)
    rows = Layout.objects.holding().filter(host__in=list(hosts))
    for host, plan in rows.values_list("host_id", "plan"):
        identities[host] |= {identity for identity, _ in iterate_claims(plan)}
    return identities


def _fleet_row(host_row: HostRow, disks: Iterable[Device], held: set[str]) -> FleetRow:
    ordered = sorted(disks, key=lambda disk: spare_disks.mark_order(disk, held))
    drawn = groupby(ordered[:MAX_DISKS], key=lambda disk: spare_disks.mark_order(disk, held)[:2])
    spare = [disk for disk in ordered if spare_disks.disk_state(disk, held) == spare_disks.SPARE]
    return FleetRow(
        host_row,
        [[spare_disks.disk_mark(disk, held) for disk in some] for _, some in drawn],
        max(0, len(ordered) - MAX_DISKS),
        len(spare),
        sum(spare_disks.disk_state(disk, held) == spare_disks.GONE for disk in ordered),
        format_size(sum(disk.size for disk in spare)) if spare else "",
    )
