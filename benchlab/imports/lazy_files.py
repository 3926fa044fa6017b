"""A draft's files and the lines of its results, read when they are needed: one file's text is kept here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from django.db import connection

from agents.texts.found import Found, Places
from benchlab.campaigns.models import Campaign
from benchlab.imports import drafts
from benchlab.imports.models import DraftFile
from benchlab.imports.services import Piece

SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT %s, name, content, size, sha256, now() FROM imports_draftfile WHERE id = ANY(%s) ORDER BY position
"""


def keep_as_sources(ids: Iterable[int], campaign: Campaign) -> None:
    """The files as they came, copied by PostgreSQL itself: none of them comes here."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCES, [campaign.pk, list(set(ids))])


def pieces(found: Sequence[tuple[DraftFile, Found, str]]) -> dict[tuple[int, int], Piece]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _Texts()
    return {
        (file.pk, one.first): Piece(one, file.name, partial(texts.between, file, one), told=told)
        for file, one, told in found
    }


class _Texts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = Places("")

    def between(self, file: DraftFile, found: Found) -> str:
        if file.pk != self.pk:
            self.text = Places("")  # the one goes before the other comes
            self.text = Places(drafts.text_of(file))
            self.pk = file.pk
        return found.alone(self.text)
