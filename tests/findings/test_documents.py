"""docs/ as pages: who is signed in reads them, raw HTML in them is text, and every finding has its paragraph."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from benchlab.analysis import finding
from benchlab.findings import display
from benchlab.pages import documents
from tests.hashed_files import collected, hashed_files  # noqa: F401

pytestmark = pytest.mark.django_db


def unserved(path: str) -> str:
    return ""


@pytest.mark.parametrize("name", documents.document_names())
def test_every_document_is_a_page(web, name, hashed_files):  # noqa: F811
    page = web.get(f"/docs/{name}/").content.decode()
    text = (documents.FOLDER / f"{name}.md").read_text()
    title = documents.render_document(text, unserved).title
    assert f"<title>{title.split(':')[0]}" in page
    assert 'href="../' not in page and 'href="#"' not in page.partition("<article")[0]


def test_every_picture_of_a_document_is_served(web, hashed_files):  # noqa: F811
    """Those of the program with the hash in their names, those of pages by themselves."""
    found = [
        source
        for name in documents.document_names()
        for source in re.findall('<img[^>]* src="([^"]*)"', documents.load_document(name).html)
    ]
    assert len(found) == sum(
        documents.load_document(name).html.count("<img") for name in documents.document_names()
    )
    assert {source.split("/")[1] for source in found} == {"static", "docs"}
    for source in found:
        if source.startswith("/static/"):
            assert re.search(r"\.[0-9a-f]{12}\.png$", source)
            assert (hashed_files / source.removeprefix("/static/")).is_file()
        else:
            answer = web.get(source)
            assert (answer.status_code, answer["Content-Type"]) == (200, "image/webp")
            assert answer.content[8:12] == b"WEBP"


@pytest.mark.parametrize("name", ["nothing.webp", "README.md", "..%2F..%2Fmanage.py", "mockups"])
def test_no_other_file_is_served_as_a_picture(web, name):
    assert web.get(f"/docs/pictures/{name}").status_code == 404


def test_a_stranger_signs_in_first():
    answer = Client().get("/docs/method/")
    assert answer.status_code == 302 and "/login/" in answer["Location"]


@pytest.mark.parametrize("name", ["nothing", "..%2FREADME", "README"])
def test_nothing_else_is_served(web, name):
    assert web.get(f"/docs/{name}/").status_code == 404


@pytest.mark.parametrize(
    "kind", [*finding.run_findings(), *finding.line_findings(), *finding.HISTORY_LABELS]
)
def test_every_finding_leads_to_its_paragraph(kind):
    assert display.anchor_of(kind) in documents.load_document("method").anchors


def test_verdicts_lead_to_theirs():
    assert {"verdicts", "findings"} <= documents.load_document("method").anchors


def test_raw_html_is_text_and_no_script_is_a_link():
    told = documents.render_document(
        "# T\n<script>alert(1)</script> **Bold <i>x</i>** [a](javascript:alert(1)) [b](b.md#c)\n",
        {"b.md": "/docs/b/"}.get,
    )
    assert "<script" not in told.html and "<i>" not in told.html
    assert 'href="javascript' not in told.html
    assert 'href="/docs/b/#c"' in told.html
    assert told.title == "T" and "t" in told.anchors
