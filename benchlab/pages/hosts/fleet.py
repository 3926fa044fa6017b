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
from benchlab.web.natural import Natural
from benchlab.web.units import size

# hosts; the others are in the list of them
MOST = 12
# of a host
MOST_DISKS = 60


@dataclass(frozen=True, slots=True)
class Row:
    """`groups`: disks of one kind each, in the order in which they are drawn. `capacity`: of spare ones, in words."""

    shown: HostRow
    groups: list[list[Mark]]
    # disks that are not drawn
    more: int
    spare: int
    gone: int
    capacity: str


@dataclass(frozen=True, slots=True)
class Fleet:
    rows: list[Row]
    # whether there are further hosts
    more: int

    @property
    def spare(self) -> int:
        return sum(row.spare for row in self.rows)


def of(user: AbstractBaseUser | AnonymousUser) -> Fleet:
    """Three queries, whatever the number of hosts."""
    known = queries.rows(user).exclude(access=Host.Access.DESCRIBED).order_by(Natural("name"), "pk")
    hosts = list(known[: MOST + 1])
    shown = queries.shown(hosts[:MOST])
    held, disks = _held(hosts[:MOST]), _disks(hosts[:MOST])
    rows = [_row(one, disks[one.host.pk], held[one.host.pk]) for one in shown]
    return Fleet(rows, len(hosts) - len(shown))


def _disks(hosts: Iterable[Host]) -> Mapping[int, list[Device]]:
    """Those that are there, and those that a person gave and that are not."""
    found: dict[int, list[Device]] = defaultdict(list)
    there = Q(present=True) | Q(spare=True)
    for disk in Device.objects.filter(there, host__in=list(hosts)):
        found[disk.host_id].append(disk)
    return found


def _held(hosts: Iterable[Host]) -> Mapping[int, set[str]]:
    """Host -> identities of the disks of the layout that holds it."""
    found: dict[int, set[str]] = defaultdict(set)
    rows = Layout.objects.holding().filter(host__in=list(hosts))
    for host, plan in rows.values_list("host_id", "plan"):
        found[host] |= {identity for identity, _ in iterate_claims(plan)}
    return found


def _row(shown: HostRow, disks: Iterable[Device], held: set[str]) -> Row:
    ordered = sorted(disks, key=lambda disk: disk_marks.place(disk, held))
    drawn = groupby(ordered[:MOST_DISKS], key=lambda disk: disk_marks.place(disk, held)[:2])
    spare = [disk for disk in ordered if disk_marks.state(disk, held) == disk_marks.SPARE]
    return Row(
        shown,
        [[disk_marks.mark(disk, held) for disk in some] for _, some in drawn],
        max(0, len(ordered) - MOST_DISKS),
        len(spare),
        sum(disk_marks.state(disk, held) == disk_marks.GONE for disk in ordered),
        size(sum(disk.size for disk in spare)) if spare else "",
    )
