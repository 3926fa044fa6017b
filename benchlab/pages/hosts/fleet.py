# SPDX-License-Identifier: Apache-2.0
"""The hosts on Home: each disk as a block that says whether it is spare, in use, gone, or nobody's to touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q

from benchlab.charts.conditions import iterate_claims
from benchlab.hosts import disk_marks
from benchlab.hosts.disk_marks import Mark
from benchlab.hosts.models import Device, Host
from benchlab.pages.hosts import queries
from benchlab.pages.hosts.queries import HostRow
from benchlab.runs.models import Layout
from benchlab.web.natural import NaturalOrder
from benchlab.web.units import format_size

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
        queries.host_rows(user)
        .exclude(access=Host.Access.DESCRIBED)
        .order_by(NaturalOrder("name"), "pk")
    )
    hosts = list(reachable[: MAX_HOSTS + 1])
    host_rows = queries.as_host_rows(hosts[:MAX_HOSTS])
    held, disks = _held_identities(hosts[:MAX_HOSTS]), _disks_by_host(hosts[:MAX_HOSTS])
    rows = [
        _fleet_row(host_row, disks[host_row.host.pk], held[host_row.host.pk])
        for host_row in host_rows
    ]
    return Fleet(rows, len(hosts) - len(host_rows))


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
    ordered = sorted(disks, key=lambda disk: disk_marks.mark_order(disk, held))
    drawn = groupby(ordered[:MAX_DISKS], key=lambda disk: disk_marks.mark_order(disk, held)[:2])
    spare = [disk for disk in ordered if disk_marks.disk_state(disk, held) == disk_marks.SPARE]
    return FleetRow(
        host_row,
        [[disk_marks.disk_mark(disk, held) for disk in some] for _, some in drawn],
        max(0, len(ordered) - MAX_DISKS),
        len(spare),
        sum(disk_marks.disk_state(disk, held) == disk_marks.GONE for disk in ordered),
        format_size(sum(disk.size for disk in spare)) if spare else "",
    )
