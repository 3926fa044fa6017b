# SPDX-License-Identifier: Apache-2.0
"""Contents of the top bar and the menu of every page: what runs, and how many things need a person.

It is part of the page, which asks for nothing once it is there. Home tells the same numbers of its own rows.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Count, F, JSONField, Q, Value, When
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchlab.campaigns.models import Campaign
from benchlab.findings import display
from benchlab.hosts.models import Host
from benchlab.pages.campaigns import action_needed
from benchlab.runs import progress
from benchlab.runs.models import Layout
from benchlab.runs.progress import State
from benchlab.runs.states import LayoutPhase
from benchlab.team import current_roles
from benchlab.team.roles import Role, require_role
from benchlab.web.shared_answers import SharedAnswers, access_rights

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
    rows = Layout.objects.for_user(user).filter(
        ~Q(phase=LayoutPhase.DONE) | action_needed.NEEDS_PERSON
    )
    rows = rows.annotate(
        archived=F("campaign__archived_at"),
        paused=F("campaign__paused_at"),
        cancelled=F("campaign__cancelled_at"),
        comes=Case(When(action_needed.IS_TO_COME, then=True), default=False),
        wants=Case(
            When(action_needed.IS_TO_COME, then=JSONObject(stack="stack", stages="stages")),
            output_field=JSONField(),
        ),
    )
    counted = (
        rows.order_by("campaign")
        .values(*columns)
        .annotate(number=Count("pk"), asking=Count("pk", filter=action_needed.NEEDS_PERSON))
    )
    return counted.values(row=JSONObject(**{name: name for name in (*columns, "number", "asking")}))


def _host_counts(user: AbstractBaseUser | AnonymousUser) -> Any:
    """Hosts with how many of their disks are of a role, spare, and there."""
    columns = ("host", "troubled", "role", "spare", "present")
    rows = Host.objects.for_user(user).annotate(
        host=F("pk"),
        troubled=Case(When(action_needed.TROUBLED, then=True), default=False),
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
            if action_needed.missing_roles(entries, spares.get(row["host"])):
                lacking.add(row["host"])
    return lacking
