# SPDX-License-Identifier: Apache-2.0
"""Drafts: from an upload to files that were read. Nothing here is stored as a result yet.

An upload waits in PostgreSQL as parts of a MiB until a worker unpacks and reads it. A bytea goes through the client as
hexadecimal digits and several copies of them: 242 MB took 1.16 GiB. So a large content goes in as parts, which
PostgreSQL itself puts together, and comes out as slices.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from io import BytesIO
from typing import IO, Any, cast

import orjson
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.db import connection, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, Sum
from django.http import HttpRequest
from django.utils import timezone

from agents.drivers import text_reading
from benchlab.charts import numbered_lines
from benchlab.diagnosis.answer_json import AnswerJson
from benchlab.imports import draft_answers, readings, texts
from benchlab.imports.models import Draft, DraftFile, DraftPage, DraftPart
from benchlab.imports.unpack import File, Unpacker, clean_name
from benchlab.runs import strips
from benchlab.team.models import Team
from benchlab.team.services import Person
from benchlab.workers import messages

log = logging.getLogger(__name__)

# bytes of a whole request: files of 100 MB, and what a form adds
MAX_REQUEST_BYTES = 105 * 2**20
# settings.DATA_UPLOAD_MAX_MEMORY_SIZE
MAX_PASTED_BYTES = 5 * 2**20
# of each file; the rest of it waits on disk
IN_MEMORY = 256 * 2**10
TOO_LARGE = (
    "That is more than 100 MB in one upload. Pack it (zip, tar.gz, xz), or send it in parts."
)
TOO_LONG = "That is more than 5 MB of pasted text. Save it as a file and choose that."
TOO_MANY = "Those are more than 2,000 files in one upload. Send them in an archive, or in parts."
PART = 1 << 20

TOGETHER = """
UPDATE imports_draftfile SET content = (
    SELECT coalesce(string_agg(content, ''::bytea ORDER BY number), ''::bytea)
    FROM imports_draftpart WHERE file_id = %(pk)s
) WHERE id = %(pk)s
"""
READ = "benchlab.imports.tasks.read_file"
# positions between uploads, for the files in each
POSITION_STEP = 10_000
DRAFT_LIFETIME = timedelta(days=1)
# then whoever claimed a file is taken for dead
CLAIM_TIMEOUT = timedelta(minutes=10)
# so long a message may wait in the queue
QUEUE_TIMEOUT = timedelta(minutes=1)
MAX_TRIES = 3
# nudges per sweep; those that wait in a worker are lost with it
MAX_MESSAGES_PER_SWEEP = 2000
# Bytes of files that are stored by one statement: as digits and copies they take several times that.
MAX_BATCH_BYTES = 256 << 10
FILLED = ("name", "trouble", "packed", "size", "sha256")
UNREAD = Q(reading__isnull=True, trouble="")
# Whether a draft has such files
WAITS = Exists(DraftFile.objects.filter(UNREAD, draft=OuterRef("pk")))


class Spooled(FileUploadHandler):
    """Small files stay in memory, or a thousand of them would need a thousand open files."""

    spool: IO[bytes]

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # the request closes it
        self.spool = cast("IO[bytes]", spool)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.spool.write(raw_data)

    def file_complete(self, file_size: int) -> UploadedFile[Any]:
        self.spool.seek(0)
        return UploadedFile(
            file=self.spool, name=self.file_name, content_type=self.content_type, size=file_size
        )


def is_too_large(request: HttpRequest) -> bool:
    """Before anything of it is read."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return length.isdigit() and int(length) > MAX_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it came, or what was pasted. `size` in bytes."""

    name: str
    stream: IO[bytes]
    size: int


@dataclass(frozen=True, slots=True)
class ReadingProgress:
    """Progress of the reading of a draft."""

    files: int
    read: int
    size: int

    @property
    def is_complete(self) -> bool:
        return self.read == self.files


def pasted_upload(text: str, name: str = "") -> Upload:
    raw = text.encode("utf-8", "surrogatepass")
    return Upload(name or "pasted.txt", BytesIO(raw), len(raw))


def create_draft(*, team: Team, user: Person | None, uploads: Sequence[Upload]) -> Draft:
    """Store the uploads for workers to unpack and read. Raises ValidationError if there are none."""
    if not uploads:
        raise ValidationError("Paste something, or choose at least one file.")
    with transaction.atomic():
        draft = Draft.objects.create(
            team=team, name=_draft_name(uploads), created_by_id=user.pk if user else None
        )
        for number, upload in enumerate(uploads):
            row = DraftFile.objects.create(
                draft=draft,
                position=number * POSITION_STEP,
                name=clean_name(upload.name),
                size=upload.size,
                packed=True,
            )
            store_parts(row, upload.stream)
        queue_reading(draft.files.values_list("pk", flat=True))
    return draft


