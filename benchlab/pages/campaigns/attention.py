# SPDX-License-Identifier: Apache-2.0
"""Things that wait for a person: layouts that ask for one, plans that nobody agreed to yet, hosts, missing disks.

Home lists them; the top bar of every page has their number, and that of what runs. The bar is part of the page, which
asks for nothing once it is there.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    FloatField,
    Func,
    JSONField,
    OuterRef,
    Q,
    Sum,
    Value,
    When,
)
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchlab.campaigns.models import Campaign
from benchlab.findings import display
from benchlab.hosts.models import Device, Host
from benchlab.runs import progress
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.progress import State
from benchlab.runs.states import LayoutPhase
from benchlab.team import current_roles
from benchlab.team.roles import Role, require_role
from benchlab.topologies.models import missing_disks, required_disks
from benchlab.web.shared_answers import SharedAnswers, access_rights

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


@dataclass(slots=True)
class HostShortage:
    """Disks of one host that were marked spare and are missing, and the layouts that have too few disks there."""

    host: int
    name: str
    missing_disks: list[Mapping[str, Any]] = field(default_factory=list)
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
        for disk in host.spares:
            if disk["present"]:
                spares[host.pk][disk["role"]] += 1
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


RUNNING_STATES = (State.RUNNING, State.CANCELLING)
PERSON_STATES = (State.STUCK, State.DRAFT)
RENDERED_BARS: SharedAnswers[str] = SharedAnswers()
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TopBar:
    """`runs`: ids of campaigns. `needed`: how many things a person must do or look at."""

    runs: Sequence[int] = ()
    needed: int = 0


def top_bar(request: HttpRequest) -> dict[str, object]:
    """Context processor of every template. Lazy: a response without the bar costs no query."""
    return {"top_bar": SimpleLazyObject(lambda: read_top_bar(request.user))}


def read_top_bar(user: AbstractBaseUser | AnonymousUser) -> TopBar:
    """Read the bar's numbers in one query at most. People with equal rights share them for TOP_BAR_S seconds."""
    may = current_roles.user_roles(user)
    if not may.viewer or may.locked_by:
        return TopBar()
    since = time.monotonic() - settings.TOP_BAR_S
    return TopBar(
        **json.loads(
            RENDERED_BARS.get_or_make(
                access_rights(user), since, lambda: json.dumps(_count_for_viewer(user))
            )
        )
    )


def _count_for_viewer(user: AbstractBaseUser | AnonymousUser) -> dict[str, Any]:
    # What a page's address asks for, an operator's teams perhaps, says nothing of what its bar may tell.
    viewer = copy(user)
    require_role(viewer, Role.VIEWER)
    [(layouts, hosts, changed)] = User.objects.filter(pk=user.pk or 0).values_list(
        ArraySubquery(_layout_counts(viewer)),
        ArraySubquery(_host_counts(viewer)),
        ArraySubquery(_changed_findings(viewer)),
    )
    states = _campaign_states(layouts)
    waits = {
        row["campaign"] for row in layouts if row["comes"] and row["phase"] == LayoutPhase.DRAFT
    }
    person = waits | {pk for pk, state in states.items() if state in PERSON_STATES}
    manual_steps = sum(row["asking"] for row in layouts)
    troubled = {row["host"] for row in hosts if row["troubled"]}
    needed = (
        len(person)
        + manual_steps
        + len(troubled)
        + len(_lacking_hosts(hosts, layouts))
        + len(changed)
    )
    return {
        "runs": [pk for pk, state in states.items() if state in RUNNING_STATES],
        "needed": needed,
    }


def _layout_counts(user: AbstractBaseUser | AnonymousUser) -> Any:
    """Numbers of layouts not over, by campaign, host, phase and, where their disks are to come, by what they want."""
    columns = ("campaign", "host", "phase", "comes", "wants", "archived", "paused", "cancelled")
    rows = Layout.objects.for_user(user).filter(~Q(phase=LayoutPhase.DONE) | NEEDS_PERSON)
    rows = rows.annotate(
        archived=F("campaign__archived_at"),
        paused=F("campaign__paused_at"),
        cancelled=F("campaign__cancelled_at"),
        comes=Case(When(IS_TO_COME, then=True), default=False),
        wants=Case(
            When(IS_TO_COME, then=JSONObject(stack="stack", stages="stages")),
            output_field=JSONField(),
        ),
    )
    counted = (
        rows.order_by("campaign")
        .values(*columns)
        .annotate(number=Count("pk"), asking=Count("pk", filter=NEEDS_PERSON))
    )
    return counted.values(row=JSONObject(**{name: name for name in (*columns, "number", "asking")}))


def _host_counts(user: AbstractBaseUser | AnonymousUser) -> Any:
    """Hosts with how many of their disks are of a role, spare, and there."""
    columns = ("host", "troubled", "role", "spare", "present")
    rows = Host.objects.for_user(user).annotate(
        host=F("pk"),
        troubled=Case(When(TROUBLED, then=True), default=False),
        role=F("devices__role"),
        spare=F("devices__spare"),
        present=F("devices__present"),
    )
    counted = rows.order_by().values(*columns).annotate(number=Count("devices"))
    return counted.values(row=JSONObject(**{name: name for name in (*columns, "number")}))


def _changed_findings(user: AbstractBaseUser | AnonymousUser) -> Any:
    return display.unreviewed_alerts(user).values(row=Value(1))


def _campaign_states(layouts: Rows) -> dict[int, State]:
    """States of the campaigns that are neither over nor archived."""
    phases: dict[int, Counter[str]] = defaultdict(Counter)
    wishes: dict[int, Campaign] = {}
    for row in layouts:
        if not row["archived"]:
            phases[row["campaign"]][row["phase"]] += row["number"]
            phases[row["campaign"]][progress.MANUAL] += row["asking"]
            wishes[row["campaign"]] = Campaign(
                paused_at=row["paused"], cancelled_at=row["cancelled"]
            )
    still_open = {LayoutPhase.DONE, progress.MANUAL}
    return {
        pk: progress.derive_state(wishes[pk], +counts)
        for pk, counts in phases.items()
        if set(+counts) - still_open
    }


def _lacking_hosts(hosts: Rows, layouts: Rows) -> set[int]:
    """Hosts with a spare disk that is gone, or with fewer of them than a layout to come wants."""
    spares: dict[int, Counter[str]] = defaultdict(Counter)
    lacking = set()
    for row in hosts:
        spares[row["host"]][row["role"]] += row["number"] if row["spare"] and row["present"] else 0
        if row["spare"] and not row["present"]:
            lacking.add(row["host"])
    for row in layouts:
        if row["comes"]:
            entries = (*row["wants"]["stack"], *row["wants"]["stages"])
            if missing_roles(entries, spares.get(row["host"])):
                lacking.add(row["host"])
    return lacking
