"""The report as one file, opened from a folder without a network; and pictures that tell where they come from."""

from __future__ import annotations

import hashlib
import random
import zipfile
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from benchlab.runs.models import Artifact, Attempt
from benchlab.sharing import report_files
from benchlab.sharing.models import SavedView
from benchlab.workers import messages
from tests.browser.axe import violations
from tests.browser.person import Person
from tests.browser.test_charts import becomes, campaign, drawn, log_in

__all__ = ["campaign"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_file_is_whole_without_a_network(chromium, live_server, campaign, tmp_path):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/campaigns/{campaign.pk}/report/")
    with page.expect_download() as download:
        page.get_by_role("button", name="One HTML file").click()
    kept = tmp_path / "report.html"
    download.value.save_as(kept)
    assert said == []
    page.context.close()
    for scheme in ("light", "dark"):
        _opened(chromium, kept, scheme, live_server.url)


def _opened(chromium: Any, kept: Path, scheme: str, lab: str) -> None:
    page = chromium.new_context(color_scheme=scheme, offline=True).new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on(
        "console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(kept.as_uri())
    drawn(page)
    assert violations(page) == []
    outside = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert (said, outside) == ([], [])
    assert page.locator("a[href^='/']").count() == 0
    assert page.locator(f"a[href^='{lab}/docs/method/']").count() > 0
    page.locator("[data-chart-option]").first.select_option("bandwidth")
    becomes(page, "document.querySelector('.chart').textContent.includes('B/s')")
    page.context.close()


@pytest.mark.parametrize("javascript", [True, False])
def test_raw_output_is_saved_from_the_file_without_a_network(
    chromium, live_server, campaign, tmp_path, javascript
):
    """More than browsers open as a page of a data: address; a script has no part in it."""
    raw = random.Random(1).randbytes(4_000_000)
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    Artifact.objects.create(
        attempt=attempt,
        name="log",
        content=raw,
        size=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
    )
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/campaigns/{campaign.pk}/report/")
    with page.expect_download() as download:
        page.get_by_role("button", name="with raw output (").click()
    kept = tmp_path / "report.html"
    download.value.save_as(kept)
    assert said == []
    page.context.close()
    page = chromium.new_context(offline=True, java_script_enabled=javascript).new_page()
    page.goto(kept.as_uri())
    with page.expect_download() as download:
        page.get_by_role("link", name="The raw output as a ZIP").click()
    assert download.value.suggested_filename == f"campaign-{campaign.pk}-report-raw.zip"
    with zipfile.ZipFile(download.value.path()) as packed:
        assert packed.testzip() is None
        assert packed.read(f"run-{attempt.run_id}/attempt-{attempt.number}/log") == raw
    page.context.close()


def test_pictures_tell_campaign_runs_address_date_and_version(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    address = f"{live_server.url}/compare/?campaign={campaign.pk}"
    page.goto(address)
    drawn(page)
    told = {kind: _saved(page, kind) for kind in ("PNG", "SVG")}
    runs = sorted(campaign.runs.values_list("pk", flat=True))
    for text in told.values():
        assert f"(no. {campaign.pk}); runs {runs[0]} to {runs[-1]}" in text
        assert address in text and "BenchLab " in text and "Creation Time" in text
    assert said == []
    page.context.close()


@pytest.mark.slow
def test_markdown_and_pdf_are_asked_for_and_fetched(
    chromium, live_server, campaign, user, monkeypatch
):
    """The worker's part is done here, when the page has said that it goes on."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.goto(f"/campaigns/{campaign.pk}/report/")
    person.drawn()
    person.press("Markdown")
    person.press("PDF")
    made = person.page.locator("#made-reports")
    expect(made).to_contain_text("PDF: being made")
    report_files.make_waiting_reports()
    for ending, begin in (("pdf", b"%PDF-"), ("zip", b"PK")):
        link = made.get_by_role("link", name=f"campaign-{campaign.pk}-report.{ending}")
        expect(link).to_be_visible()
        with person.page.expect_download() as download:
            link.click()
        assert download.value.path().read_bytes().startswith(begin)
    person.drawn()
    person.look("report-files")
    assert person.complaints == []
    person.close()


def test_a_comparisons_report_is_drawn_and_clean(chromium, live_server, campaign, user, team):
    view = SavedView.objects.create(
        team=team, name="Two days", query=f"campaign={campaign.pk}", by=user
    )
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.goto("/views/")
    person.page.get_by_role("button", name=f"Report of {view}").click()
    person.drawn()
    person.look("comparison-report")
    assert person.complaints == []
    person.close()


def _saved(page: Any, kind: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download the chart as {kind}").first.click()
    raw = download.value.path().read_bytes()
    if kind == "PNG":
        return "\n".join(f"{keyword}: {text}" for keyword, text in texts_of(raw).items())
    svg = ElementTree.fromstring(raw)
    return svg.findtext("{http://www.w3.org/2000/svg}desc") or ""


def texts_of(png: bytes) -> dict[str, str]:
    """Keyword -> text of its iTXt chunks; every chunk's sum is looked at."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, found, kinds = 8, {}, []
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == int.from_bytes(png[at + 8 + size : at + 12 + size], "big")
        if kind == b"iTXt":
            keyword, _, rest = body.partition(b"\0")
            found[keyword.decode("latin-1")] = rest[4:].decode()
        kinds.append(kind)
        at += 12 + size
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return found