def _draft_name(uploads: Sequence[Upload]) -> str:
    more = f" and {len(uploads) - 1} more" if len(uploads) > 1 else ""
    return f"{uploads[0].name[:150]}{more}".replace("\0", "")


def reading_progress(draft: Draft) -> ReadingProgress:
    counts = draft.files.aggregate(
        files=Count("pk"), unread=Count("pk", filter=UNREAD), size=Sum("size")
    )
    return ReadingProgress(counts["files"], counts["files"] - counts["unread"], counts["size"] or 0)


def queue_reading(ids: Iterable[int]) -> None:
    """Have files read by workers, once what was written is visible to them."""
    messages.after_commit(READ, ids)


def file_team(pk: int) -> int | None:
    """The team that a file is of; None: it is gone."""
    return DraftFile.objects.filter(pk=pk).values_list("draft__team", flat=True).first()


def read_file(pk: int) -> None:
    """Find the results of a file, unless that is done or another is at it. Safe to call at any time."""
    now = timezone.now()
    free = Q(claimed_at=None) | Q(claimed_at__lt=now - CLAIM_TIMEOUT)
    mine = DraftFile.objects.filter(UNREAD, free, pk=pk)
    if not mine.update(claimed_at=now, tries=F("tries") + 1):
        return
    row = DraftFile.objects.defer("content").get(pk=pk)
    if row.packed and row.tries <= MAX_TRIES and not _unpack(row):
        return
    text = ""
    # it took its worker down each time
    if row.tries > MAX_TRIES:
        row.trouble = "Reading it failed several times: it may need more memory than there is."
    else:
        text = _read_text(row)
    answer = _diagnose_read_draft(row, text)
    with transaction.atomic():
        is_updated = DraftFile.objects.filter(UNREAD, pk=pk).update(
            reading=row.reading, trouble=row.trouble, notes=row.notes, lines=row.lines
        )
        if is_updated and not row.trouble:
            _store_pages(row, text)
        if is_updated and answer is not None:
            Draft.objects.filter(pk=row.draft_id).update(answer=answer)


def _diagnose_read_draft(row: DraftFile, text: str) -> AnswerJson | None:
    """The answer for the whole draft if this is the last file to be read; else None.

    It is stored before the file counts as read, so that a person sees the results together with what they mean.
    """
    DraftFile.objects.filter(pk=row.pk).update(answer=row.answer)
    draft = Draft.objects.filter(pk=row.draft_id).first()
    if draft is None or draft.files.filter(UNREAD).exclude(pk=row.pk).exists():
        return None
    together = draft_answers.files_together(draft)
    texts = [(file, text if file.pk == row.pk else file_text(file)) for file in together]
    return draft_answers.diagnose_draft(draft, texts)


def _store_pages(row: DraftFile, text: str) -> None:
    """Store the pages that a person will look at, so that no request needs to take the file apart."""
    # as nearly all are: no line need be looked at
    plain = text.isascii() and "\0" not in text
    pages = enumerate(numbered_lines.split_pages(text))
    rows = (
        (row.pk, number, orjson.dumps(lines if plain else _storable_rows(lines)).decode())
        for number, lines in pages
    )
    strips.copy_rows(DraftPage, ("file", "number", "rows"), rows)


def _storable_rows(lines: Iterable[numbered_lines.Row]) -> list[numbered_lines.Row]:
    return [(readings.storable_value(line), more) for line, more in lines]


def file_page(row: DraftFile, line: int) -> numbered_lines.LinePage | None:
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
    files = _unpacked_files(draft, row)
    if not _replace_upload(row, next(files, None)):
        return False
    queue_reading(_store_files(draft, row.position, files))
    return not row.trouble


def _replace_upload(row: DraftFile, first: File | None) -> bool:
    """The upload's own row becomes the first file in it; whether there is one."""
    if first is None:
        row.packed, row.trouble = False, "There is no file in it."
        row.save(update_fields=["packed", "trouble"])
        return False
    _fill_row(row, first)
    row.save(update_fields=FILLED)
    store_content(row, first.raw)
    return True


