# SPDX-License-Identifier: Apache-2.0
"""Archive rows, out of lists and pickers, and restore them. An archived row can still be read by its address."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from benchlab.lifecycle.managed_kinds import MANAGED_KINDS, Refused, managed_kind_of
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase

AT_REST = (LayoutPhase.DRAFT, LayoutPhase.DONE)


@transaction.atomic
def archive(row: Any, by: AbstractBaseUser | AnonymousUser) -> None:
    """Archive a row. Repeating it changes nothing. Raises Refused if it runs."""
    current = lock_row(row)
    if going := working_layout(current):
        raise Refused(
            f"It is not over: {going.name} ({going.get_phase_display()}) still stands on {going.host}. "
            "Archive it when it has ended, or cancel it first."
        )
    if current.archived_at is None:
        current.archived_at, current.archived_by = timezone.now(), by.get_username()
        current.save(update_fields=["archived_at", "archived_by"])
    row.archived_at, row.archived_by = current.archived_at, current.archived_by


def restore_row(row: Any) -> None:
    """Restore an archived row. Repeating it changes nothing."""
    row.offer()


def working_layout(row: Any) -> Layout | None:
    """Layout of the campaign that holds a host or waits for one; None for other nouns."""
    if not isinstance(row, MANAGED_KINDS["campaign"].model):
        return None
    return row.layouts.exclude(phase__in=AT_REST).select_related("host").first()  # type: ignore[no-any-return]


def lock_row(row: Any) -> Any:
    """Lock the row until the transaction ends and return its current state; whoever starts or uses it waits.

    Raises Refused if it was deleted.
    """
    current = managed_kind_of(row).model.objects.select_for_update().filter(pk=row.pk).first()
    if current is None:
        raise Refused("It was deleted in the meantime.")
    return current
