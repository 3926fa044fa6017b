"""The cost of an upload: a web request keeps it and looks at nothing; a worker holds one file of it at a time."""

from __future__ import annotations

import hashlib
import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchlab.imports import drafts, texts
from benchlab.imports.models import Draft, DraftPart
from benchlab.imports.unpack import Limits, Unpacker

MEMBERS, EACH = 3, 8_000_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def packed() -> bytes:
    """24 MB of lines in some 0.2 MB: as logs are packed, and as far as `Limits.ratio` lets them."""
    lines = [os.urandom(400).hex().encode() + b"\n" for _ in range(EACH // 801 // 160 + 1)]
    text = b"".join(line * 160 for line in lines)[:EACH]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number in range(MEMBERS):
            archive.writestr(f"{number}.log", text)
    assert len(out.getvalue()) > MEMBERS * EACH / Limits().ratio
    return out.getvalue()


def peak(work: Callable[[], Any]) -> int:
    """Bytes that Python held more than before, at the worst moment."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def looked(monkeypatch) -> list[str]:
    """Names of what was unpacked or read."""
    seen: list[str] = []
    unpack, read = Unpacker.unpack, texts.decode_upload

    def unpacking(unpacker, name, stream, size):
        seen.append(name)
        return unpack(unpacker, name, stream, size)

    def reading(name, raw):
        seen.append(name)
        return read(name, raw)

    monkeypatch.setattr(Unpacker, "unpack", unpacking)
    monkeypatch.setattr(texts, "decode_upload", reading)
    return seen


@pytest.mark.parametrize("ending", ["zip", "log"])
def test_a_request_keeps_an_upload_and_looks_at_nothing(
    web, nobody_reads, nudges, looked, packed, ending
):
    raw = packed if ending == "zip" else b"RATE 1\n" * (4 * MIB)
    web.post("/import/", {"text": "what a first request loads is not its own"})
    Draft.objects.all().delete()
    sent = SimpleUploadedFile(f"a.{ending}", raw)
    used = peak(lambda: web.post("/import/", {"files": [sent]}))
    draft = Draft.objects.get()
    assert web.get(f"/import/{draft.pk}/").status_code == 200
    assert looked == []
    # The test's client builds the request itself, twice the upload; beyond that it is a part or two.
    assert used < 2.5 * len(raw) + 16 * MIB
    row = draft.files.get()
    assert row.packed and row.size == len(raw) and not row.content
    assert b"".join(drafts.read_parts(row)) == raw


def test_a_worker_holds_one_member_at_a_time(team, nobody_reads, nudges, packed):
    upload = drafts.Upload("a.zip", io.BytesIO(packed), len(packed))
    draft = drafts.create_draft(team=team, user=None, uploads=[upload])
    row = draft.files.get()
    used = peak(lambda: drafts._unpack(row))
    names = [f"a.zip/{number}.log" for number in range(MEMBERS)]
    assert list(draft.files.values_list("name", "size", "packed", "trouble")) == [
        (name, EACH, False, "") for name in names
    ]
    assert used < 2.2 * EACH + 8 * MIB  # whole, grown step by step; its parts beside it
    assert not DraftPart.objects.exists()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert drafts.read_content(draft.files.all()[2].pk) == archive.read("2.log")


def test_small_members_go_in_together_and_large_ones_by_themselves(
    team, nobody_reads, nudges, django_capture_on_commit_callbacks
):
    members = {f"{number}.log": b"%d\n" % number * 1000 for number in range(9)}
    members["4.log"] = b"x" * (drafts.MAX_BATCH_BYTES + 1)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    upload = drafts.Upload("a.zip", io.BytesIO(out.getvalue()), len(out.getvalue()))
    draft = drafts.create_draft(team=team, user=None, uploads=[upload])
    with (
        CaptureQueriesContext(connection) as asked,
        django_capture_on_commit_callbacks(execute=True),
    ):
        drafts._unpack(draft.files.get())
    made = [one for one in asked if str(one["sql"]).startswith('INSERT INTO "imports_draftfile"')]
    assert len(made) == 3  # what stood before the large one, that one, and what stood behind it
    rows = list(draft.files.order_by("position"))
    assert [(row.name.removeprefix("a.zip/"), row.position) for row in rows] == [
        (name, number) for number, name in enumerate(members)
    ]
    assert [bytes(row.content) for row in rows] == list(members.values())
    assert [(row.size, row.sha256) for row in rows] == [
        (len(raw), hashlib.sha256(raw).hexdigest()) for raw in members.values()
    ]
    assert nudges == [row.pk for row in rows[1:]] and not DraftPart.objects.exists()


def test_limits_hold_over_all_uploads_of_a_draft(team, monkeypatch):
    small = Limits(total=150)
    monkeypatch.setattr("benchlab.imports.unpack.Limits", lambda: small)
    uploads = [drafts.Upload("a.txt", io.BytesIO(b"x" * 60), 60) for _ in range(5)]
    draft = drafts.create_draft(team=team, user=None, uploads=uploads)
    files = list(draft.files.all())
    assert [file.name for file in files][:2] == ["a.txt", "a (2).txt"]
    assert [bool(file.trouble) for file in files] == [False, False, True, True, True]
    assert "together" in files[2].trouble


def test_an_archive_without_a_file_says_so(team):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w"):
        pass
    upload = drafts.Upload("a.zip", io.BytesIO(out.getvalue()), len(out.getvalue()))
    draft = drafts.create_draft(team=team, user=None, uploads=[upload])
    assert [file.trouble for file in draft.files.all()] == ["There is no file in it."]
    assert drafts.reading_progress(draft).is_complete


def test_a_draft_discarded_before_it_is_unpacked_is_gone(team, nobody_reads, nudges):
    draft = drafts.create_draft(team=team, user=None, uploads=[drafts.pasted_upload("RATE 1\n")])
    pk = draft.files.get().pk
    draft.delete()
    drafts.read_file(pk)
    assert not Draft.objects.exists() and not DraftPart.objects.exists()
