"""Texts of a team in a report: kept at its place, seen by guests as they may, never lost to somebody else."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from benchlab.sharing.models import ReportText
from benchlab.team.roles import Role
from tests.charts import made
from tests.sharing.conftest import HOST, link_of
from tests.sharing.test_discussion import member

pytestmark = pytest.mark.django_db
PLACES = ReportText.Place.values


@pytest.fixture
def campaign(team, user):
    found = made.campaign(team)
    made.swept(found, made.host(team), made.topology(team, "raw"), made.workload(team), depths=(1,))
    return found


@pytest.fixture
def viewer(team):
    return member(team, "vera", Role.VIEWER)


def page_of(web, campaign) -> str:
    return web.get(reverse("campaign-report", args=[campaign.pk])).content.decode()


def seen_at(page: str, place: str) -> str:
    form = page.partition(f"/report/{place}/")[2]
    return form.partition('name="seen" value="')[2].partition('"')[0]


def write(web, campaign, place: str, text: str, seen: str = ""):
    sent = {"text": text, "seen": seen or seen_at(page_of(web, campaign), place)}
    return web.post(reverse("campaign-report-text", args=[campaign.pk, place]), sent)


@pytest.mark.parametrize("place", PLACES)
def test_a_text_stands_at_its_place_and_in_the_file(web, campaign, place):
    answer = write(web, campaign, place, "Two disks were\nolder. <b>Not</b> bold.")
    assert answer.status_code == 302 and answer["Location"].endswith(f"#text-{place}")
    file = web.get(reverse("campaign-report-file", args=[campaign.pk])).content.decode()
    for page in (page_of(web, campaign), file):
        part = page.partition(f'id="text-{place}"')[2].partition("</section>")[0]
        assert "Two disks were<br>\nolder. &lt;b&gt;Not&lt;/b&gt; bold." in part
    assert "<form" not in file.partition("<body")[2].partition("<script")[0]


def test_an_empty_text_takes_it_away(web, campaign):
    write(web, campaign, "opening", "First.")
    write(web, campaign, "opening", "")
    assert 'id="text-opening-title"' not in page_of(web, campaign)


def test_who_writes_second_loses_nothing_and_is_told(web, campaign):
    seen = seen_at(page_of(web, campaign), "closing")
    assert write(web, campaign, "closing", "Mine, first.", seen).status_code == 302
    late = write(web, campaign, "closing", "Yours, second.", seen)
    page = late.content.decode()
    assert late.status_code == 409
    assert "Mine, first." in page and "Yours, second." in page and "Somebody else changed" in page
    assert ReportText.objects.get().text == "Mine, first."
    again = write(web, campaign, "closing", "Yours, second.", seen_at(page, "closing"))
    assert again.status_code == 302
    assert ReportText.objects.get().text == "Yours, second."


def test_too_much_is_refused_and_kept_in_the_form(web, campaign):
    long = "x" * 10_001
    answer = write(web, campaign, "results", long)
    assert answer.status_code == 409
    assert long in answer.content.decode() and "the limit is 10000" in answer.content.decode()
    assert not ReportText.objects.exists()


def test_no_other_place_and_no_viewer_writes(web, viewer, campaign):
    assert web.post(f"/campaigns/{campaign.pk}/report/nowhere/", {"text": "x"}).status_code == 404
    address = reverse("campaign-report-text", args=[campaign.pk, "opening"])
    assert viewer.post(address, {"text": "x"}).status_code == 403
    assert "Add a text" not in page_of(viewer, campaign)
    assert "Add a text" in page_of(web, campaign)


@pytest.mark.parametrize("hide", [True, False])
def test_a_guest_reads_it_with_or_without_hosts_names(web, lab, hide):
    write(web, lab.campaign, "opening", f"On {HOST} we saw more.")
    _, token = link_of(lab, "report", hide=hide)
    page = Client().get(reverse("shared", args=[token])).content.decode()
    assert "we saw more." in page and "Save the text" not in page
    assert (HOST in page) is not hide
