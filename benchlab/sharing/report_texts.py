# SPDX-License-Identifier: Apache-2.0
"""Texts of a team in a report: one plain text at each place. Callers have checked access to the subject."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction

from benchlab.campaigns.models import Campaign
from benchlab.sharing.models import SavedView, WrittenText
from benchlab.web.texts import clean_text

Place = WrittenText.Place
Reported = Campaign | SavedView


class ChangedMeanwhile(Exception):
    """Somebody else wrote at that place since the form was shown; nothing was saved."""


@dataclass(frozen=True, slots=True)
class PlaceText:
    """A place of the report. Its form holds `draft`: the stored text, or a refused one with its `error`."""

    place: str
    label: str
    text: str
    draft: str
    error: str = ""

    @property
    def digest(self) -> str:
        """Hash of the text, which the form sends back to show what the writer saw."""
        return _text_digest(self.text)


def texts_by_place(about: Reported) -> dict[str, PlaceText]:
    """Return every place, including empty ones."""
    stored = dict(about.report_texts.values_list("place", "text"))
    return {
        place.value: PlaceText(
            place.value, str(place.label), stored.get(place, ""), stored.get(place, "")
        )
        for place in Place
    }


def write_text(
    about: Reported, place: str, by: AbstractBaseUser, text: str, base_text: str
) -> None:
    """Store the text. Raises ValidationError (too long), ChangedMeanwhile."""
    cleaned = clean_text(text, empty=True).replace("\r\n", "\n")
    with transaction.atomic():
        type(about)._default_manager.select_for_update().get(pk=about.pk)
        row = about.report_texts.filter(place=place).first()
        before = row.text if row else ""
        if cleaned == before:
            return
        if _text_digest(before) != base_text:
            raise ChangedMeanwhile
        about.report_texts.update_or_create(place=place, defaults={"text": cleaned, "by_id": by.pk})


def texts_with_error(
    about: Reported, place: str, draft: str, error: Exception
) -> dict[str, PlaceText]:
    """Return `texts_by_place` with the refused draft at its place and the reason why it was not saved."""
    texts = texts_by_place(about)
    was = texts[place]
    if isinstance(error, ValidationError):
        message = error.messages[0]
    else:
        message = (
            "Somebody else changed this text while you were writing; theirs is above, yours below. "
            "Save again to replace theirs."
        )
    return {**texts, place: PlaceText(place, was.label, was.text, draft, message)}


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
