# SPDX-License-Identifier: Apache-2.0
"""Things that wait for a person: layouts that ask for one, plans that nobody agreed to yet, hosts, missing disks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, F, FloatField, Func, JSONField, OuterRef, Q, Sum, When
from django.db.models.functions import JSONObject

from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase
from benchlab.topologies.disk_counts import missing_disks, required_disks

# Identities of the disks that a plan claims, however deep (charts.conditions.claims), without reading the plan.
CLAIMED = Func(
    F("plan"),
    template="jsonb_path_query_array(%(expressions)s, '$.** ? (exists (@.node)).identity')",
    output_field=JSONField(),
)
# Their disks must be there when their turn comes.
TO_COME = (LayoutPhase.DRAFT, LayoutPhase.WAITING)
IS_TO_COME = Q(phase__in=TO_COME, campaign__archived_at=None, campaign__cancelled_at=None)
NEEDS_PERSON = ~Q(needs_person="")
# A host that dynamo reaches has no key, and one that only results were imported from is never reached.
TROUBLED = ~Q(access=Host.Access.DESCRIBED) & (
    ~Q(trouble="") | Q(access=Host.Access.SSH, host_key="") | ~Q(offered_key="")
)


@dataclass(slots=True)
class DraftPlan:
    """The unconfirmed plan of one campaign.

    `seconds`: until its slowest host has finished; `pending`: layouts without a plan yet.
    """

    hosts: list[str] = field(default_factory=list)
    disks: int = 0
    seconds: float = 0.0
    pending: int = 0
    # layouts that cannot be built
    errors: int = 0
    made_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DiskShortage:
    """A layout to come for which its host has too few spare disks: `short` of a role by so many."""

    campaign: int
    # of the campaign
    name: str
    topology: str
    short: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SpareDisk:
    """A spare one. `size`: bytes."""

    pk: int
    name: str
    role: str
    size: int
    present: bool


@dataclass(slots=True)
class HostShortage:
    """Disks of one host that were marked spare and are missing, and the layouts that have too few disks there."""

    host: int
    name: str
    missing_disks: list[SpareDisk] = field(default_factory=list)
    shortages: list[DiskShortage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ActionNeeded:
    """`plans`: by campaign. `manual_steps`: layouts that wait for a person. `hosts`: those in trouble."""

    plans: Mapping[int, DraftPlan]
    missing: Sequence[HostShortage]
    manual_steps: Sequence[Layout]
    hosts: Sequence[Host]


def find_action_needed(user: AbstractBaseUser | AnonymousUser) -> ActionNeeded:
    """Find everything that needs a person, in two queries."""
    layouts: list[Any] = list(
        Layout.objects.for_user(user)
        .filter(IS_TO_COME | NEEDS_PERSON)
        .annotate(comes=Case(When(IS_TO_COME, then=True), default=False))
        .annotate(claimed=Case(When(IS_TO_COME, then=CLAIMED)), seconds=_measuring_seconds())
        .select_related("host", "topology", "campaign")
        .defer("plan")
    )
    to_come = [row for row in layouts if row.comes]
    hosts = _hosts_with_spares(user, {row.host_id for row in to_come})
    return ActionNeeded(
        _draft_plans(row for row in to_come if row.phase == LayoutPhase.DRAFT),
        _host_shortages(hosts, to_come),
        [row for row in layouts if row.needs_person],
        [host for host in hosts if host.troubled],
    )


def _measuring_seconds() -> Case:
    """Seconds that the runs of a draft take; null of other layouts, and of one without runs."""
    runs = Attempt.objects.filter(layout=OuterRef("pk")).order_by().values("layout")
    seconds = runs.annotate(seconds=Sum("run__expected_s")).values("seconds")
    return Case(When(phase=LayoutPhase.DRAFT, then=seconds), output_field=FloatField())


def _hosts_with_spares(
    user: AbstractBaseUser | AnonymousUser, wanted_by: Iterable[int]
) -> list[Any]:
    """Hosts in trouble, with a spare disk that is gone, or that layouts wait for, each with its spare disks."""
    spare = Device.objects.filter(host=OuterRef("pk"), spare=True).order_by("name")
    columns = {name: name for name in ("pk", "name", "role", "size", "present")}
    whose = TROUBLED | Exists(spare.filter(present=False)) | Q(pk__in=list(wanted_by))
    return list(
        Host.objects.for_user(user)
        .filter(whose)
        .annotate(
            troubled=Case(When(TROUBLED, then=True), default=False),
            spares=ArraySubquery(spare.values(row=JSONObject(**columns))),
        )
    )


def _draft_plans(drafts: Iterable[Any]) -> dict[int, DraftPlan]:
    plans: dict[int, DraftPlan] = defaultdict(DraftPlan)
    disks: dict[int, set[tuple[int, str]]] = defaultdict(set)
    takes: dict[tuple[int, int], float] = defaultdict(float)
    for row in drafts:
        plan = plans[row.campaign_id]
        plan.hosts = sorted({*plan.hosts, row.host.name})
        plan.pending += row.planned_at is None
        plan.errors += bool(row.plan_error)
        plan.made_at = max(filter(None, (plan.made_at, row.planned_at)), default=None)
        disks[row.campaign_id] |= {(row.host_id, identity) for identity in row.claimed or ()}
        takes[row.campaign_id, row.host_id] += row.expected_s + (row.seconds or 0.0)
    for (campaign, _), seconds in takes.items():
        plans[campaign].seconds = max(plans[campaign].seconds, seconds)
    for campaign, claimed in disks.items():
        plans[campaign].disks = len(claimed)
    return dict(plans)


def _host_shortages(hosts: Iterable[Any], to_come: Iterable[Layout]) -> list[HostShortage]:
    shortages = {host.pk: HostShortage(host.pk, host.name) for host in hosts}
    spares: dict[int, Counter[str]] = {pk: Counter() for pk in shortages}
    for host in hosts:
        for disk in (SpareDisk(**row) for row in host.spares):
            if disk.present:
                spares[host.pk][disk.role] += 1
            else:
                shortages[host.pk].missing_disks.append(disk)
    for row in to_come:
        short = missing_roles((*row.stack, *row.stages), spares.get(row.host_id))
        lack = DiskShortage(row.campaign_id, row.campaign.name, row.topology.name, short)
        # The visits of one layout want the same.
        if short and lack not in shortages[row.host_id].shortages:
            shortages[row.host_id].shortages.append(lack)
    return [
        shortage for shortage in shortages.values() if shortage.missing_disks or shortage.shortages
    ]


def missing_roles(
    entries: Iterable[Mapping[str, Any]], spares: Mapping[str, int] | None
) -> dict[str, int]:
    """Role -> how many spare disks layers and stages lack. `spares`: of the host; None of one that is not known."""
    return {} if spares is None else missing_disks(required_disks(entries), spares)
