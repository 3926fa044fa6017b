"""From a paste to three diagnoses and a campaign's wizard, in a real browser; and a guest without an account."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchlab.diagnosis.campaign_answers import sweep_campaigns
from benchlab.findings.models import Looked
from benchlab.imports import diagnose_text, drafts
from tests.browser.person import Person
from tests.charts import made
from tests.diagnosis.made import FIO, four_diagnoses  # noqa: F401

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("four_diagnoses"),
]


@pytest.fixture(autouse=True)
def at_work(monkeypatch) -> None:
    """A worker reads whatever is handed in, and texts are diagnosed by the rules of the test."""

    def read(ids):
        for pk in list(ids):
            drafts.read_file(pk)

    monkeypatch.setattr(drafts, "queue_reading", read)
    monkeypatch.setattr(diagnose_text, "diagnose_confined", diagnose_text.diagnose_bytes)


def test_a_paste_leads_to_three_diagnoses_and_into_the_wizard(chromium, live_server, team, user):
    made.host(team)
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    page = person.page
    person.go("Import")
    page.fill("#import-text", FIO)
    person.press("Preview")
    section = page.locator("#diagnosis")
    expect(section.locator("> article")).to_have_count(3)
    section.get_by_text("Less likely").click()
    person.look("diagnosis")
    section.get_by_role("button", name="Copy the command").click()
    expect(section.get_by_role("button", name="Copied")).to_be_visible()
    section.get_by_role("link", name="line 7").click()
    expect(page.locator("#L7")).to_contain_text("IOPS=12.1k")
    page.go_back()
    page.get_by_role("button", name="Set up a campaign").click()
    page.get_by_role("heading", name="New campaign").wait_for()
    expect(page.locator("#id_name")).to_have_value("fio randread iodepth 1, 4, 16")
    expect(page.get_by_label("fio randread iodepth 1, 4, 16")).to_be_checked()
    expect(page.get_by_label("vm-09")).to_be_checked()
    person.look("diagnosis-wizard")
    person.close()
    assert person.complaints == []


@pytest.mark.parametrize("javascript", [True, False], ids=["htmx", "without JavaScript"])
def test_a_guest_reads_the_answer_on_the_same_page(chromium, live_server, db, settings, javascript):
    settings.BENCHLAB_OPEN_DIAGNOSIS = True
    person = Person(chromium, live_server.url, javascript=javascript)
    page = person.page
    page.goto("/diagnose/")
    person.look("diagnose")
    page.fill("#diagnose-text", FIO)
    page.get_by_role("button", name="Diagnose").click()
    expect(page.locator("#diagnosis > article")).to_have_count(3)
    expect(page.locator("#diagnose-text")).to_have_value(FIO)
    person.look("diagnose-answer")
    person.close()
    assert person.complaints == []


def test_a_campaign_has_the_same_card(chromium, live_server, team, user):
    campaign, host = made.campaign(team), made.host(team)
    made.swept(campaign, host, made.topology(team, "raw"), made.workload(team), depths=(1, 4))
    Looked.objects.create(campaign=campaign)
    sweep_campaigns()
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.goto(f"/campaigns/{campaign.pk}/")
    expect(person.page.locator("#diagnosis > article")).to_have_count(3)
    person.drawn()
    person.look("diagnosis-campaign")
    person.page.locator("#diagnosis").get_by_role(
        "link", name=str(campaign.runs.first().pk), exact=True
    ).first.click()
    expect(person.page.get_by_text("Cap of the cloud")).to_be_visible()
    person.look("diagnosis-run")
    person.close()
    assert person.complaints == []


def test_a_closed_lab_sends_a_guest_to_log_in(chromium, live_server, db):
    person = Person(chromium, live_server.url)
    person.page.goto("/diagnose/")
    person.look("diagnose-closed")
    person.press("Log in")
    expect(person.page.locator("#id_username")).to_be_visible()
    person.close()
    assert [one for one in person.complaints if "status of 401" not in one] == []
