"""The diagnosis of a draft: on its first screen, stored with it, bounded, and with a next step into the wizard."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile

from benchlab.campaigns.models import Campaign, Workload
from benchlab.imports import draft_answers
from benchlab.imports.models import Draft
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.charts import made as charted
from tests.diagnosis.made import FIO, LINE_OF_IOPS, four_diagnoses  # noqa: F401

pytestmark = pytest.mark.usefixtures("four_diagnoses", "nudges")


def hand_in(web, text: str = "", **files: str) -> Draft:
    uploads = [SimpleUploadedFile(f"{name}.txt", body.encode()) for name, body in files.items()]
    web.post("/import/", {"text": text, "files": uploads})
    return Draft.objects.latest("pk")


def page(web, draft: Draft) -> str:
    return web.get(f"/import/{draft.pk}/").content.decode()


def test_three_diagnoses_come_first_and_quote_lines(web):
    draft = hand_in(web, FIO)
    file = draft.files.get()
    text = page(web, draft)
    section = text[text.index('id="diagnosis"') : text.index('id="agree"')]
    shown, _, folded = section.partition("<details>")
    assert shown.count("<article") == 3 and folded.count("<article") == 1
    assert f"/import/{draft.pk}/files/{file.pk}/?line={LINE_OF_IOPS}#L{LINE_OF_IOPS}" in shown
    assert "&lt;b&gt;psync" in shown and "<b>psync" not in shown
    assert "What else it could be" in shown and "--ioengine=io_uring" in shown
    assert "What was checked: 4 known causes" in folded


def test_it_is_made_once(web, monkeypatch):
    draft = hand_in(web, FIO)

    def fail(*given, **more):
        raise AssertionError("diagnosed again")

    monkeypatch.setattr(draft_answers, "diagnose_text_evidence", fail)
    assert "The volume is capped." in page(web, draft)


def test_a_few_files_are_diagnosed_together(web):
    draft = hand_in(web, disks="$ lsblk\nNAME SIZE\nsda 1G\n", fio=FIO)
    lines = draft.answer["shown"][1]["proofs"][0]["lines"]
    fio = draft.files.get(name="fio.txt")
    assert [(line["file"], line["number"]) for line in lines][-1] == (fio.pk, LINE_OF_IOPS)


def test_many_files_are_merged_and_what_is_left_out_is_named(web, monkeypatch):
    monkeypatch.setattr(draft_answers, "MAX_FILES_TOGETHER", 1)
    monkeypatch.setattr(draft_answers, "MAX_MERGED_FILES", 2)
    draft = hand_in(web, a=FIO, b=FIO, c=FIO)
    assert draft.answer["readable"] == 2 and draft.answer["shown"][0]["also"] == 1
    assert "Only the first 2 files were diagnosed." in page(web, draft)


def test_a_large_file_is_read_and_not_diagnosed(web, monkeypatch):
    monkeypatch.setattr(draft_answers, "MAX_FILE_BYTES", 10)
    draft = hand_in(web, FIO)
    assert draft.files.get().answer is None and draft.files.get().reading["found"]
    assert "1 file of more than 0 MiB was not diagnosed." in draft.answer["note"]


def test_a_fault_costs_only_the_diagnosis(web, monkeypatch):
    def fail(*given):
        raise RuntimeError

    monkeypatch.setattr(draft_answers, "build_evidence", fail)
    draft = hand_in(web, FIO)
    assert draft.files.get().reading["found"] and "Confirm and store" in page(web, draft)


def test_an_answer_that_a_worker_did_not_store_is_made_from_its_files(web):
    draft = hand_in(web, FIO)
    Draft.objects.update(answer=None)
    assert "The volume is capped." in page(web, draft)


def step_form(text: str) -> dict[str, str]:
    """The fields of the button that sets up a campaign."""
    form = text[text.index('action="/campaigns/next-step/"') :]
    fields = re.findall(r'name="(question|workload)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in fields[:2]}


def test_a_next_step_fills_the_wizard(web, team):
    draft = hand_in(web, FIO)
    assert "campaigns/next-step" not in page(web, draft)
    host = charted.host(team)
    sent = step_form(page(web, draft))
    answer = web.post("/campaigns/next-step/", sent)
    workload = Workload.objects.get()
    assert workload.sweep == {"iodepth": [1, 4, 16]} and workload.options["ioengine"] == "io_uring"
    assert f"workloads={workload.pk}" in answer.url and f"hosts={host.pk}" in answer.url
    wizard = web.get(answer.url).content.decode()
    assert "Does it hold? The queue depth of 32 had no effect" in wizard
    # nothing is made before the wizard's own button, and the same step again makes no second workload
    web.post("/campaigns/next-step/", sent)
    assert Workload.objects.count() == 1 and not Campaign.objects.exists()


@pytest.mark.parametrize(
    "workload",
    [
        "",
        "[]",
        "[" * 100_000,
        json.dumps({"tool": "fio", "options": {}, "sweep": {"iodepth": 1}}),
        json.dumps({"tool": "fio", "options": {"rw": "\0"}, "sweep": {}}),
        json.dumps({"tool": "fio", "options": {"iodepth": "many"}, "sweep": {}}),
        json.dumps({"tool": "rm", "options": {}, "sweep": {}}),
    ],
    ids=["nothing", "list", "deep", "sweep of one", "NUL", "no number", "no tool"],
)
def test_what_is_no_next_step_is_refused(web, workload):
    answer = web.post("/campaigns/next-step/", {"workload": workload})
    assert answer.url == "/campaigns/new/" and not Workload.objects.exists()
    assert len(list(get_messages(answer.wsgi_request))) == 1


def test_a_viewer_gets_no_button(web, team, user):
    charted.host(team)
    draft = hand_in(web, FIO)
    assert "campaigns/next-step" in page(web, draft)
    Membership.objects.filter(user=user).update(role=Role.VIEWER)
    assert web.post("/campaigns/next-step/", {"workload": "{}"}).status_code == 403
