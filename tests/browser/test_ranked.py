"""The ranked layouts of a campaign in a browser: on a phone name, ratio and verdict are seen without a scroll."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.person import DESK, PHONE, Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NAMES = {
    "LVM stripe of 2 SSD, 64 KiB": 40000.0,
    "md RAID 5 of 3 SSD, 512 KiB chunks, bitmap internal": 26000.0,
    "dm-cache writeback": 39000.0,
    "raw HDD": 800.0,
}


@pytest.fixture
def campaign(team, user):
    where, found, load = made.host(team), made.campaign(team), made.workload(team)
    for name, top in NAMES.items():
        made.swept(found, where, made.topology(team, name), load, top=top, repeats=3)
    return found


@pytest.fixture
def person(chromium, live_server, user):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    yield one
    one.close()


def test_name_ratio_and_verdict_are_seen_on_a_phone(person, campaign):
    page = person.page
    page.goto(f"/campaigns/{campaign.pk}/")
    person.drawn()
    person.look("ranked")
    page.set_viewport_size(PHONE)
    table = page.locator("table.ranked")
    assert table.evaluate("one => one.parentElement.scrollWidth <= one.parentElement.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(NAMES))
    for row in rows.all():
        name, ratio, verdict = (
            row.locator(part).bounding_box() for part in ("th", ".against", ".badge")
        )
        assert name["x"] >= 0 and name["width"] > 120
        for right in (ratio, verdict):
            assert right["x"] >= name["x"] + name["width"] - 1
            assert right["x"] + right["width"] <= PHONE["width"]
        assert verdict["y"] < ratio["y"] + 90  # in one look
    first = rows.first.locator(".more").first
    assert first.evaluate("one => getComputedStyle(one, '::before').content") == '"Best IOPS "'
    assert violations(page) == []
    assert person.complaints == []
    page.set_viewport_size(DESK)
    assert table.locator("thead").bounding_box()["height"] > 20
