"""The import by API: as the pages, with the same checks."""

from __future__ import annotations

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from benchlab.campaigns.models import Campaign
from benchlab.imports import drafts
from benchlab.imports.models import Draft
from benchlab.team.models import Membership, Team
from tests.api.conftest import client_of
from tests.charts import made as charted
from tests.imports.made import TEXT

NOUNS = [
    "campaigns", "runs", "hosts", "topologies", "workloads", "layouts", "attempts", "artifacts", "measurements",
]  # fmt: skip
pytestmark = pytest.mark.usefixtures("readers", "nudges")


@pytest.fixture
def api(user) -> APIClient:
    return client_of(user)


def handed_in(api, text=TEXT) -> dict:
    answer = api.post("/api/imports/", {"text": text, "name": "a.txt"})
    assert answer.status_code == 201, answer.content
    return answer.json()


def agreed(draft, **more) -> dict:
    file = draft["files"][0]["id"]
    plain = {"file": file, "new_host": "h", "new_topology": "t"}
    results = [{**plain, "first": 2}, {**plain, "first": 3},
               {"file": file, "first": 6, "beside": {"file": file, "first": 3}}]  # fmt: skip
    return {"campaign": "old", "results": results, **more}


def test_it_is_handed_in_for_the_team_that_is_asked_for(api, user, other_user):
    second, theirs = Team.objects.create(name="Second"), other_user.teams.get()
    Membership.objects.create(team=second, user=user)
    for team, status in ((second, 201), (theirs, 403)):
        files = {"files": SimpleUploadedFile("a.txt", TEXT.encode()), "team": team.pk}
        for body, kind in (({"text": TEXT, "team": team.pk}, "json"), (files, "multipart")):
            assert api.post("/api/imports/", body, format=kind).status_code == status
    assert [draft.team for draft in Draft.objects.all()] == [second, second]
    said = api.get("/api/imports/", {"team": second.pk}).json()["results"]
    assert [row["team"] for row in said] == [second.pk, second.pk]


def test_a_draft_says_what_was_found(api):
    draft = handed_in(api)
    (file,) = draft["files"]
    assert [(f["kind"], f["first"], f["outstanding"]) for f in file["found"]] == [
        ("rates", 2, 4), ("rates", 3, 8), ("watch", 6, None), ("rates", 7, None),
    ]  # fmt: skip
    assert file["found"][0]["metrics"] == [
        {"name": "iops", "value": 12.0, "unit": "op/s", "labels": {}, "note": "", "line": 2}
    ]
    assert "no rate" in file["found"][3]["trouble"]
    assert [part["first"] for part in file["unread"]] == [1, 5]
    assert api.get(f"/api/imports/{draft['id']}/").json() == draft
    assert not Campaign.objects.exists()


