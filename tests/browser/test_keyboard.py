"""From the login page to a plan that is agreed to, and to a chart, by the keyboard alone: no mouse, no trap, and at
each stop one sees where one is.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from benchlab.campaigns.models import Campaign
from benchlab.hosts import discovery, spare_disks
from benchlab.hosts.models import Host
from benchlab.imports import reference_library
from benchlab.imports.reference_library import articles
from benchlab.runs.models import Layout
from benchlab.workers import messages
from tests.browser.person import Person
from tests.browser.test_plan_pages import lab, planned_on_paper  # noqa: F401
from tests.topologies.plans import FAST, SLOW, many_disks

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MOST_STOPS = 150
# Where the keys go, and whether one sees it: by an outline, in a card around the card.
STOP = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const around = one.closest("label.choice") ?? one;
  const ring = [one, around].some((of) => {
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(of);
    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && outlineColor !== "rgba(0, 0, 0, 0)";
  });
  const box = around.getBoundingClientRect();
  const across = box.width > 0 && box.right > 0 && box.left < innerWidth;
  const seen = across && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  const stayed = one === window.cameFrom;
  window.cameFrom = one;
  return { is: one.outerHTML.slice(0, 200), ring, seen, stayed };
}"""


class Keys:
    """Somebody without a mouse."""

    def __init__(self, person: Person) -> None:
        self.page, self.keys = person.page, person.page.keyboard

    def stop(self) -> dict[str, Any] | None:
        """Element that has the focus; None: nothing on the page. AssertionError where one does not see it."""
        found = self.page.evaluate(STOP)
        assert found is None or (found["ring"] and found["seen"]), found
        return found

    def to(self, target: Any, key: str = "Tab") -> None:
        for _ in range(MOST_STOPS):
            self.keys.press(key)
            self.stop()
            if target.evaluate("one => one === document.activeElement"):
                return
        raise AssertionError(f"{target} is not reached by {key}")

    def into(self, label: str, text: str) -> None:
        """Type a text into a field, in the place of what was there."""
        self.to(self.page.get_by_label(label))
        self.keys.press("Control+A")
        self.keys.type(text)

    def press(self, target: Any, key: str = "Enter") -> None:
        self.to(target)
        self.keys.press(key)

    def round(self) -> int:
        """Out of the page, once through all of it and out again: how many stops it has."""
        self._to_the_end()
        return self._to_the_end()

    def _to_the_end(self) -> int:
        for number in range(MOST_STOPS):
            self.keys.press("Tab")
            now = self.stop()
            if now is None:
                return number
            assert not now["stayed"], f"{now['is']} keeps the keys"
        raise AssertionError(f"still on the page after {MOST_STOPS} stops")


@pytest.fixture
def host(lab: Host, user) -> Host:  # noqa: F811
    """With four spare disks and a spare SSD."""
    discovery.store_facts(lab, many_disks())
    for device in lab.devices.filter(name__in=[*SLOW[:4], FAST[0]]):
        role = "ssd" if device.name in FAST else "hdd"
        spare_disks.mark_spare(device, user, device.confirmation, role)
    return lab


@pytest.fixture
def planner(monkeypatch) -> None:
    """A worker that plans as soon as it is asked to, by what was last read of the host."""

    def plan(task: str, pk: int) -> None:
        for campaign in Campaign.objects.filter(source="", layouts__planned_at=None).distinct():
            planned_on_paper(campaign, many_disks())

    monkeypatch.setattr(messages, "send", plan)


@pytest.fixture
def person(live_server, user, chromium):
    one = Person(chromium, live_server.url)
    yield one
    one.close()


def log_in(keys: Keys) -> None:
    page = keys.page
    page.goto("/login/")
    if page.evaluate("document.activeElement.id") != "id_username":
        keys.to(page.locator("#id_username"))
    keys.keys.type("alice")
    keys.to(page.locator("#id_password"))
    keys.keys.type("alice-password")
    keys.keys.press("Enter")
    page.wait_for_url(re.compile(r":\d+/$"))


def test_by_keys_alone_from_login_to_a_plan_and_to_a_chart(person, host, planner):
    reference_library.load_library(articles())
    keys = Keys(person)
    log_in(keys)
    skip_link(keys)
    compare_layouts(keys)
    agree(keys)
    search_for_a_chart(keys)
    assert person.complaints == []


def skip_link(keys: Keys) -> None:
    page = keys.page
    skip = page.get_by_role("link", name="Skip to content")
    keys.keys.press("Tab")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    keys.stop()
    keys.keys.press("Enter")
    keys.keys.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    assert keys.round() > 20


def compare_layouts(keys: Keys) -> None:
    """A layout is ticked by Space, what matters is chosen by arrows, the rest is typed."""
    page = keys.page
    keys.press(page.get_by_role("banner").get_by_role("button", name="Compare layouts"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare layouts")
    dock = page.locator("#compare-dock")
    third = page.locator("input[name=layouts]:not(:checked):not(:disabled)").first
    keys.to(third)
    keys.keys.press("Space")
    expect(dock).to_contain_text("3 layouts")
    keys.to(page.locator("input[name=matters]:checked"))
    was = page.evaluate("document.activeElement.value")
    keys.keys.press("ArrowDown")
    keys.stop()
    assert page.evaluate("document.activeElement.value") != was
    keys.into("Outstanding I/Os", "1, 8")
    keys.press(page.get_by_role("button", name="See the plan"))
    page.wait_for_url(re.compile(r"/campaigns/\d+/$"))


def agree(keys: Keys) -> None:
    """The first press with a wrong phrase leads back to its field, which says what is wrong."""
    page = keys.page
    expect(page.get_by_role("button", name=re.compile("^Start, destroy"))).to_be_visible()
    assert keys.round() > 30
    keys.press(page.locator("#campaign-plan details.fold > summary").nth(1))
    expect(page.locator("#campaign-plan details.fold[open]")).to_have_count(2)
    typed = page.locator("#id_typed")
    keys.to(typed)
    keys.keys.type("yes")
    keys.keys.press("Enter")
    expect(page.locator("#id_typed_error")).to_be_visible()
    expect(typed).to_be_focused()
    keys.keys.press("Control+A")
    keys.keys.type(page.locator(".phrase").first.inner_text())
    keys.press(page.get_by_role("button", name=re.compile("^Start, destroy")))
    expect(page.locator("#messages")).to_contain_text("Started.")
    assert set(Layout.objects.filter(campaign__source="").values_list("phase", flat=True)) == {
        "waiting"
    }


def search_for_a_chart(keys: Keys) -> None:
    """By "/" from wherever one is, to a campaign, its chart's numbers, and one of its runs."""
    page = keys.page
    campaign = Campaign.objects.filter(source=Campaign.Source.LIBRARY).earliest("pk")
    page.wait_for_load_state()  # the key is the script's
    keys.keys.press("/")
    expect(page.locator("#search")).to_be_focused()
    keys.stop()
    keys.keys.type(campaign.name)
    keys.press(page.locator(f"#search-found a[href='/campaigns/{campaign.pk}/']").first)
    page.wait_for_url(f"**/campaigns/{campaign.pk}/")
    page.locator(".chart .main-svg").first.wait_for(state="attached")
    assert keys.round() > 20
    keys.press(page.get_by_text("The numbers as a table").first)
    numbers = page.locator("details", has_text="The numbers as a table").first
    expect(numbers).to_have_attribute("open", "")
    keys.press(page.locator("main a[href^='/runs/']:not([href*='?']):visible").first)
    page.wait_for_url("**/runs/*/")
