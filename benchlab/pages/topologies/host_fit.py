# SPDX-License-Identifier: Apache-2.0
"""Hosts on which a stack could be built, by their spare disks, and the disks that sizes are estimated for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from agents.contracts import AgentError
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.fits import SECTOR, Disk
from benchlab.hosts import discovery, spare_disks
from benchlab.hosts.models import Host
from benchlab.pages.hosts.queries import spare_counts
from benchlab.runs.models import Layout
from benchlab.topologies.inspection import Inspection, Remedy, Stack, fewer_disks, specs_of
from benchlab.topologies.models import missing_disks
from benchlab.topologies.stack_edits import EXAMPLE_NAME, DiskSupply

# hosts of the table
MAX_HOSTS = 8
FITS, LATER, SHORT = "good", "", "warn"


@dataclass(frozen=True, slots=True)
class FitRow:
    """A host. `spare`: for each role that the stack takes, how many of how many, in words."""

    host: Host
    spare: tuple[str, ...]
    css: str
    answer: str
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True)
class FitTable:
    roles: tuple[str, ...]
    rows: tuple[FitRow, ...]
    hidden_rows: int = 0


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """Hosts and disks that a person could build on: the hosts with how many disks of which role are spare, those that a
    layout holds, and the one that is chosen, with its last facts and its disks. Without one, `shelf` has example disks.
    """

    counts: Mapping[Host, Mapping[str, int]]
    held: frozenset[int]
    host: Host | None
    facts: HostFacts | None
    shelf: DiskSupply

    @property
    def choices(self) -> list[tuple[Host, str]]:
        """Hosts that have spare disks, each with them in words."""
        return with_spares(self.counts)


def host_capacity(user: AbstractBaseUser | AnonymousUser, host_id: str | None) -> HostCapacity:
    """`host_id`: "" for no host, None to choose the first that has a spare disk."""
    counts = spare_counts(user)
    held = Layout.objects.holding().filter(host__in=counts).values_list("host", flat=True)
    if host_id is None:
        host = next((host for host, spare in counts.items() if spare), None)
    else:
        host = next((host for host in counts if str(host.pk) == host_id), None)
    facts = discovery.last_facts(host) if host else None
    return HostCapacity(counts, frozenset(held), host, facts, _disks_of_host(host, facts))


def with_spares(counts: Mapping[Host, Mapping[str, int]]) -> list[tuple[Host, str]]:
    texts = ((host, _spare_text(spare)) for host, spare in counts.items())
    return [(host, words) for host, words in texts if words]


def _spare_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {role}" for role, n in sorted(counts.items(), key=lambda pair: -pair[1]))


def _disks_of_host(host: Host | None, facts: HostFacts | None) -> DiskSupply:
    """Its spare disks as the last reading told them."""
    if host is None:
        return DiskSupply()
    sectors = {device.identity: device.physical_sector for device in facts.devices} if facts else {}
    disks: dict[str, list[Disk]] = {}
    for row in host.devices.filter(spare=True, present=True).order_by("identity"):
        disk = Disk(row.name, row.role, row.size, sectors.get(row.identity, SECTOR))
        disks.setdefault(row.role, []).append(disk)
    return DiskSupply(host.name, disks)


def fit_table(
    layers: Stack, wants: Mapping[str, int], looked: Inspection, on: HostCapacity
) -> FitTable:
    """The chosen host first, then those that fit."""
    # Of others it is not known what they have
    hosts_there = [host for host in on.counts if host.access == Host.Access.SSH or not wants]
    rows = [_fit_row(host, layers, wants, looked, on) for host in hosts_there]
    rows.sort(key=lambda row: (row.host != on.host, row.css == SHORT, row.host.name))
    return FitTable(tuple(wants), tuple(rows[:MAX_HOSTS]), max(0, len(rows) - MAX_HOSTS))


def _fit_row(
    host: Host, layers: Stack, wants: Mapping[str, int], looked: Inspection, on: HostCapacity
) -> FitRow:
    counts = on.counts[host]
    short = missing_disks(wants, counts)
    spare = tuple(_spare_share(n, counts.get(role, 0)) for role, n in wants.items())
    if short:
        problem = " and ".join(f"{n} {role}" for role, n in short.items())
        role = next(iter(short))
        alone = len(short) == 1 and looked.valid
        remedy = fewer_disks(layers, role, counts.get(role, 0), on.shelf) if alone else None
        return FitRow(host, spare, SHORT, f"{problem} short.", remedy)
    if host.pk in on.held:
        return FitRow(host, spare, LATER, "Fits, once what stands there is taken down")
    if (
        host == on.host
        and on.facts
        and looked.valid
        and (problem := _planning_error(host, layers, on.facts))
    ):
        return FitRow(host, spare, SHORT, f"Changed since the last reading: {problem}")
    return FitRow(host, spare, FITS, "Fits" if looked.valid else "Has the disks")


def _spare_share(needed: int, available: int) -> str:
    return f"{needed} of {available} spare" if needed <= available else f"has {available} spare"


def _planning_error(host: Host, layers: Stack, facts: HostFacts) -> str:
    """Reason why it cannot be planned there by the host's facts (kernel, settings, sizes of disks); "" if it can."""
    try:
        stack.plan_stack(
            specs_of(layers), EXAMPLE_NAME, facts, spare_disks.host_spares(host).values()
        )
    except AgentError as error:
        return str(error)
    return ""
