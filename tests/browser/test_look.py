"""The page of every component, in both themes, on a phone, with the menu that needs no script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.person import DESK, PHONE, Person


@pytest.fixture
def person(live_server, user, chromium):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    yield one
    one.close()


@pytest.mark.browser
@pytest.mark.quick
@pytest.mark.django_db(transaction=True)
def test_every_component_in_both_themes_and_on_a_phone(person):
    page = person.page
    page.goto("/docs/look/")
    person.drawn()
    person.look("look")
    page.emulate_media(color_scheme="light")
    page.click("#theme-toggle")  # from the system's to light
    page.click("#theme-toggle")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.wait_for_timeout(300)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 21)"
    paper = "getComputedStyle(document.querySelector('.chart .main-svg')).background"
    assert "rgb(21, 26, 33)" in page.evaluate(paper)
    assert page.evaluate("document.fonts.check('14px \"Inter Variable\"')")
    assert violations(page) == []
    assert person.complaints == []


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_axes_say_their_units_apart_from_their_numbers(person):
    page = person.page
    page.goto("/docs/look/")
    person.drawn()
    expect(page.locator(".ytick text").last).to_have_text(re.compile(r"^\d+ k$"))
    expect(page.locator(".annotation-text")).to_have_text("IOPS op/s")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_menu_of_a_phone_needs_no_script(chromium, live_server, user):
    with_script = Person(chromium, live_server.url)
    with_script.log_in("alice", "alice-password")
    with_script.page.wait_for_url("**/")
    cookies = with_script.page.context.cookies()
    with_script.close()
    person = Person(chromium, live_server.url, javascript=False)
    person.page.context.add_cookies(cookies)
    page = person.page
    page.set_viewport_size(PHONE)
    page.goto("/")
    menu = page.get_by_role("navigation", name="Main")
    expect(menu).not_to_be_visible()
    page.get_by_role("link", name="Open menu").click()
    expect(menu).to_be_visible()
    person.look("menu-phone")
    menu.get_by_role("link", name="Topologies", exact=True).click()
    expect(page.get_by_role("heading", name="Topologies", level=1)).to_be_visible()
    expect(menu).not_to_be_visible()
    page.set_viewport_size(DESK)
    expect(menu).to_be_visible()
    assert person.complaints == []
    person.close()
