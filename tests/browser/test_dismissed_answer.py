"""An answer dismissed with a note, seen folded and taken back: by keys alone, without JavaScript, in both themes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import expect

from benchlab.team.models import Membership
from benchlab.verdicts.models import DismissedAnswer
from tests.browser.axe import violations
from tests.browser.person import PHONE, THEMES, Person
from tests.browser.test_keyboard import Keys
from tests.verdicts.bench import Bench

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NOTE = "The cache was cold: the host had been restarted between the two, see the log of the third of November."
WHY = "Why it does not matter here"
BACK = "Why it counts after all"


@pytest.fixture
def two(team, user) -> Bench:
    """Cached, and a stripe that does 2.5 times as much."""
    bench = Bench(team)
    for name, top in (("cached", 400), ("stripe", 1000)):
        bench.measure(bench.build(name), top)
    return bench


@pytest.fixture
def person(live_server, two, chromium):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    yield one
    one.close()


def looked_at(person: Person, name: str) -> None:
    """In both themes, whatever the profile, and on a phone."""
    for scheme in THEMES:
        person.page.emulate_media(color_scheme=scheme)
        person.picture(f"{name}-{scheme}")
        person.complaints += [f"{name}, {scheme}: {one}" for one in violations(person.page)]
    person.page.set_viewport_size(PHONE)
    person.picture(f"{name}-phone")
    wide = person.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"], f"{name} is {wide} px wide on a phone"
    person.page.set_viewport_size({"width": 1400, "height": 900})


def noted(keys: Keys, what: str, label: str, note: str) -> None:
    """Opens the form of a card, writes, and sends it, by keys; the page comes back at the answers."""
    page, card = keys.page, keys.page.locator(".answer").first
    keys.press(card.locator("summary", has_text=f"{what}…"))
    keys.to(card.get_by_label(label))
    keys.keys.type(note)
    button = card.get_by_role("button", name=what, exact=True)
    keys.to(button)
    with page.expect_navigation(wait_until="load"):
        keys.keys.press("Enter")
    assert page.url.endswith("#answers")


def in_sight(card: Any) -> Any:
    return card.locator(".fig")


@pytest.mark.parametrize(
    "address",
    ["/campaigns/{pk}/", pytest.param("/compare/?campaign={pk}", marks=pytest.mark.night)],
)
def test_by_keys_alone(person, two, address):
    page, keys = person.page, Keys(person)
    card = page.locator(".answer").first
    name = "answer-" + address.strip("/").partition("/")[0]
    page.goto(address.format(pk=two.campaign.pk))
    person.drawn()
    expect(in_sight(card)).to_be_visible()
    page.locator("summary", has_text="Dismiss…").first.click()
    looked_at(person, f"{name}-form")
    page.reload()
    noted(keys, "Dismiss", WHY, NOTE)
    person.drawn()
    expect(card).to_contain_text("by alice: The cache was cold")
    expect(in_sight(card)).to_be_hidden()
    looked_at(person, f"{name}-folded")
    keys.press(card.locator("summary", has_text="What it says"))
    expect(in_sight(card)).to_be_visible()
    looked_at(person, f"{name}-opened")
    noted(keys, "Take it back", BACK, "It was warm.")
    person.drawn()
    expect(in_sight(card)).to_be_visible()
    expect(card).to_contain_text("It was dismissed, and taken back: It was warm.")
    looked_at(person, f"{name}-taken-back")
    assert person.complaints == []


def test_the_second_of_two_is_told_on_the_page(person, two):
    page = person.page
    page.goto(f"/campaigns/{two.campaign.pk}/")
    card = page.locator(".answer").first
    card.locator("summary", has_text="Dismiss…").click()
    card.get_by_label(WHY).fill("mine")
    key = card.locator("input[name=answer]").first.get_attribute("value")
    carol = Client()
    carol.force_login(member := User.objects.create_user("carol"))
    Membership.objects.create(team=two.team, user=member)
    carol.post(f"/campaigns/{two.campaign.pk}/answers/dismiss/", {"answer": key, "note": "known"})
    card.get_by_role("button", name="Dismiss", exact=True).click()
    expect(page.get_by_text("carol dismissed it before you")).to_be_in_viewport()
    looked_at(person, "answer-second")
    assert person.complaints == []


def test_a_report_says_how_many(person, two):
    page = person.page
    page.goto(f"/campaigns/{two.campaign.pk}/report/")
    person.drawn()
    card = page.locator(".answer").first
    card.locator("summary", has_text="Dismiss…").click()
    card.get_by_label(WHY).fill(NOTE)
    card.get_by_role("button", name="Dismiss", exact=True).click()
    person.drawn()
    told = page.get_by_role("main").get_by_text("1 answer was dismissed by the team.")
    expect(told).to_be_visible()
    expect(page.locator(".answer")).to_have_count(0)
    looked_at(person, "answer-report")
    page.get_by_role("link", name="dismissed by the team").click()
    expect(card).to_contain_text("by alice: The cache was cold")
    expect(in_sight(card)).to_be_hidden()
    assert person.complaints == []


def test_without_javascript(chromium, live_server, two):
    person = Person(chromium, live_server.url, javascript=False)
    person.log_in("alice", "alice-password")
    page = person.page
    page.goto(f"/campaigns/{two.campaign.pk}/")
    card = page.locator(".answer").first
    for what, label, note in (("Dismiss", WHY, NOTE), ("Take it back", BACK, "It was warm.")):
        card.locator("summary", has_text=f"{what}…").click()
        card.get_by_label(label).fill(note)
        card.get_by_role("button", name=what, exact=True).click()
        page.wait_for_load_state()
        if what == "Dismiss":
            expect(card).to_contain_text("by alice: The cache was cold")
            expect(in_sight(card)).to_be_hidden()
    expect(in_sight(card)).to_be_visible()
    expect(card).to_contain_text("taken back: It was warm.")
    assert DismissedAnswer.objects.get().dismissed_at is None and person.complaints == []
    person.close()
