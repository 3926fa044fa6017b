"""The page /diagnose/: answers for texts, also for guests where the lab lets them. Nothing is stored or held up."""

from __future__ import annotations

import json
import resource
import time

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchlab.campaigns.models import Campaign
from benchlab.imports import diagnose_text
from benchlab.imports.models import Draft
from tests.diagnosis.made import FIO, four_diagnoses  # noqa: F401

PAGE = "/diagnose/"


@pytest.fixture
def open_lab(settings):
    settings.BENCHLAB_OPEN_DIAGNOSIS = True


@pytest.fixture
def here(monkeypatch):
    """Diagnose in this process, where the rules of tests are."""

    def diagnose(name: str, raw: bytes):
        return diagnose_text.diagnose_bytes(name, raw)

    monkeypatch.setattr(diagnose_text, "diagnose_confined", diagnose)


@pytest.fixture
def few(monkeypatch, settings):
    """Two texts in a minute, counted."""
    counts: dict[str, int] = {}

    def count(key: str) -> int:
        counts[key] = counts.get(key, 0) + 1
        return counts[key]

    monkeypatch.setattr("benchlab.web.throttling.count_call", count)
    settings.BENCHLAB_API_RATES = settings.BENCHLAB_API_RATES | {"diagnosis": 2}


def test_a_lab_is_closed_to_guests_by_default(db):
    for answer in (Client().get(PAGE), Client().post(PAGE, {"text": FIO})):
        assert answer.status_code == 401 and b"/login/?next=/diagnose/" in answer.content


def test_a_guest_gets_an_answer_and_nothing_is_stored(db, open_lab, here, four_diagnoses):  # noqa: F811
    guest = Client(enforce_csrf_checks=True)
    page = guest.get(PAGE)
    token = guest.cookies[next(name for name in guest.cookies if "csrf" in name)].value
    answer = guest.post(PAGE, {"text": FIO, "csrfmiddlewaretoken": token})
    text = answer.content.decode()
    assert "3 likely causes found in 1 result." in text and "&lt;b&gt;psync" in text
    assert "read: IOPS=12.1k" in text and text.count("<article") == 4
    for hidden in ("Save as import", "Set up a campaign", "/import/"):
        assert hidden not in text
    assert [name for name in guest.cookies if "csrf" not in name] == []
    assert not Draft.objects.exists() and not Campaign.objects.exists()
    for response in (page, answer):
        assert "script-src 'self'" in response["Content-Security-Policy"]
        assert response["X-Frame-Options"] == "DENY"


def test_a_guest_s_post_needs_the_csrf_token(db, open_lab):
    assert Client(enforce_csrf_checks=True).post(PAGE, {"text": FIO}).status_code == 403


def test_htmx_gets_the_answer_alone(htmx, here, four_diagnoses):  # noqa: F811
    text = htmx.post(PAGE, {"text": FIO}).content.decode().strip()
    assert text.startswith('<div id="diagnose-answer"') and "<html" not in text
    assert "3 likely causes" in text


def test_a_file_is_diagnosed_and_may_be_saved(web, here, four_diagnoses):  # noqa: F811
    upload = SimpleUploadedFile("fio.txt", FIO.encode())
    text = web.post(PAGE, {"text": "", "files": upload}).content.decode()
    assert "3 likely causes" in text and 'formaction="/import/"' in text


def test_guests_of_one_address_share_a_limit(db, open_lab, here, few):
    answers = [Client().post(PAGE, {"text": FIO}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert b"You sent too many texts" in answers[2].content and answers[2]["Retry-After"] == "60"
    elsewhere = Client(REMOTE_ADDR="192.0.2.7").post(PAGE, {"text": FIO})
    assert elsewhere.status_code == 200


def test_the_confined_process_answers_as_this_one_does():
    assert diagnose_text.diagnose_confined("a.txt", FIO.encode()) == json.loads(
        json.dumps(diagnose_text.diagnose_bytes("a.txt", FIO.encode()))
    )


def test_a_hostile_text_holds_nothing_up(web, monkeypatch):
    """The process is ended when its CPU time is over."""
    monkeypatch.setattr(diagnose_text, "CPU_SECONDS", 1)
    monkeypatch.setattr(diagnose_text, "MODULE", "tests.imports.endless_reading")
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    answer = web.post(PAGE, {"text": FIO})
    assert b"takes more than" in answer.content
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert 0.5 < used < 3 and time.monotonic() - begun < 30


def test_too_much_is_refused(web):
    large = "x" * (diagnose_text.MAX_BYTES + 1)
    assert b"at most 1 MB" in web.post(PAGE, {"text": large}).content
    assert web.post(PAGE, {"text": large * 2}).status_code == 413


def test_a_file_that_is_not_text_is_refused_in_a_sentence(web):
    upload = SimpleUploadedFile("picture.png", b"\x89PNG\0\0")
    assert b"This cannot be read: it is binary" in web.post(PAGE, {"files": upload}).content


def test_others_do_not_wait_for_ever(web, monkeypatch):
    monkeypatch.setattr(diagnose_text, "WAIT_SECONDS", 0.01)
    held = [diagnose_text._slots.acquire(blocking=False) for _ in range(2)]
    try:
        answer = web.post(PAGE, {"text": FIO})
        assert answer.status_code == 503 and answer["Retry-After"]
    finally:
        for _ in filter(None, held):
            diagnose_text._slots.release()