def _store_files(draft: Draft, position: int, files: Iterable[File]) -> list[int]:
    """Rows of the files behind that position: the ids of those to be read. Small ones go in together."""
    rows: list[DraftFile] = []
    fresh: list[int] = []

    def together() -> None:
        DraftFile.objects.bulk_create(rows)
        fresh.extend(row.pk for row in rows if not row.trouble)
        rows.clear()

    for number, file in enumerate(files, 1):
        row = DraftFile(draft=draft, position=position + number)
        _fill_row(row, file)
        if sum(len(pending.content) for pending in rows) + row.size > MAX_BATCH_BYTES:
            together()
        rows.append(row)
        # in parts, see above
        if row.size > MAX_BATCH_BYTES:
            together()
            store_content(row, file.raw)
        else:
            row.content = file.raw
    together()
    return fresh


def _unpacked_files(draft: Draft, row: DraftFile) -> Iterator[File]:
    """Files in an upload; limits hold for all that was uploaded together."""
    others = draft.files.filter(packed=False)
    size = others.aggregate(size=Sum("size"))["size"] or 0
    unpacker = Unpacker(total=size, names=others.values_list("name", flat=True))
    with tempfile.TemporaryFile() as spool:
        for part in read_parts(row):
            spool.write(part)
        yield from unpacker.unpack(row.name, spool, row.size)


def _fill_row(row: DraftFile, file: File) -> None:
    row.name, row.trouble, row.packed = file.name, file.trouble, False
    row.size, row.sha256 = len(file.raw), hashlib.sha256(file.raw).hexdigest()


def _read_text(row: DraftFile) -> str:
    """Read the file and return its text."""
    try:
        decoded = texts.decode_upload(row.name, read_content(row.pk))
    except texts.NotText as error:
        row.trouble = str(error)
        return ""
    row.notes = list(decoded.notes)
    row.lines = decoded.text.count("\n") + 1
    try:
        reading = text_reading.read_text(decoded.text, row.name)
        row.reading = readings.to_json(reading, draft_answers.machine_rows(row, decoded.text))
        row.answer = draft_answers.diagnose_file(row, reading, decoded.text)
    except Exception:
        # whatever a reader does, the other files and the page must go on
        log.exception("reading %s (file %s)", row.name, row.pk)
        row.trouble = "Reading it failed because of a bug in BenchLab; see the worker's log."
    return decoded.text


def file_text(row: DraftFile) -> str:
    """The text whose lines the reading counts. Empty for what is no text."""
    try:
        return texts.decode_upload(row.name, read_content(row.pk)).text
    except texts.NotText:
        return ""


def due_files() -> list[int]:
    """Files that no worker reads: the message was lost, or the worker died."""
    now = timezone.now()
    waiting = Q(claimed_at=None, draft__created_at__lt=now - QUEUE_TIMEOUT) | Q(
        claimed_at__lt=now - CLAIM_TIMEOUT
    )
    rows = DraftFile.objects.filter(UNREAD, waiting).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:MAX_MESSAGES_PER_SWEEP])


def delete_expired() -> None:
    """Delete drafts that nobody agreed to within a day, and the records of those that were stored."""
    old = Q(created_at__lt=timezone.now() - DRAFT_LIFETIME)
    for draft in Draft.objects.filter(old, Q(agreed_at=None) | Q(stored_at__isnull=False)):
        draft.delete()


def store_parts(file: DraftFile, stream: IO[bytes]) -> None:
    """An upload as it came, as parts of its row."""
    stream.seek(0)
    parts = enumerate(iter(partial(stream.read, PART), b""))
    rows = ((file.pk, *part) for part in parts)
    strips.copy_rows(DraftPart, ("file", "number", "content"), rows, ("int8", "int4", "bytea"))


def read_parts(file: DraftFile) -> Iterator[bytes]:
    numbers = list(file.parts.values_list("number", flat=True))
    # one in memory at a time, whatever the driver keeps of a query
    for number in numbers:
        yield bytes(file.parts.values_list("content", flat=True).get(number=number))


def store_content(file: DraftFile, raw: bytes) -> None:
    """Make it the content of the row, in the caller's transaction; the parts are gone."""
    file.parts.all().delete()
    store_parts(file, BytesIO(raw))
    with connection.cursor() as cursor:
        cursor.execute(TOGETHER, {"pk": file.pk})
    file.parts.all().delete()


def read_content(pk: int) -> bytes:
    """The content of a row."""
    whole = BytesIO()
    with connection.cursor() as cursor:
        at = 1
        while True:
            cursor.execute(
                "SELECT substring(content FROM %s FOR %s) FROM imports_draftfile WHERE id = %s",
                [at, PART, pk],
            )
            row = cursor.fetchone()
            if row is None:
                raise DraftFile.DoesNotExist(pk)
            whole.write(row[0])
            if len(row[0]) < PART:
                return whole.getvalue()
            at += PART
