# SPDX-License-Identifier: Apache-2.0
"""Archived and deleted rows, and the one place that says what is seen of them.

Deleted rows are gone from everywhere at once: the model's own manager leaves them out, and so does every queryset of
their parts that a person sees (`OwnedQuerySet.not_deleted`). `even_deleted` includes them, for restoring and removal.
Archived rows stay readable by their address; lists begin with `OwnedQuerySet.current`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    from django.db.models import Model


class SoftDeletable(models.Model):
    """Columns of rows that can be deleted.

    A model with them also has `objects` without deleted rows, and `even_deleted`.
    """

    archived_at = models.DateTimeField(null=True, editable=False)
    archived_by = models.CharField(max_length=200, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)
    deleted_by = models.CharField(max_length=200, blank=True, editable=False)
    # Removing it for good has begun: from here it cannot be brought back.
    going_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True

    def offer(self) -> None:
        """Restore an archived row to lists and pickers: somebody asks for just this one."""
        if self.archived_at:
            self.archived_at, self.archived_by = None, ""
            self.save(update_fields=["archived_at", "archived_by"])


NOT_DELETED = models.Q(deleted_at=None)


def is_soft_deletable(model: type[Model]) -> bool:
    return issubclass(model, SoftDeletable)


@cache
def owner(model: type[Model]) -> str | None:
    """Path from a row to the deletable row that it is part of: "run__campaign".

    "" for a deletable row itself; None if there is no such row.
    """
    if is_soft_deletable(model):
        return ""
    path, _, last = getattr(model, "TEAM_PATH", "team").rpartition("__")
    related: Any = model
    for step in path.split("__") if path else ():
        related = related._meta.get_field(step).related_model
    return path if path and last == "team" and is_soft_deletable(related) else None


def not_deleted_filter(model: type[Model]) -> dict[str, Any]:
    """Filter that leaves out rows whose owner is deleted.

    The deletable itself needs none: its manager leaves out deleted rows, so that `even_deleted` need not.
    """
    path = owner(model)
    return {f"{path}__deleted_at": None} if path else {}


def current_filter(model: type[Model]) -> dict[str, Any]:
    path = owner(model)
    return {} if path is None else {_column(path): None}


def archived_filter(model: type[Model]) -> dict[str, Any]:
    path = owner(model)
    return {"pk__in": []} if path is None else {f"{_column(path)}__isnull": False}


def _column(path: str) -> str:
    return f"{path}__archived_at" if path else "archived_at"
