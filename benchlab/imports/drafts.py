# SPDX-License-Identifier: Apache-2.0
"""Drafts: from an upload to files whose results are known. Nothing here is a result yet."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, Sum
from django.utils import timezone

from agents.drivers import reading
from benchlab.charts import numbered_lines
from benchlab.imports import blobs, reading_json, texts
from benchlab.imports.models import Draft, DraftFile, DraftPage
from benchlab.imports.services import sha256
from benchlab.imports.unpack import File, Unpacker, clean
from benchlab.runs import bulk
from benchlab.team.models import Team
from benchlab.workers import messages

log = logging.getLogger(__name__)

READ = "benchlab.imports.tasks.read_file"
Person = AbstractBaseUser | AnonymousUser
# positions between uploads, for the files in each
APART = 10_000
KEPT = timedelta(days=1)
# then whoever claimed a file is taken for dead
PATIENCE = timedelta(minutes=10)
# so long a message may wait in the queue
NUDGED = timedelta(minutes=1)
MOST_TRIES = 3
# nudges per sweep; those that wait in a worker are lost with it
AT_MOST = 2000
# Bytes of files that are stored by one statement: as digits and copies they take several times that.
TOGETHER = 256 << 10
FILLED = ("name", "trouble", "packed", "size", "sha256")
UNREAD = Q(reading__isnull=True, trouble="")
# Whether a draft has such files
WAITS = Exists(DraftFile.objects.filter(UNREAD, draft=OuterRef("pk")))


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it came, or what was pasted. `size` in bytes."""

    name: str
    stream: IO[bytes]
    size: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Progress of the reading of a draft."""

    files: int
    read: int
    size: int

    @property
    def over(self) -> bool:
        return self.read == self.files


def pasted(text: str, name: str = "") -> Upload:
    raw = text.encode("utf-8", "surrogatepass")
    return Upload(name or "pasted.txt", BytesIO(raw), len(raw))


def make(*, team: Team, user: Person | None, uploads: Sequence[Upload]) -> Draft:
    """Keep what came, for workers to unpack and to read. Raises ValidationError when there is nothing."""
    if not uploads:
        raise ValidationError("Paste something, or choose at least one file.")
    with transaction.atomic():
        draft = Draft.objects.create(
            team=team, name=_name(uploads), created_by_id=user.pk if user else None
        )
        for number, upload in enumerate(uploads):
            row = DraftFile.objects.create(
                draft=draft,
                position=number * APART,
                name=clean(upload.name),
                size=upload.size,
                packed=True,
            )
            blobs.arrive(row, upload.stream)
        nudge(draft.files.values_list("pk", flat=True))
    return draft


def _name(uploads: Sequence[Upload]) -> str:
    more = f" and {len(uploads) - 1} more" if len(uploads) > 1 else ""
    return f"{uploads[0].name[:150]}{more}".replace("\0", "")


def standing(draft: Draft) -> Standing:
    found = draft.files.aggregate(
        files=Count("pk"), unread=Count("pk", filter=UNREAD), size=Sum("size")
    )
    return Standing(found["files"], found["files"] - found["unread"], found["size"] or 0)


def nudge(ids: Iterable[int]) -> None:
    """Have files read by workers, once what was written is visible to them."""
    messages.after_commit(READ, ids)


def team_of(pk: int) -> int | None:
    """The team that a file is of; None: it is gone."""
    return DraftFile.objects.filter(pk=pk).values_list("draft__team", flat=True).first()


def read(pk: int) -> None:
    """Find the results of a file, unless that is done or another is at it. Safe to call at any time."""
    now = timezone.now()
    free = Q(claimed_at=None) | Q(claimed_at__lt=now - PATIENCE)
    mine = DraftFile.objects.filter(UNREAD, free, pk=pk)
    if not mine.update(claimed_at=now, tries=F("tries") + 1):
        return
    row = DraftFile.objects.defer("content").get(pk=pk)
    if row.packed and row.tries <= MOST_TRIES and not _unpack(row):
        return
    text = ""
    # it took its worker down each time
    if row.tries > MOST_TRIES:
        row.trouble = "Reading it failed several times: it may need more memory than there is."
    else:
        text = _read(row)
    with transaction.atomic():
        done = DraftFile.objects.filter(UNREAD, pk=pk).update(
            reading=row.reading, trouble=row.trouble, notes=row.notes, lines=row.lines
        )
        if done and not row.trouble:
            _keep_pages(row, text)


def _keep_pages(row: DraftFile, text: str) -> None:
    """Store the pages that a person will look at, so that no request needs to take the file apart."""
    # as nearly all are: no line need be looked at
    plain = text.isascii() and "\0" not in text
    pages = enumerate(numbered_lines.split_pages(text))
    rows = (
        (row.pk, number, json.dumps(lines if plain else _plain(lines))) for number, lines in pages
    )
    bulk.copy(DraftPage, ("file", "number", "rows"), rows)


def _plain(lines: Iterable[numbered_lines.Row]) -> list[numbered_lines.Row]:
    return [(reading_json.plain(line), more) for line, more in lines]


def page_of(row: DraftFile, line: int) -> numbered_lines.LinePage | None:
    """Its lines around that one; None where it was not read, or holds no text."""
    number = numbered_lines.page_number(line, row.lines)
    page = row.pages.filter(number=number).first()
    return numbered_lines.build_page(page.rows, number, row.lines, line) if page else None


@transaction.atomic
def _unpack(row: DraftFile) -> bool:
    """Make of an upload the files in it: its own row is the first. Whether that is there to be read."""
    draft = Draft.objects.select_for_update().filter(pk=row.draft_id).first()
    if draft is None:
        # discarded meanwhile
        return False
    files = _files(draft, row)
    if not _becomes(row, next(files, None)):
        return False
    nudge(_keep(draft, row.position, files))
    return not row.trouble


def _becomes(row: DraftFile, first: File | None) -> bool:
    """The upload's own row becomes the first file in it; whether there is one."""
    if first is None:
        row.packed, row.trouble = False, "There is no file in it."
        row.save(update_fields=["packed", "trouble"])
        return False
    _fill(row, first)
    row.save(update_fields=FILLED)
    blobs.put(row, first.raw)
    return True


