"""From a login to a chart that compares two layouts on a real host's disks: clicks and fields are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from playwright.sync_api import expect

from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device
from benchlab.team.models import Membership
from benchlab.testing import profiles
from tests import stack
from tests.browser.person import Person
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import register

pytestmark = [pytest.mark.browser, pytest.mark.rig, pytest.mark.django_db(transaction=True)]

REDIS = 12
DISKS = {"ubdb": "hdd", "ubdc": "hdd", "ubdd": "ssd"}
# Depths of two loads on two layouts, and the runs that they make.
DEPTHS, RUNS = ("1, 4", 8) if profiles.profile() == profiles.FULL else ("4", 4)
MOST_CLICKS, MOST_FIELDS = 6, 3
CAMPAIGN_S = 900


@pytest.fixture
def served(transactional_db, tmp_path: Path) -> Iterator[str]:
    redis = stack.redis_url(REDIS)
    with stack.worker(tmp_path, redis), stack.web(tmp_path, redis) as url:
        yield url


@pytest.fixture
def person(team, settings, chromium, served) -> Iterator[Person]:
    """Somebody who has just logged in."""
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    carla = User.objects.create_user("carla", password="carla-8")
    Membership.objects.create(team=team, user=carla)
    one = Person(chromium, served)
    one.page.goto("/login/")
    one.page.fill("#id_username", "carla")
    one.page.fill("#id_password", "carla-8")
    one.press("Log in")
    yield one
    one.close()


@pytest.fixture
def lab(team, user, rig_host):
    """Two slow disks and a fast one, marked spare."""
    made = register(rig_host, team, "root")
    for name, role in DISKS.items():
        device = Device.objects.get(host=made, name=name)
        spare_disks.mark_spare(device, user, device.confirmation, role)
    return made


class Counted:
    """A person's hands."""

    def __init__(self, person: Person) -> None:
        self.page, self.clicks, self.fields = person.page, 0, 0

    def click(self, target) -> None:
        self.clicks += 1
        target.click()

    def fill(self, selector: str, value: str) -> None:
        self.fields += 1
        field = self.page.locator(selector)
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


@pytest.mark.one_in(2)
def test_six_clicks_three_fields_and_a_phrase(person, lab, rig_host):
    page, hand = person.page, Counted(person)
    hand.click(page.get_by_role("button", name="Compare layouts"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare layouts")
    expect(page.locator("#compare-dock")).to_contain_text("3 disks on root")
    person.look("compare-layouts")
    hand.click(page.get_by_text("4 KiB random reads, then writes"))
    hand.fill("#id_repeats", "1")
    hand.fill("#id_time", "look")
    hand.fill("#id_depths", DEPTHS)
    expect(page.locator("#compare-dock dd").first).to_contain_text(re.compile(rf"^{RUNS}\b"))
    hand.click(page.get_by_role("button", name="See the plan"))
    start = page.get_by_role("button", name=re.compile("destroy"))
    expect(start).to_be_visible(timeout=60_000)
    page.fill("#id_typed", page.locator(".phrase").first.inner_text())
    hand.click(start)
    badge = page.locator(".campaign-head .badge").first
    expect(badge).to_have_text("Done", timeout=CAMPAIGN_S * 1000)
    chart = page.locator("#campaign-results .chart").first
    expect(chart.locator(".scatterlayer .trace").first).to_be_attached()
    for shape in ("Stripe of 2 hdd", "LVM cache on ssd"):
        expect(page.locator("#campaign-results")).to_contain_text(shape)
    assert hand.clicks <= MOST_CLICKS and hand.fields <= MOST_FIELDS, (hand.clicks, hand.fields)
    assert person.complaints == []
    assert_blank(rig_host, *DISKS)
