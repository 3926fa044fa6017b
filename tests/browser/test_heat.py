"""The heat map of a campaign in a browser: light, dark, on a phone, without script; switched without a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from tests.browser.person import PHONE, Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def campaign(team, user):
    """Three layouts under two workloads: repeats that differ, a point that failed, points that nobody asked for."""
    where, found = made.host(team), made.campaign(team)
    loads = [made.workload(team, name) for name in ("randread 4 KiB", "randwrite 4 KiB")]
    for name, top in (("LVM stripe of 2 SSD", 40000.0), ("raw SSD", 30000.0)):
        stack = made.topology(team, name)
        for load in loads:
            attempts = made.swept(found, where, stack, load, top=top)
        attempts[7].measurements.filter(name="iops").update(value=4 * top)
    attempts = made.swept(
        found, where, made.topology(team, "raw HDD"), loads[0], top=800, depths=(1, 2)
    )
    gone = [one.pk for one in attempts if one.run.outstanding == 2]
    Attempt.objects.filter(pk__in=gone).update(outcome=Outcome.FAILED, reason="tool_failed")
    return found


@pytest.fixture
def person(chromium, live_server, user):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    yield one
    one.close()


def test_metric_and_folds_are_switched_in_place(person, campaign):
    page = person.page
    page.goto(f"/campaigns/{campaign.pk}/")
    person.drawn()
    heat = page.locator("#campaign-heat")
    expect(heat.locator("td .shaky")).to_have_count(2)
    expect(heat.locator("td .fail")).to_have_text(["failed"])
    person.look("heat")
    page.evaluate("window.stayed = true")
    page.get_by_role("navigation", name="Metric").get_by_role("link", name="Latency").click()
    expect(page.locator("#heat-how")).to_contain_text(
        "Total latency, mean, median of the repeats; lower is better"
    )
    page.get_by_role("link", name="fold randwrite 4 KiB").click()
    expect(heat.locator("thead th", has_text="best of 6")).to_have_count(1)
    expect(page.locator("#heat-how")).to_contain_text("Total latency")
    assert "heat=lat.mean" in page.url and "fold=" in page.url
    assert page.evaluate("window.stayed"), "the page was loaded anew"
    expect(page.locator("#campaign-results .chart .main-svg").first).to_be_attached()
    expect(page.locator("#campaign-now")).to_have_attribute("hx-get", re.compile("heat=lat.mean"))
    person.look("heat-folded")
    heat.locator("tbody a").first.click()
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
    assert person.complaints == [], "\n".join(person.complaints)


def test_the_first_column_stays_while_the_others_scroll(person, campaign):
    page = person.page
    page.set_viewport_size(PHONE)
    page.goto(f"/campaigns/{campaign.pk}/")
    head = page.locator("#campaign-heat tbody th").first
    before = head.bounding_box()["x"]
    page.locator("#campaign-heat").evaluate("(one) => { one.parentElement.scrollLeft = 200 }")
    assert page.locator("#campaign-heat").evaluate("(one) => one.parentElement.scrollLeft") == 200
    assert abs(head.bounding_box()["x"] - before) <= 2  # the space between cells


def test_all_of_it_without_script(person, chromium, live_server, campaign):
    plain = Person(chromium, live_server.url, javascript=False)
    plain.page.context.add_cookies(person.page.context.cookies())
    page = plain.page
    page.goto(f"/campaigns/{campaign.pk}/")
    page.get_by_role("navigation", name="Metric").get_by_role("link", name="p99").click()
    expect(page.locator("#heat-how")).to_contain_text("Completion latency, p99")
    page.get_by_role("link", name="fold randread 4 KiB").click()
    expect(page.locator("#campaign-heat thead th", has_text="best of 6")).to_have_count(1)
    expect(page.locator("#heat-how")).to_contain_text("Completion latency, p99")
    page.get_by_role("link", name="unfold randread 4 KiB").click()
    expect(page.locator("#campaign-heat thead th", has_text="best of 6")).to_have_count(0)
    plain.close()
    assert plain.complaints == []


def test_latency_stands_beside_iops_where_there_is_room(person, campaign):
    """From 1200 px on; below it on a phone, and after the window was made wide again as before."""
    page = person.page
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(f"/campaigns/{campaign.pk}/#campaign-results")
    person.drawn()
    panels = """() => Object.values(document.querySelector(".chart-tall")._fullLayout._plots)
      .map(({ xaxis, yaxis }) => [xaxis._offset, yaxis._offset])"""

    def places() -> tuple[float, float]:
        """Offsets of the second panel to the right of the first one, and below it, in px."""
        page.wait_for_timeout(800)
        (x1, y1), (x2, y2) = page.evaluate(panels)
        return x2 - x1, y2 - y1

    right, below = places()
    assert right > 200 > abs(below)
    page.set_viewport_size(PHONE)
    right, below = places()
    assert below > 150 > abs(right)
    page.set_viewport_size({"width": 1440, "height": 900})
    right, below = places()
    assert right > 250 > abs(below)
    assert person.complaints == []
