"""A person says that a finding does not matter here, and why; or that it does after all."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from benchlab.findings.models import MOST_NOTE, Finding
from benchlab.runs import events
from benchlab.web.written_text import clean


class Already(ValidationError):
    """Somebody else was faster: what they said stands."""


def dismiss(row: Finding, by: AbstractBaseUser, note: str) -> None:
    """Raises ValidationError without a note, Already where somebody else dismissed it. One's own last note counts."""
    said = clean(note, MOST_NOTE)
    with transaction.atomic():
        there = _as_it_is(row)
        if there and there.dismissed_at and there.dismissed_by_id != by.pk:
            raise Already(f"{_who(there)} dismissed it before you. Your note was not kept.")
        row.note, row.dismissed_at, row.dismissed_by_id = said, timezone.now(), by.pk
        _save(row)


def take_back(row: Finding, note: str) -> None:
    """It counts again. Raises ValidationError without a note, Already where it was taken back with another one."""
    said = clean(note, MOST_NOTE)
    with transaction.atomic():
        there = _as_it_is(row)
        if there and there.dismissed_at is None and there.note not in ("", said):
            raise Already("It was taken back before you. Your note was not kept.")
        row.note, row.dismissed_at, row.dismissed_by_id = said, None, None
        _save(row)


def _as_it_is(row: Finding) -> Finding | None:
    """Who comes at the same moment waits here. None: it is gone, which saving it tells."""
    return Finding.objects.select_for_update().filter(pk=row.pk).first()


def _who(row: Finding) -> str:
    return row.dismissed_by.get_username() if row.dismissed_by else "Somebody who left"


def _save(row: Finding) -> None:
    row.save(update_fields=["note", "dismissed_at", "dismissed_by"])
    events.changed(row.campaign_id)
