"""What a team writes into a campaign's report: one plain text at each place. Who writes has asked for the campaign."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction

from benchlab.campaigns.models import Campaign
from benchlab.sharing.models import ReportText
from benchlab.web.written_text import clean

Place = ReportText.Place


class ChangedMeanwhile(Exception):
    """Somebody else wrote at that place since the form was shown; nothing was saved."""


@dataclass(frozen=True, slots=True)
class Written:
    """A place of the report. `draft` stands in its form: what is stored, or what was sent and refused with `said`."""

    place: str
    label: str
    text: str
    draft: str
    said: str = ""

    @property
    def seen(self) -> str:
        """Sent along by the form: which text the writer had before them."""
        return _digest(self.text)


def of(campaign: Campaign) -> dict[str, Written]:
    """Every place, also those where nothing stands yet."""
    stored = dict(campaign.report_texts.values_list("place", "text"))
    return {
        place.value: Written(
            place.value, str(place.label), stored.get(place, ""), stored.get(place, "")
        )
        for place in Place
    }


def write(campaign: Campaign, place: str, by: AbstractBaseUser, text: str, seen: str) -> None:
    """Raises ValidationError (too long), ChangedMeanwhile."""
    said = clean(text, empty=True).replace("\r\n", "\n")
    with transaction.atomic():
        Campaign.objects.select_for_update().get(pk=campaign.pk)
        row = ReportText.objects.filter(campaign=campaign, place=place).first()
        before = row.text if row else ""
        if said == before:
            return
        if _digest(before) != seen:
            raise ChangedMeanwhile
        ReportText.objects.update_or_create(
            campaign=campaign, place=place, defaults={"text": said, "by_id": by.pk}
        )


def refused(campaign: Campaign, place: str, draft: str, error: Exception) -> dict[str, Written]:
    """As `of`, with what was sent at that place and why it was not saved."""
    texts = of(campaign)
    was = texts[place]
    if isinstance(error, ValidationError):
        said = error.messages[0]
    else:
        said = (
            "Somebody else changed this text while you wrote; theirs stands above, yours below. "
            "Save again to put yours in its place."
        )
    return {**texts, place: Written(place, was.label, was.text, draft, said)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