def _keep(draft: Draft, position: int, files: Iterable[File]) -> list[int]:
    """Rows of the files behind that position: the ids of those to be read. Small ones go in together."""
    rows: list[DraftFile] = []
    fresh: list[int] = []

    def together() -> None:
        DraftFile.objects.bulk_create(rows)
        fresh.extend(row.pk for row in rows if not row.trouble)
        rows.clear()

    for number, file in enumerate(files, 1):
        row = DraftFile(draft=draft, position=position + number)
        _fill(row, file)
        if sum(len(one.content) for one in rows) + row.size > TOGETHER:
            together()
        rows.append(row)
        # in parts, see blobs
        if row.size > TOGETHER:
            together()
            blobs.put(row, file.raw)
        else:
            row.content = file.raw
    together()
    return fresh


def _files(draft: Draft, row: DraftFile) -> Iterator[File]:
    """Files in an upload; limits hold for all that was uploaded together."""
    others = draft.files.filter(packed=False)
    size = others.aggregate(size=Sum("size"))["size"] or 0
    unpacker = Unpacker(total=size, names=others.values_list("name", flat=True))
    with TemporaryFile() as spool:
        for part in blobs.arrived(row):
            spool.write(part)
        yield from unpacker.unpack(row.name, spool, row.size)


def _fill(row: DraftFile, file: File) -> None:
    row.name, row.trouble, row.packed = file.name, file.trouble, False
    row.size, row.sha256 = len(file.raw), sha256(file.raw)


def _read(row: DraftFile) -> str:
    """Its text."""
    try:
        found = texts.read(row.name, blobs.get(row.pk))
    except texts.NoText as error:
        row.trouble = str(error)
        return ""
    row.notes = list(found.notes)
    row.lines = found.text.count("\n") + 1
    try:
        row.reading = reading_json.to_json(reading.read(found.text, row.name))
    except Exception:
        # whatever a reader does, the other files and the page must go on
        log.exception("reading %s (file %s)", row.name, row.pk)
        row.trouble = "Reading it failed because of a bug in BenchLab; see the worker's log."
    return found.text


def text_of(row: DraftFile) -> str:
    """The text whose lines the reading counts. Empty for what is no text."""
    try:
        return texts.read(row.name, blobs.get(row.pk)).text
    except texts.NoText:
        return ""


def due() -> list[int]:
    """Files that nobody reads: their message was lost, or their worker died."""
    now = timezone.now()
    waiting = Q(claimed_at=None, draft__created_at__lt=now - NUDGED) | Q(
        claimed_at__lt=now - PATIENCE
    )
    rows = DraftFile.objects.filter(UNREAD, waiting).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:AT_MOST])


def forget() -> None:
    """Drafts that nobody agreed to within a day, and what tells of those that were stored."""
    old = Q(created_at__lt=timezone.now() - KEPT)
    for draft in Draft.objects.filter(old, Q(agreed_at=None) | Q(stored_at__isnull=False)):
        draft.delete()
