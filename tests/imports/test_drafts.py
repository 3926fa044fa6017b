"""Drafts: read once, whoever asks and however often; forgotten after a day; memory and time as promised."""

from __future__ import annotations

import time
from datetime import timedelta
from io import BytesIO

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from agents.drivers import registry
from benchlab.imports import draft_store, drafts, readings
from benchlab.imports.agreements import Agreement, Refused
from benchlab.imports.models import Draft, DraftFile
from benchlab.imports.tasks import read_file, sweep_drafts
from tests.imports.made import READERS, TEXT

pytestmark = pytest.mark.usefixtures("readers")


def upload(raw: bytes, name: str = "a.txt") -> drafts.Upload:
    return drafts.Upload(name, BytesIO(raw), len(raw))


@pytest.fixture
def large(team, nobody_reads, nudges, django_capture_on_commit_callbacks) -> Draft:
    """Two files for the workers."""
    with django_capture_on_commit_callbacks(execute=True):
        return drafts.create_draft(
            team=team, user=None, uploads=[upload(TEXT.encode()), upload(b"RATE 1\n", "b.txt")]
        )


def test_large_uploads_are_read_by_workers(large, nudges):
    assert nudges == [file.pk for file in large.files.all()]
    assert drafts.reading_progress(large) == drafts.ReadingProgress(2, 0, len(TEXT) + 7)
    for number, pk in enumerate(nudges, 1):
        read_file(pk)
        read_file(pk)  # a message that came twice
        assert drafts.reading_progress(large).read == number
    assert [file.tries for file in large.files.all()] == [1, 1]
    assert len(readings.offered_results(large)) == 5


def test_a_lost_message_is_swept(large, nudges):
    lost = nudges.copy()
    nudges.clear()
    sweep_drafts()
    assert nudges == []  # it may still be in the queue
    Draft.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    sweep_drafts()
    assert nudges == lost


def test_a_file_that_kills_its_worker_is_given_up(large, nudges):
    late = timezone.now() - drafts.CLAIM_TIMEOUT * 2
    for _ in range(drafts.MAX_TRIES):
        DraftFile.objects.filter(pk=nudges[0]).update(claimed_at=late, tries=drafts.MAX_TRIES)
    assert drafts.due_files() == nudges[:1]
    drafts.read_file(nudges[0])
    assert "failed several times" in DraftFile.objects.get(pk=nudges[0]).trouble
    assert drafts.due_files() == []


def test_two_workers_do_not_read_the_same(large, nudges):
    DraftFile.objects.filter(pk=nudges[0]).update(claimed_at=timezone.now(), tries=1)
    drafts.read_file(nudges[0])
    assert DraftFile.objects.get(pk=nudges[0]).reading is None


def test_a_fault_in_a_reader_is_told_of_that_file_only(team, monkeypatch, caplog):
    class Broken:
        LABEL = "Broken"
        KEYWORDS = ("BREAK",)

        @staticmethod
        def find_results(text, name):
            if "BREAK" in text:
                raise RuntimeError("no")
            return []

    monkeypatch.setattr(registry, "all_readers", lambda: {**READERS, "broken": Broken})
    draft = drafts.create_draft(
        team=team, user=None, uploads=[upload(b"BREAK"), upload(b"RATE 1", "b")]
    )
    first, second = draft.files.all()
    assert "bug in BenchLab" in first.trouble and not second.trouble
    assert len(second.reading["found"]) == 1


def test_drafts_are_forgotten_after_a_day(team):
    old, new = (
        drafts.create_draft(team=team, user=None, uploads=[upload(b"RATE 1")]) for _ in "12"
    )
    Draft.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(hours=25))
    drafts.delete_expired()
    assert [draft.pk for draft in Draft.objects.all()] == [new.pk]


def test_files_without_results_and_without_text(team):
    draft = drafts.create_draft(
        team=team, user=None,
        uploads=[upload(b""), upload(b"a\0b", "b"), upload(b"just prose\n", "c"), upload(b"\x1f\x8bjunk", "d.gz")],
    )  # fmt: skip
    files = list(draft.files.all())
    assert [bool(file.trouble) for file in files] == [True, True, False, True]
    assert files[2].reading["unread"] == [{"first": 1, "last": 1, "text": "just prose"}]
    with pytest.raises(Refused, match="at least one"):
        draft_store.agree(draft, Agreement([], "x"), user=None)


def test_nothing_at_all(team):
    with pytest.raises(ValidationError, match="Paste"):
        drafts.create_draft(team=team, user=None, uploads=[])


@pytest.mark.one_in(3)
@pytest.mark.slow
def test_a_hundred_megabytes_of_text(
    team, nobody_reads, nudges, django_capture_on_commit_callbacks
):
    line = b"some line of a log that nobody knows, of about a hundred characters: 0123456789 0123456789 012345\n"
    started = time.process_time()
    with django_capture_on_commit_callbacks(execute=True):
        draft = drafts.create_draft(
            team=team, user=None, uploads=[upload(line * 1_000_000 + b"RATE 7\n", "big.log")]
        )
    drafts.read_file(nudges[0])
    assert time.process_time() - started < 60
    (one,) = readings.offered_results(draft)
    assert one.parsed.metrics[0].line == 1_000_001
