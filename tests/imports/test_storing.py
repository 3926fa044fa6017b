"""Workers store: all of it or nothing, once, whatever dies; what cannot be is named."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contracts import Histogram
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts.queries import read_groups
from benchlab.hosts.models import Host
from benchlab.imports import draft_store, drafts, readings, services
from benchlab.imports.agreements import Agreement, Refused, ResultChoice
from benchlab.imports.draft_store import State
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.imports.tasks import store_draft, sweep_drafts
from benchlab.runs import artifact_figures
from benchlab.runs.models import Attempt, Measurement
from tests.api.conftest import client_of

FILES = 4
NEW = {"new_host": "h", "new_topology": "t"}


def handed_in(team, files: int = FILES) -> Draft:
    raw = [f"RATE {10 + number}\n".encode() for number in range(1, files + 1)]
    uploads = [drafts.Upload(f"{n}.txt", BytesIO(one), len(one)) for n, one in enumerate(raw, 1)]
    return drafts.create_draft(team=team, user=None, uploads=uploads)


def everything(draft: Draft, **more) -> Agreement:
    told = {**NEW, **more}
    return Agreement(
        [ResultChoice(one.result_key, **told) for one in readings.offered_results(draft)],
        "many",
    )


@pytest.fixture
def agreed(team, user, readers, nobody_stores, nudges, django_capture_on_commit_callbacks) -> Draft:
    draft = handed_in(team)
    with django_capture_on_commit_callbacks(execute=True):
        draft_store.agree(draft, everything(draft), user=user)
    assert nudges == [draft.pk]
    draft.refresh_from_db()
    return draft


def test_a_worker_stores_it_once(agreed, user):
    assert draft_store.draft_state(agreed) is State.STORING
    assert not Campaign.objects.exists() and not Host.objects.exists()
    store_draft(agreed.pk)
    store_draft(agreed.pk)  # a message that came twice
    campaign = Campaign.objects.get()
    assert campaign.created_by == user
    assert Measurement.objects.filter(attempt__run__campaign=campaign).count() == FILES
    assert [bytes(row.content) for row in Source.objects.order_by("name")] == [
        f"RATE {10 + n}\n".encode() for n in range(1, FILES + 1)
    ]
    agreed.refresh_from_db()
    assert draft_store.draft_state(agreed) is State.STORED and not agreed.files.exists()
    assert agreed.outcome == {
        "campaign": campaign.pk,
        "stored": FILES,
        "workloads": [],
        "failed": [],
    }


def test_no_request_reads_a_file_again(team, user, readers, nobody_stores, nudges, monkeypatch):
    draft = handed_in(team, 1)

    def parsed(*args):
        raise AssertionError("a request took the file apart")

    for one in ("texts.decode_upload", "read_content"):
        monkeypatch.setattr(f"benchlab.imports.drafts.{one}", parsed)
    draft_store.agree(draft, everything(draft), user=user)
    draft.refresh_from_db()
    assert draft_store.draft_state(draft) is State.STORING and not Campaign.objects.exists()


def test_nobody_agrees_twice(agreed, user):
    with pytest.raises(Refused, match="in the meantime"):
        draft_store.agree(agreed, everything(agreed), user=user)


def test_a_lost_message_is_swept(agreed, nudges):
    sent = nudges
    sent.clear()
    sweep_drafts()
    assert sent == []  # it may still be in the queue
    Draft.objects.update(agreed_at=timezone.now() - timedelta(minutes=2))
    sweep_drafts()
    assert sent == [agreed.pk]
    store_draft(agreed.pk)
    sweep_drafts()
    assert sent == [agreed.pk]


def test_what_cannot_be_stored_is_named_and_the_rest_is_stored(agreed, monkeypatch, caplog):
    plain = services._build_attempt

    def attempt(run, layout, result):
        made = plain(run, layout, result)
        if result.piece.name == "2.txt":
            raise RuntimeError("a fault")
        if result.piece.name == "3.txt":
            raise ValidationError("3.lines-1-1.txt: two results, not one")
        return made

    monkeypatch.setattr(services, "_build_attempt", attempt)
    store_draft(agreed.pk)
    agreed.refresh_from_db()
    failed = agreed.outcome["failed"]
    assert [(one["file"], one["first"]) for one in failed] == [("2.txt", 1), ("3.txt", 1)]
    assert "bug in BenchLab" in failed[0]["says"] and "two results" in failed[1]["says"]
    assert agreed.outcome["stored"] == 2
    assert Run.objects.count() == Attempt.objects.count() == 2
    assert Source.objects.count() == FILES  # nothing is lost: their texts are there


def test_what_the_database_refuses_costs_those_stored_with_it_nothing(agreed, monkeypatch, caplog):
    plain = services._build_attempt

    def attempt(run, layout, result):
        made, files, figures = plain(run, layout, result)
        if result.piece.name == "2.txt":
            made.tool_version = "v" * 300
        return made, files, figures

    monkeypatch.setattr(services, "_build_attempt", attempt)
    store_draft(agreed.pk)
    agreed.refresh_from_db()
    (failed,) = agreed.outcome["failed"]
    assert failed["file"] == "2.txt" and "bug in BenchLab" in failed["says"]
    assert agreed.outcome["stored"] == FILES - 1
    rows = Attempt.objects.order_by("run__position")
    assert [row.artifacts.get().name.split(".")[0] for row in rows] == ["1", "3", "4"]
    assert [row.measurements.count() for row in rows] == [1, 1, 1]
    assert Run.objects.count() == FILES - 1 and Source.objects.count() == FILES


def test_small_results_are_stored_together_and_no_file_is_read_to_be_deleted(agreed):
    with CaptureQueriesContext(connection) as asked:
        store_draft(agreed.pk)
    said = [str(one["sql"]) for one in asked]
    for table in ("runs_attempt", "runs_artifact", "imports_source"):
        (_,) = [sql for sql in said if re.match(rf'\s*INSERT INTO "?{table}"?', sql)]
    assert not [sql for sql in said if '"imports_draftfile"."content"' in sql]
    assert Attempt.objects.count() == FILES and not DraftFile.objects.exists()


def test_nothing_that_can_be_stored_is_said_and_changes_nothing(agreed, monkeypatch):
    def attempt(run, layout, result):
        raise ValidationError(f"no {result.piece.name}")

    monkeypatch.setattr(services, "_build_attempt", attempt)
    store_draft(agreed.pk)
    agreed.refresh_from_db()
    assert draft_store.draft_state(agreed) is State.READ and "no 1.txt" in agreed.trouble
    assert not Campaign.objects.exists() and not Host.objects.exists()
    assert agreed.files.count() == FILES


def test_a_host_that_went_meanwhile_is_said(team, user, readers, nobody_stores, nudges):
    host = Host.objects.create(team=team, name="gone", access=Host.Access.DESCRIBED)
    draft = handed_in(team)
    draft_store.agree(draft, everything(draft, host=host, new_host=""), user=user)
    host.delete()
    store_draft(draft.pk)
    draft.refresh_from_db()
    assert "Choose a host" in draft.trouble and draft_store.draft_state(draft) is State.READ


def test_what_kills_its_worker_is_given_up(agreed):
    Draft.objects.update(tries=drafts.MAX_TRIES)
    store_draft(agreed.pk)
    agreed.refresh_from_db()
    assert "several times" in agreed.trouble and draft_store.draft_state(agreed) is State.READ


def test_it_is_not_forgotten_before_it_is_stored(agreed):
    Draft.objects.update(created_at=timezone.now() - timedelta(days=2))
    drafts.delete_expired()
    store_draft(agreed.pk)
    assert Campaign.objects.exists()
    drafts.delete_expired()
    assert not Draft.objects.exists()


def test_pages_show_how_far_it_is(agreed, web, htmx, monkeypatch):
    monkeypatch.setattr("benchlab.imports.draft_store.get_progress", lambda pk: 3)
    address = f"/import/{agreed.pk}/"
    assert f"Storing: 3 of {FILES} results" in web.get(address).content.decode()
    part = htmx.get(address).content.decode()
    assert part.strip().startswith('<div id="import-progress"') and f"3 of {FILES}" in part
    assert web.post(f"{address}discard/").url == address  # not now
    assert "being stored" in web.get("/import/").content.decode()
    store_draft(agreed.pk)
    assert htmx.get(address)["HX-Refresh"] == "true"
    assert web.get(address).url == f"/campaigns/{Campaign.objects.get().pk}/"


def test_the_page_names_what_failed(agreed, web):
    Draft.objects.filter(pk=agreed.pk).update(
        stored_at=timezone.now(),
        outcome={"campaign": None, "stored": 1, "workloads": [],
                 "failed": [{"file": "<b>.txt", "first": 7, "says": "so"}]},
    )  # fmt: skip
    shown = web.get(f"/import/{agreed.pk}/").content.decode()
    assert "1 could not be stored" in shown and "&lt;b&gt;.txt" in shown


def test_the_api_says_where_to_look(team, user, readers, nobody_stores, nudges):
    api = client_of(user)
    draft = handed_in(team)
    results = [{"file": file.pk, "first": 1, **NEW} for file in draft.files.all()]
    sent = {"campaign": "many", "results": results}
    answer = api.post(f"/api/imports/{draft.pk}/agree/", sent)
    assert answer.status_code == 202, answer.content
    assert (answer.json()["state"], answer.json()["wanted"]) == ("storing", FILES)
    where = answer["Location"]
    assert where.endswith(f"/api/imports/{draft.pk}/status/")
    assert api.get(where).json() == answer.json()
    assert api.post(f"/api/imports/{draft.pk}/agree/", sent).status_code == 409
    assert api.delete(f"/api/imports/{draft.pk}/").status_code == 409
    store_draft(draft.pk)
    told = api.get(where).json()
    assert (told["state"], told["stored"]) == ("stored", FILES)
    assert told["campaign"] == Campaign.objects.get().pk
    assert api.get(f"/api/imports/{draft.pk}/").json()["state"] == "stored"


# A worker of its own, on the tests' database, that stops in the middle until it is killed.
WORKER = """
import sys, time, django
django.setup()
from benchlab.imports import draft_store, services
plain, done = services._build_attempt, []
services.MAX_BATCH_RESULTS = 2
def slow(*args):
    made = plain(*args)
    print("one", flush=True)
    done.append(1)
    if len(done) == 5:
        time.sleep(60)
    return made
