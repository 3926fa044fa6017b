# SPDX-License-Identifier: Apache-2.0
"""Rows that can be commented and shared, and by whom: the one place that turns (kind, id) into a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.apps import apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Model, QuerySet
from django.http import Http404
from django.urls import reverse

from benchlab.sharing.models import Comment, Kind, Note, Star, Tagging
from benchlab.team.models import Team

Person = AbstractBaseUser | AnonymousUser
MODELS = {
    Kind.HOST: "hosts.Host",
    Kind.TOPOLOGY: "topologies.Topology",
    Kind.WORKLOAD: "campaigns.Workload",
    Kind.CAMPAIGN: "campaigns.Campaign",
    Kind.RUN: "campaigns.Run",
}
GREATEST = 2**63 - 1


def model_of_kind(kind: str) -> Any:
    """Return the model of a kind. Raises Http404 for an unknown kind."""
    if kind not in MODELS:
        raise Http404(f"{kind[:20]!r} cannot have comments, tags or links.")
    return apps.get_model(MODELS[Kind(kind)])


def target_models() -> list[Any]:
    return [apps.get_model(label) for label in MODELS.values()]


def row_kind(row: Model) -> Kind:
    return next(kind for kind, label in MODELS.items() if label == row._meta.label)


def owned_row(user: Person, kind: str, pk: int) -> Any:
    """Return the row of a team in which the user has the role for this request. Raises Http404."""
    return _row_or_404(rows_of_kind(kind).for_user(user), kind, pk)


def visible_row(user: Person, kind: str, pk: int) -> Any:
    """Return the row, which may also be one of the reference library. Raises Http404."""
    return _row_or_404(rows_of_kind(kind).visible_to(user), kind, pk)


def rows_of_kind(kind: str) -> Any:
    rows = model_of_kind(kind)._default_manager.all()
    if kind == Kind.RUN:
        return rows.select_related("campaign__team", "topology", "workload")
    return rows.select_related("team")


def _row_or_404(rows: QuerySet[Any], kind: str, pk: int) -> Any:
    row = rows.filter(pk=pk).first() if 0 < pk <= GREATEST else None
    if row is None:
        raise Http404(f"There is no {kind} {pk}.")
    return row


def row_team(row: Any) -> Team:
    team: Team = row.campaign.team if row_kind(row) is Kind.RUN else row.team
    return team


def audit_name(row: Model) -> str:
    """ "campaign 12 (Stripe sizes)", as the audit log has it."""
    return f"{row._meta.verbose_name} {row.pk} ({row})"


def row_url(kind: str, pk: int) -> str:
    return reverse(f"{Kind(kind).value}-detail", args=[pk])


def visible_names(user: Person, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return {(kind, id): name} of the rows that the user sees. A query per kind."""
    return _names_by_key(pairs, lambda kind: rows_of_kind(kind).visible_to(user))


def current_names(user: Person, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the same without archived rows."""
    return _names_by_key(pairs, lambda kind: rows_of_kind(kind).visible_to(user).current())


def _names_by_key(
    pairs: Iterable[tuple[str, int]], visible_rows: Callable[[str], QuerySet[Any]]
) -> dict[tuple[str, int], str]:
    ids: dict[str, list[int]] = {}
    for kind, pk in pairs:
        ids.setdefault(kind, []).append(pk)
    return {
        (kind, row.pk): str(row)
        for kind, some in ids.items()
        for row in visible_rows(kind).filter(pk__in=some)
    }


def delete_discussion(sender: Any, instance: Model, **rest: Any) -> None:
    """Delete the discussion about a deleted row."""
    for model in (Comment, Tagging, Note, Star):
        model.objects.filter(kind=row_kind(instance), object_id=instance.pk).delete()
