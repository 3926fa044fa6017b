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
from benchlab.team.roles import Role, asks_for
from benchlab.web.shared_answers import Answers, rights

RUNS = (State.RUNNING, State.CANCELLING)
NEEDS_PERSON = (State.STUCK, State.DRAFT)
MADE: Answers[str] = Answers()
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TopBar:
    """`runs`: ids of campaigns. `needed`: how many things a person must do or look at."""

    runs: Sequence[int] = ()
    needed: int = 0


def top_bar(request: HttpRequest) -> dict[str, object]:
    """For every template. Lazy: an answer without the bar pays nothing."""
    return {"top_bar": SimpleLazyObject(lambda: of(request.user))}


def of(user: AbstractBaseUser | AnonymousUser) -> TopBar:
    """At most one query, and none where somebody of the same rights had a page made just before."""
    may = current_roles.of(user)
    if not may.viewer or may.locked_by:
        return TopBar()
    since = time.monotonic() - settings.TOP_BAR_S
    return TopBar(**json.loads(MADE.of(rights(user), since, lambda: json.dumps(_counted(user)))))


def _counted(user: AbstractBaseUser | AnonymousUser) -> dict[str, Any]:
    # What a page's address asks for, an operator's teams perhaps, says nothing of what its bar may tell.
    viewer = copy(user)
    asks_for(viewer, Role.VIEWER)
    [(layouts, hosts, changed)] = User.objects.filter(pk=user.pk or 0).values_list(
        ArraySubquery(_layouts(viewer)),
        ArraySubquery(_hosts(viewer)),
        ArraySubquery(_changed(viewer)),
    )
    found = _states(layouts)
    waits = {
        row["campaign"] for row in layouts if row["comes"] and row["phase"] == LayoutPhase.DRAFT
    }
    person = waits | {pk for pk, state in found.items() if state in NEEDS_PERSON}
    asked = sum(row["asking"] for row in layouts)
    troubled = {row["host"] for row in hosts if row["troubled"]}
    needed = len(person) + asked + len(troubled) + len(_lacking(hosts, layouts)) + len(changed)
    return {"runs": [pk for pk, state in found.items() if state in RUNS], "needed": needed}


def _layouts(user: AbstractBaseUser | AnonymousUser) -> Any:
    """Numbers of layouts not over, by campaign, host, phase and, where their disks are to come, by what they want."""
    told = ("campaign", "host", "phase", "comes", "wants", "archived", "paused", "cancelled")
    rows = Layout.objects.for_user(user).filter(~Q(phase=LayoutPhase.DONE) | action_needed.ASKS)
    rows = rows.annotate(
        archived=F("campaign__archived_at"),
        paused=F("campaign__paused_at"),
        cancelled=F("campaign__cancelled_at"),
        comes=Case(When(action_needed.COMES, then=True), default=False),
        wants=Case(
            When(action_needed.COMES, then=JSONObject(stack="stack", stages="stages")),
            output_field=JSONField(),
        ),
    )
    counted = (
        rows.order_by("campaign")
        .values(*told)
        .annotate(number=Count("pk"), asking=Count("pk", filter=action_needed.ASKS))
    )
    return counted.values(row=JSONObject(**{name: name for name in (*told, "number", "asking")}))


def _hosts(user: AbstractBaseUser | AnonymousUser) -> Any:
    """Hosts with how many of their disks are of a role, spare, and there."""
    told = ("host", "troubled", "role", "spare", "present")
    rows = Host.objects.for_user(user).annotate(
        host=F("pk"),
        troubled=Case(When(action_needed.TROUBLED, then=True), default=False),
        role=F("devices__role"),
        spare=F("devices__spare"),
        present=F("devices__present"),
    )
    counted = rows.order_by().values(*told).annotate(number=Count("devices"))
    return counted.values(row=JSONObject(**{name: name for name in (*told, "number")}))


def _changed(user: AbstractBaseUser | AnonymousUser) -> Any:
    return display.not_looked_at(user).values(row=Value(1))


def _states(layouts: Rows) -> dict[int, State]:
    """Of campaigns that are not over and not archived."""
    phases: dict[int, Counter[str]] = defaultdict(Counter)
    wishes: dict[int, Campaign] = {}
    for row in layouts:
        if not row["archived"]:
            phases[row["campaign"]][row["phase"]] += row["number"]
            phases[row["campaign"]][progress.ASKING] += row["asking"]
            wishes[row["campaign"]] = Campaign(
                paused_at=row["paused"], cancelled_at=row["cancelled"]
            )
    still_open = {LayoutPhase.DONE, progress.ASKING}
    return {
        pk: progress.state(wishes[pk], +counts)
        for pk, counts in phases.items()
        if set(+counts) - still_open
    }


def _lacking(hosts: Rows, layouts: Rows) -> set[int]:
    """Hosts with a spare disk that is gone, or with fewer of them than a layout to come wants."""
    spares: dict[int, Counter[str]] = defaultdict(Counter)
    found = set()
    for row in hosts:
        spares[row["host"]][row["role"]] += row["number"] if row["spare"] and row["present"] else 0
        if row["spare"] and not row["present"]:
            found.add(row["host"])
    for row in layouts:
        if row["comes"]:
            entries = (*row["wants"]["stack"], *row["wants"]["stages"])
            if action_needed.lacks(entries, spares.get(row["host"])):
                found.add(row["host"])
    return found
