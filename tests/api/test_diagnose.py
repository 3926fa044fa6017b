"""POST /api/diagnose/: who may, what is answered, and what is refused."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from benchlab.client import Lab
from benchlab.imports import diagnose_text
from tests.api.conftest import is_problem
from tests.diagnosis.made import FIO, four_diagnoses  # noqa: F401
from tests.imports.test_diagnose_page import few, here  # noqa: F401

PATH = "/api/diagnose/"


def test_a_text_and_a_file_get_the_same_answer(api, here, four_diagnoses):  # noqa: F811
    answer = api.post(PATH, {"text": FIO}).json()
    upload = SimpleUploadedFile("fio.txt", FIO.encode())
    assert api.post(PATH, {"file": upload}, format="multipart").json() == answer
    first, second, _ = answer["shown"]
    assert (first["rule"], second["rule"], second["verdict"]) == ("T4", "T1", "doubt")
    quoted = second["proofs"][0]["lines"][-1]
    assert quoted["number"] == 7 and quoted["text"].startswith("read: IOPS=12.1k")
    (step,) = second["next_steps"]
    assert step["workload"]["sweep"] == {"iodepth": [1, 4, 16]} and step["command"]
    assert len(answer["checked"]) == 4 and not answer["nothing_unusual"]


def test_strangers_need_an_open_lab(db, settings, here):  # noqa: F811
    is_problem(APIClient().post(PATH, {"text": FIO}), 401)
    settings.BENCHLAB_OPEN_DIAGNOSIS = True
    assert APIClient().post(PATH, {"text": FIO}).status_code == 200


def test_guests_have_a_limit(db, settings, here, few):  # noqa: F811
    settings.BENCHLAB_OPEN_DIAGNOSIS = True
    codes = [APIClient().post(PATH, {"text": FIO}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({}, 400),
        ({"text": FIO, "colour": "red"}, 400),
        ({"text": " "}, 400),
        ({"text": "x" * (diagnose_text.MAX_BYTES + 1)}, 413),
        ({"text": "x" * 2 * diagnose_text.MAX_BYTES}, 413),
    ],
    ids=["nothing", "unknown field", "blank", "large", "larger"],
)
def test_refusals(api, sent, code):
    is_problem(api.post(PATH, sent), code)


@pytest.mark.parametrize("line", ["\n", "\u0436"], ids=["line ends", "Cyrillic"])
def test_a_text_below_the_limit_is_taken_however_json_writes_it(api, here, line):  # noqa: F811
    size = diagnose_text.MAX_BYTES // len(line.encode()) - 1
    sent = json.dumps({"text": "x" + line * (size - 1)})
    answer = api.post(PATH, sent, content_type="application/json")
    assert answer.status_code == 200 and answer.json()["readable"] == 0


def test_the_schema_has_it():
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    operation = paths[PATH]["post"]
    assert set(operation["requestBody"]["content"]) == {"application/json", "multipart/form-data"}
    assert {"200", "401", "413", "429"} <= set(operation["responses"])


def test_the_client_diagnoses(monkeypatch):
    lab = Lab("https://lab.example", "token")
    sent: list[tuple[object, ...]] = []

    def send(*given: object) -> bytes:
        sent.append(given)
        return b'{"shown": []}'

    monkeypatch.setattr(lab, "_send", send)
    assert lab.diagnose(FIO) == {"shown": []}
    assert sent[0][:3] == ("POST", PATH, {"text": FIO})
