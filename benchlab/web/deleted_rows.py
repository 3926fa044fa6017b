# SPDX-License-Identifier: Apache-2.0
"""Deleted rows that can still be restored: their addresses say so, to members of its team and to nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Model

from benchlab.team import soft_delete
from benchlab.team.models import has_role
from benchlab.team.roles import Role


@dataclass(frozen=True, slots=True)
class DeletedRow:
    """`row`: the campaign, topology or workload that was deleted, be it asked for itself or for a part of it."""

    row: Any

    @property
    def noun(self) -> str:
        return str(self.row._meta.verbose_name)

    @property
    def until(self) -> datetime:
        """Time from which it may be removed for good."""
        return restorable_until(self.row)

    @property
    def can_be_brought_back(self) -> bool:
        return self.row.going_at is None

    @property
    def message(self) -> str:
        row = self.row
        who = f" by {row.deleted_by}" if row.deleted_by else ""
        sentence = f"The {self.noun} {row} was deleted{who} on {row.deleted_at:%Y-%m-%d %H:%M} UTC"
        if self.can_be_brought_back:
            return f"{sentence}. It can be brought back until {self.until:%Y-%m-%d %H:%M} UTC."
        return f"{sentence}, and is being removed for good."


def grace_period() -> timedelta:
    return timedelta(days=settings.BENCHLAB_GRACE_DAYS)


def restorable_until(row: soft_delete.SoftDeletable) -> datetime:
    assert row.deleted_at is not None, "it is there"
    return row.deleted_at + grace_period()


def find_deleted_row(
    user: AbstractBaseUser | AnonymousUser, model: type[Model], pk: Any
) -> DeletedRow | None:
    """Deleted row that was asked for, or that it was part of. None: there never was one, or `user` may not see it."""
    path = soft_delete.owner(model)
    if path is None or not str(pk).isascii() or not str(pk).isdigit() or len(str(pk)) > 18:
        return None
    rows: Any = model._base_manager.filter(pk=pk)
    if path:
        rows = rows.select_related(path)
    # What is large stays where it is.
    rows = rows.defer("content") if _has_content(model) else rows
    row = rows.first()
    for step in path.split("__") if path else ():
        row = getattr(row, step, None)
    if row is None or row.deleted_at is None or not has_role(user, row.team_id, Role.VIEWER):
        return None
    return DeletedRow(row)


def _has_content(model: type[Model]) -> bool:
    return any(field.name == "content" for field in model._meta.fields)
