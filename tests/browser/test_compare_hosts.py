"""Compare layouts on several hosts, and presets sized to one, in a browser: one more click; without script, too."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from benchlab.campaigns.models import Campaign
from tests.browser.person import Person
from tests.pages.test_compare_layouts import host, known, second

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
__all__ = ["host", "second"]


@pytest.fixture
def nudges() -> None:
    """Nobody works on what is asked for."""


@pytest.fixture
def person(chromium, live_server, team, user, second):
    known(team, user, "lab3", "b", "")
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    yield one
    one.close()


def test_one_more_click_for_one_more_host(person):
    page = person.page
    page.goto("/compare-layouts/")
    dock = page.locator("#compare-dock")
    expect(dock).to_contain_text("5 disks on lab1")
    page.get_by_label("lab2 3 hdd, 1 ssd").check()
    expect(dock).to_contain_text("8 disks on lab1, lab2")
    expect(page.get_by_text("sized to 3 hdd, 1 ssd, as each of the 2 hosts has")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?host=\d+&also=\d+$"))
    person.look("compare-two-hosts")
    page.get_by_label("lab3 1 hdd").check()
    expect(page.get_by_text("lab3: Needs 2 spare hdd; this host has 1.").first).to_be_visible()
    person.picture("compare-three-hosts")
    page.get_by_label("lab3 1 hdd").uncheck()
    expect(dock).to_contain_text("8 disks on lab1, lab2")
    page.get_by_role("button", name="See the plan").click()
    page.wait_for_url("**/campaigns/*/")
    hosts = Campaign.objects.get().layouts.values_list("host__name", flat=True)
    assert set(hosts) == {"lab1", "lab2"}
    assert person.complaints == [], "\n".join(person.complaints)


def test_without_script(person, chromium, live_server):
    plain = Person(chromium, live_server.url, javascript=False)
    plain.page.context.add_cookies(person.page.context.cookies())
    plain.page.goto("/compare-layouts/")
    plain.page.get_by_label("lab2 3 hdd, 1 ssd").check()
    plain.press("Show what fits")
    expect(plain.page.locator("#compare-dock")).to_contain_text("8 disks on lab1, lab2")
    plain.close()
    assert plain.complaints == []


def test_presets_follow_the_host_that_one_picks(person):
    page = person.page
    page.goto("/topologies/")
    expect(page.get_by_role("heading", name="LVM stripe of 4, xfs")).to_be_visible()
    page.get_by_label("Sized to").select_option("lab2: 3 hdd, 1 ssd")
    expect(page.get_by_role("heading", name="LVM stripe of 3, xfs")).to_be_visible()
    person.look("presets")
    page.get_by_role("button", name="Use zpool of 3 with SLOG").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("zpool of 3 with SLOG")
    assert person.complaints == [], "\n".join(person.complaints)