def test_agreeing_makes_a_campaign(api):
    draft = handed_in(api)
    answer = api.post(
        f"/api/imports/{draft['id']}/agree/", agreed(draft, origin={"url": "https://example.org/"})
    )
    assert answer.status_code == 202, answer.content
    told = api.get(answer["Location"]).json()
    assert told == {
        "id": draft["id"], "state": "stored", "wanted": 2, "stored": 2, "campaign": told["campaign"],
        "workloads": [], "failed": [], "trouble": "",
    }  # fmt: skip
    campaign = api.get(f"/api/campaigns/{told['campaign']}/").json()
    assert (campaign["source"], campaign["origin"]) == ("imported", {"url": "https://example.org/"})
    rows = api.get(f"/api/measurements/?campaign={campaign['id']}&ordering=id").json()["results"]
    assert [(row["value"], row["outstanding"]) for row in rows] == [(12.0, 4), (13.0, 8)]
    assert api.get(f"/api/imports/{draft['id']}/").json()["files"] == []
    (source,) = api.get(f"/api/sources/?campaign={campaign['id']}").json()["results"]
    assert api.get(f"/api/sources/{source['id']}/content/").content.decode() == TEXT
    assert handed_in(api)["files"][0]["imported"] == campaign["id"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"first": 1}, "results.0.first"), ({"first": 7}, "results.0.take"), ({"new_host": ""}, "results.0.host"),
        ({"outstanding": 5}, "results.0.outstanding"), ({"beside": {"file": 1, "first": 3}}, "results.0.beside"),
        ({"first": 3}, "results.1.first"), ({"host": 10**9}, "results.0.host"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(api, change, field):
    draft = handed_in(api)
    sent = agreed(draft)
    sent["results"][0] |= change
    answer = api.post(f"/api/imports/{draft['id']}/agree/", sent)
    assert answer.status_code == 400 and field in answer.json()["errors"], answer.content
    assert Draft.objects.exists() and not Campaign.objects.exists()


def test_files_and_archives(api):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../b.txt", "RATE 2\n")
    files = [SimpleUploadedFile("a.txt", b"RATE 1\n"), SimpleUploadedFile("z.zip", out.getvalue())]
    answer = api.post("/api/imports/", {"files": files}, format="multipart")
    assert [file["name"] for file in answer.json()["files"]] == ["a.txt", "z.zip/b.txt"]
    assert [len(file["found"]) for file in answer.json()["files"]] == [1, 1]


def test_refusals(api, monkeypatch):
    assert api.post("/api/imports/", {"text": ""}).status_code == 400
    assert api.post("/api/imports/", {}, format="multipart").status_code == 400
    binary = api.post("/api/imports/", {"text": "a\x01\x02\x03"}).json()["files"][0]
    assert "binary" in binary["trouble"] and binary["found"] == []
    monkeypatch.setattr(drafts, "MAX_REQUEST_BYTES", 10)
    answer = api.post("/api/imports/", {"text": TEXT})
    assert answer.status_code == 413 and "100 MB" in answer.json()["detail"]


def test_not_before_all_is_read(api, nobody_reads, nudges):
    draft = handed_in(api)
    assert draft["read"] == 0
    assert api.post(f"/api/imports/{draft['id']}/agree/", agreed(draft)).status_code == 409


def test_discarding(api, other_user):
    draft = handed_in(api)
    assert client_of(other_user).delete(f"/api/imports/{draft['id']}/").status_code in (403, 404)
    assert api.delete(f"/api/imports/{draft['id']}/").status_code == 204
    assert not Draft.objects.exists()


def test_the_library_is_read_by_all_and_listed_when_asked_for(api, team, user):
    library = Team.objects.create(name="Reference library", library=True)
    campaign = charted.campaign(library)
    host, topology = charted.host(library), charted.topology(library, "raw")
    charted.swept(campaign, host, topology, charted.workload(library), depths=(1,), repeats=1)
    Campaign.objects.filter(pk=campaign.pk).update(source="library")
    for noun in NOUNS:
        assert api.get(f"/api/{noun}/").json()["count"] == 0, noun
        rows = api.get(f"/api/{noun}/?library=true").json()["results"]
        assert rows and api.get(f"/api/{noun}/{rows[0]['id']}/").status_code == 200, noun
    assert api.get("/api/campaigns/?library=yes").status_code == 400
    for act in ("cancel", "plan", "pause"):
        assert api.post(f"/api/campaigns/{campaign.pk}/{act}/").status_code == 404


def test_a_list_of_drafts_costs_the_same_for_any_number(api, monkeypatch):
    costs = []
    for number in (2, 5):
        while Draft.objects.count() < number:
            handed_in(api)
        with CaptureQueriesContext(connection) as asked:
            rows = api.get("/api/imports/").json()["results"]
        assert [row["state"] for row in rows] == ["read"] * number
        costs.append(len(asked))
    assert costs[0] == costs[1]
    monkeypatch.setattr("benchlab.imports.drafts.queue_reading", lambda ids: None)
    handed_in(api)
    assert api.get("/api/imports/").json()["results"][0]["state"] == "reading"
