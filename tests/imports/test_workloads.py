"""An IOmeter configuration file (.icf) on the import: shown with its lines, and stored as workloads when agreed to."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Host
from benchlab.imports.models import Draft
from tests.api.conftest import client_of
from tests.imports.test_storing import TEXT

CASES = Path(__file__).parents[1] / "cases" / "readers" / "icf"
BOTH = (CASES / "in_a_log.txt").read_text()  # its two specifications begin in lines 35 and 39
DD = TEXT.format(n=1, b=1 << 20, rate=1.048576)
NAMES = ["8 KiB; 50% Read; 50% random", "mixed"]


def handed_in(web, text=BOTH) -> Draft:
    web.post("/import/", {"files": [SimpleUploadedFile("a.icf", text.encode())]})
    return Draft.objects.latest("pk")


def test_the_specifications_are_shown_with_their_lines(web):
    draft = handed_in(web)
    file = draft.files.get()
    shown = web.get(f"/import/{draft.pk}/").content.decode()
    for name, first, last in zip(NAMES, (35, 39), (38, 43), strict=True):
        assert f": {name}" in shown
        assert f"/import/{draft.pk}/files/{file.pk}/?line={first}#L{first}" in shown
        assert f">{first}–{last}</a>" in shown
    assert "<dd>1, 2, 4, 8, 16</dd>" in shown and "4096,50,100,100,0,1,4096,0" in shown
    assert "stored as a <strong>workload</strong>" in shown
    assert "new_host" not in shown and not Workload.objects.exists()


def test_agreeing_makes_workloads_and_no_campaign(web, user, team):
    draft = handed_in(web)
    file = draft.files.get()
    answer = web.post(
        f"/import/{draft.pk}/",
        {f"r{file.pk}-35-take": "on", f"r{file.pk}-35-workload": "article 002", f"r{file.pk}-39-take": "on"},
    )  # fmt: skip
    shown = web.get(answer.url).content.decode()
    assert 'href="/workloads/"' in shown and "2 of them as" in shown
    assert not Campaign.objects.exists()
    first, second = Workload.objects.order_by("pk")
    assert (first.name, first.tool, first.created_by, first.team) == (
        "article 002", "dynamo", user, team,
    )  # fmt: skip
    assert first.sweep == {"outstanding_ios": [1, 2, 4, 8, 16]} and not first.imported
    assert first.options["block_size"] == 8192
    assert second.name == "mixed" and len(second.options["access"]) == 2
    assert "article 002" in web.get("/campaigns/new/").content.decode()  # it can be run


def test_only_what_is_chosen(web):
    draft = handed_in(web)
    file = draft.files.get()
    web.post(f"/import/{draft.pk}/", {f"r{file.pk}-39-take": "on"})
    assert [row.name for row in Workload.objects.all()] == ["mixed"]


def test_a_name_that_is_taken_is_said(web):
    for _ in range(2):
        draft = handed_in(web)
        file = draft.files.get()
        answer = web.post(f"/import/{draft.pk}/", {f"r{file.pk}-39-take": "on"})
    assert "There is a workload called mixed already" in answer.content.decode()
    assert Workload.objects.count() == 1


def test_results_and_workloads_of_one_text(web):
    draft = handed_in(web, DD + BOTH)
    (file,) = draft.files.all()
    firsts = [one["first"] for one in file.reading["found"]]
    sent = {f"r{file.pk}-{first}-take": "on" for first in firsts}
    answer = web.post(
        f"/import/{draft.pk}/", {**sent, "campaign": "dd", "new_host": "h", "new_topology": "t"}
    )
    assert "3 stored in" in web.get(answer.url).content.decode()
    assert Workload.objects.filter(imported=False).count() == 2
    assert Host.objects.get().name == "h"


def test_a_broken_one_is_named_and_not_stored(web):
    draft = handed_in(web, (CASES / "wrong-number.icf").read_text())
    shown = web.get(f"/import/{draft.pk}/").content.decode()
    assert "It cannot be read" in shown and "line 36" in shown
    assert "Confirm and store" not in shown


@pytest.mark.parametrize("campaign", [{}, {"campaign": "not needed"}])
def test_the_same_by_api(user, campaign):
    api = client_of(user)
    draft = api.post("/api/imports/", {"text": BOTH}).json()
    (file,) = draft["files"]
    assert [(one["described"], one["sweep"], one["metrics"]) for one in file["found"]] == [
        (True, {"outstanding_ios": [1, 2, 4, 8, 16]}, [])
    ] * 2
    results = [{"file": file["id"], "first": 35}, {"file": file["id"], "first": 39, "workload": "w"}]  # fmt: skip
    answer = api.post(f"/api/imports/{draft['id']}/agree/", {"results": results, **campaign})
    assert answer.status_code == 202, answer.content
    told = api.get(answer["Location"]).json()
    assert (told["campaign"], told["stored"]) == (None, 2)
    made = [api.get(f"/api/workloads/{pk}/").json() for pk in told["workloads"]]
    assert [(one["name"], one["tool"]) for one in made] == [(NAMES[0], "dynamo"), ("w", "dynamo")]


def test_the_api_names_what_is_wrong(user):
    api = client_of(user)
    draft = api.post("/api/imports/", {"text": BOTH + DD}).json()
    (file,) = draft["files"]
    plain = {"file": file["id"], "first": 35}
    for change, field in (
        ({"outstanding": 4}, "results.0.outstanding"),
        ({"beside": {"file": file["id"], "first": 39}}, "results.0.beside"),
    ):
        answer = api.post(f"/api/imports/{draft['id']}/agree/", {"results": [{**plain, **change}]})
        assert answer.status_code == 400 and field in answer.json()["errors"], answer.content
    measured = file["found"][-1]["first"]
    sent = {"results": [{"file": file["id"], "first": measured, "new_host": "h", "new_topology": "t"}]}  # fmt: skip
    answer = api.post(f"/api/imports/{draft['id']}/agree/", sent)
    assert answer.status_code == 400 and "campaign" in answer.json()["errors"]
