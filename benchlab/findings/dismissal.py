# SPDX-License-Identifier: Apache-2.0
"""Dismissal of a finding or an answer that does not matter here, with the reason; and its restoration."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from benchlab.findings.models import MOST_NOTE, Dismissible
from benchlab.runs import events
from benchlab.web.texts import clean_text


class AlreadyDecided(ValidationError):
    """Somebody else decided first; their decision stands."""


def dismiss_row(row: Dismissible, by: AbstractBaseUser, note: str) -> None:
    """Dismiss a row with a note; a person's last note counts.

    Raises ValidationError without a note, and AlreadyDecided if somebody else dismissed the same.
    """
    cleaned = clean_text(note, MOST_NOTE)
    with transaction.atomic():
        stored = _lock_row(row)
        if stored and stored.dismissed_at and stored.dismissed_by_id != by.pk and stored.same(row):
            raise AlreadyDecided(
                f"{_dismisser_name(stored)} dismissed it before you. Your note was not kept."
            )
        row.note, row.dismissed_at, row.dismissed_by_id = cleaned, timezone.now(), by.pk
        _save_dismissal(row)


def restore_row(row: Dismissible, note: str) -> None:
    """Make a dismissed row count again.

    Raises ValidationError without a note, and AlreadyDecided if it was restored with another note.
    """
    cleaned = clean_text(note, MOST_NOTE)
    with transaction.atomic():
        stored = _lock_row(row)
        if stored and stored.dismissed_at is None and stored.note not in ("", cleaned):
            raise AlreadyDecided("It was taken back before you. Your note was not kept.")
        row.note, row.dismissed_at, row.dismissed_by_id = cleaned, None, None
        _save_dismissal(row)


def _lock_row(row: Dismissible) -> Any:
    """Read the stored row and lock it, so that other requests wait. None if it is gone; saving then fails."""
    return type(row)._default_manager.select_for_update().filter(pk=row.pk).first()


def _dismisser_name(row: Dismissible) -> str:
    return row.dismissed_by.get_username() if row.dismissed_by else "Somebody who left"


def _save_dismissal(row: Dismissible) -> None:
    row.save(update_fields=["note", "dismissed_at", "dismissed_by", *row.KEPT_WITH])
    events.notify_pages(row.campaign_id)
