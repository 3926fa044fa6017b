"""Pages of a person who has logged out: a browser shows none of them again."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.person import Person
from tests.charts import made

pytestmark = [
    pytest.mark.browser,
    pytest.mark.night,
    pytest.mark.django_db(transaction=True),
]


def test_back_shows_no_page_after_log_out(chromium, live_server, user, team):
    made.campaign(team)
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.wait_for_url("**/")
    person.page.goto("/campaigns/")
    expect(person.page.locator("main table")).to_be_visible()
    # htmx's own copies of pages
    assert person.page.evaluate("sessionStorage.getItem('htmx-history-cache')") is None
    person.page.locator("summary", has_text="alice").click()
    person.page.get_by_role("button", name="Log out").click()
    person.page.wait_for_url("**/login/**")
    person.page.go_back()
    expect(person.page.locator("input[name=password]")).to_be_visible()
    assert "/login/" in person.page.url
