"""What the pages of hosts show, in as few queries as they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from agents.facts.model import HostFacts
from benchlab.hosts.discovery import needs
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.hosts.trouble import advice
from benchlab.runs.models import Layout
from benchlab.web import lists


@dataclass(frozen=True, slots=True)
class State:
    """How a host stands: `css` is the badge's class, `words` what it says."""

    css: str
    words: str


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A program that some layer or tool wants. `version` is empty where it is missing."""

    program: str
    version: str
    present: bool
    package: str  # what brings it on this OS family, "" where nobody said


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in a list. `os_name` is None before its first reading."""

    host: Host
    os_name: str | None
    disks: int
    spare_disks: int
    state: State


# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.by_name(),
    "address": lists.by_name("Address", "address"),
    "system": lists.by("System", "os_name"),
    "disks": lists.by("Disks", "disks", "num"),
    "spare": lists.by("Spare", "spare_disks", "num"),
    "state": lists.By("State"),
    "seen": lists.by("Last answer", "seen_at"),
}
FINDS = ("name", "address", "notes", "os_name")


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


def shown(hosts: Iterable[Any]) -> list[HostRow]:
    """Of `rows`."""
    return [HostRow(h, h.os_name, h.disks, h.spare_disks, state(h, h.sudo, h.busy)) for h in hosts]


def state(host: Host, sudo: bool | None, busy: str | None) -> State:
    """What to say of a host in two or three words; the worst first."""
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
    """What our drivers want on a host, and what of it is there; missing ones last."""
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
