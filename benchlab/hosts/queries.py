"""What the pages of hosts show, in as few queries as they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from agents.facts.model import HostFacts
from benchlab.hosts.discovery import needs
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.hosts.trouble import advice
from benchlab.runs.models import Layout
from benchlab.runs.states import HOLDING


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


def listed(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Host]:
    """The hosts a person sees, with `os_name`, `sudo`, `disks`, `spare_disks` and `busy` (a layout holds it)."""
    latest = FactSnapshot.objects.filter(host=OuterRef("pk")).order_by("-pk")
    holder = Layout.objects.filter(host=OuterRef("pk"), phase__in=HOLDING)
    return (
        Host.objects.for_user(user)
        .select_related("credential")
        .annotate(
            os_name=Subquery(
                latest.annotate(found=KeyTextTransform("os_name", "facts")).values("found")[:1]
            ),
            sudo=Subquery(latest.annotate(found=KeyTransform("sudo", "facts")).values("found")[:1]),
            disks=Count("devices", filter=Q(devices__present=True)),
            spare_disks=Count("devices", filter=Q(devices__present=True, devices__spare=True)),
            busy=Subquery(holder.values("phase")[:1]),
        )
    )


def state(host: Host, sudo: bool | None, busy: str | None) -> State:
    """What to say of a host in two or three words; the worst first."""
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


def holder(host: Host) -> Layout | None:
    """The layout that holds the host now."""
    found = host.layouts.filter(phase__in=HOLDING).select_related("campaign", "topology")
    return found.first()


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
    ]
    return sorted(rows, key=lambda row: (not row.present, row.program))


def _package(packages: Mapping[str, str], family: str) -> str:
    return packages.get(family, "")
