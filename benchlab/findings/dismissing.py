"""A person says that a finding does not matter here, and why; or that it does after all."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from benchlab.findings.models import MOST_NOTE, Finding
from benchlab.web.written_text import clean


def dismiss(row: Finding, by: AbstractBaseUser, note: str) -> None:
    """Raises ValidationError without a note. Dismissed again, the last note counts."""
    row.note, row.dismissed_at, row.dismissed_by_id = clean(note, MOST_NOTE), timezone.now(), by.pk
    _save(row)


def take_back(row: Finding, note: str) -> None:
    """It counts again. Raises ValidationError without a note."""
    row.note, row.dismissed_at, row.dismissed_by_id = clean(note, MOST_NOTE), None, None
    _save(row)


def _save(row: Finding) -> None:
    row.save(update_fields=["note", "dismissed_at", "dismissed_by"])
