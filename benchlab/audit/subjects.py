# SPDX-License-Identifier: Apache-2.0
"""Subjects of a request: the rows that its address names, or the one that it made, in words and with their team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db.models import Model
from django.http import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve

from benchlab.team.models import has_role
from benchlab.team.roles import Role

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

# Model of `pk` by the first word of the URL's name. Views of the API name theirs.
MODELS = {
    "host": "hosts.Host",
    "credential": "hosts.Credential",
    "device": "hosts.Device",
    "topology": "topologies.Topology",
    "workload": "campaigns.Workload",
    "campaign": "campaigns.Campaign",
    "run": "campaigns.Run",
    "layout": "runs.Layout",
    "artifact": "runs.Artifact",
    "attempt": "runs.Attempt",
    "import": "imports.Draft",
    "dynamo": "dynamo.Binary",
    "reported": "dynamo.Reported",
    "comment": "sharing.Comment",
    "finding": "findings.Finding",
    "view": "sharing.SavedView",
    "share": "sharing.Share",
    "team": "team.Team",
}
NAMED_KEYS = {
    "device_pk": "hosts.Device",
    "layout_pk": "runs.Layout",
    "team_pk": "team.Team",
    "member_pk": "team.Membership",
    "invitation_pk": "team.Invitation",
    "user_pk": "auth.User",
}
# the team's id, and the rows in words
Subject = tuple[int | None, str]
NO_SUBJECT: Subject = (None, "")


def address_subject(match: ResolverMatch | None, view: Any, kwargs: Mapping[str, Any]) -> Subject:
    """Subject by the address, before the action: the rows may be gone afterwards.

    The caller's rights are not checked here.
    """
    queryset = getattr(getattr(view, "cls", None), "queryset", None)
    if queryset is not None:
        return _subject({"pk": queryset.model}, kwargs)
    return _named_subject((match.url_name if match else "") or "", kwargs)


def created_subject(
    user: AbstractBaseUser | AnonymousUser, match: ResolverMatch, response: HttpResponseBase
) -> Subject:
    """Subject after an action whose address names no row: what there is now, by the API's answer or the page's target.

    Nothing that is of no team of the user's: where a page leads may have been asked for with `next`.
    """
    view, data = getattr(match.func, "cls", None), getattr(response, "data", None)
    if view is not None:
        queryset = getattr(view, "queryset", None)
        pk = data.get("id") if isinstance(data, dict) else None
        subject = (
            _subject({"pk": queryset.model}, {"pk": pk}) if queryset is not None else NO_SUBJECT
        )
    else:
        target = redirect_page(response)
        subject = _named_subject(target.url_name or "", target.kwargs) if target else NO_SUBJECT
    team = subject[0]
    return subject if team is not None and has_role(user, team, Role.VIEWER) else NO_SUBJECT


def redirect_page(response: HttpResponseBase) -> ResolverMatch | None:
    """Page of ours to which the answer redirects the browser."""
    return resolve_page(str(response.get("Location", "")).partition("?")[0].partition("#")[0])


def resolve_page(path: str) -> ResolverMatch | None:
    try:
        return resolve(path)
    except Resolver404:
        return None


def _named_subject(url_name: str, kwargs: Mapping[str, Any]) -> Subject:
    name = url_name.partition("-")[0]
    models: dict[str, type[Model]] = {}
    if name in MODELS:
        models["pk"] = apps.get_model(MODELS["host" if "device_pk" in kwargs else name])
    return _subject(models, kwargs)


def _subject(models: dict[str, type[Model]], kwargs: Mapping[str, Any]) -> Subject:
    models |= {key: apps.get_model(model) for key, model in NAMED_KEYS.items()}
    rows = [row for key, model in models.items() if (row := _find_row(model, kwargs.get(key)))]
    if not rows:
        return NO_SUBJECT
    team = _team(rows[0])
    # A second id of the address may be another team's row: what that is called is nothing for this team's log.
    visible_rows = [row for row in rows if row is rows[0] or _team(row) == team]
    return team, ", ".join(describe_row(row) for row in visible_rows)


def describe_row(row: Model) -> str:
    return f"{row._meta.verbose_name} {row.pk} ({row})"


def former_name(before: str, now: str) -> str:
    """Former name to print behind the words of a row; empty if it is unchanged."""
    return f", “{before}” before" if before != now else ""


def _find_row(model: type[Model], pk: Any) -> Model | None:
    if pk is None or not str(pk).isdigit() or len(str(pk)) > 18:
        return None
    # Also what was deleted, and can be brought back
    return model._base_manager.filter(pk=pk).first()


def _team(row: Any) -> int | None:
    """Team of a row, along its TEAM_PATH: "run__campaign__team"."""
    if row._meta.label == "team.Team":
        return int(row.pk)
    for step in getattr(row, "TEAM_PATH", "team").split("__"):
        row = getattr(row, step, None)
    return row.pk if row is not None else None