services._build_attempt = slow
draft_store.store_draft(int(sys.argv[1]))
"""
TEXT = """$ dd if=/dev/zero of=/data/img bs=1M count={n}
{n}+0 records in
{n}+0 records out
{b} bytes (1 MB) copied, 1.00000 s, {rate:.1f} MB/s
"""


@pytest.mark.django_db(transaction=True)
def test_a_killed_worker_leaves_nothing_and_the_next_one_stores_all(
    team, user, nobody_stores, nudges
):
    raw = [TEXT.format(n=n, b=n << 20, rate=(n << 20) / 1e6).encode() for n in range(1, 21)]
    uploads = [drafts.Upload(f"{n}.txt", BytesIO(one), len(one)) for n, one in enumerate(raw)]
    draft = drafts.create_draft(team=team, user=None, uploads=uploads)
    draft_store.agree(draft, everything(draft), user=user)
    here = urlsplit(os.environ["DATABASE_URL"])
    address = urlunsplit(here._replace(path=f"/{connection.settings_dict['NAME']}"))
    environment = {**os.environ, "DATABASE_URL": address}
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(draft.pk)], stdout=subprocess.PIPE, env=environment
    )
    assert worker.stdout is not None
    for _ in range(5):
        assert worker.stdout.readline() == b"one\n"
    draft_store.store_draft(draft.pk)  # another is at it: nothing happens
    with transaction.atomic():
        assert draft_store._locked_draft(draft.pk) is None
    assert not Campaign.objects.exists() and not Attempt.objects.exists()
    worker.kill()
    worker.wait()
    worker.stdout.close()
    for _ in range(50):  # until PostgreSQL saw that it is gone
        draft_store.store_draft(draft.pk)
        draft.refresh_from_db()
        if draft.stored_at:
            break
        time.sleep(0.1)
    assert Campaign.objects.count() == 1
    assert Attempt.objects.count() == Source.objects.count() == len(raw)
    lines = read_groups(user, [Campaign.objects.get().pk])
    assert len(lines) == len(raw)


def test_what_is_stored_together_is_each_attempts_own(agreed):
    store_draft(agreed.pk)
    rows = Attempt.objects.order_by("run__position").prefetch_related("measurements", "artifacts")
    read = [artifact_figures.read_figures(row) for row in rows]
    for row, figures in zip(rows, read, strict=True):
        assert [one.value for one in row.measurements.all()] == [m.value for m in figures.metrics]
        (artifact,) = row.artifacts.all()
        assert artifact.sha256 == hashlib.sha256(artifact.read()).hexdigest()
    assert len({one.metrics[0].value for one in read}) == FILES


def test_histograms_stored_together_are_each_attempts_own(agreed, monkeypatch):
    plain = services._build_attempt

    def attempt(run, layout, result):
        made, files, figures = plain(run, layout, result)
        bins = Histogram("clat", (0.0,), (1.0,), (run.position + 1,))
        return made, files, replace(figures, histograms=[bins])

    monkeypatch.setattr(services, "_build_attempt", attempt)
    store_draft(agreed.pk)
    rows = Attempt.objects.order_by("run__position")
    assert [row.histograms.get().counts for row in rows] == [[n + 1] for n in range(FILES)]
