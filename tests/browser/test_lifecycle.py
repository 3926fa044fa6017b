"""Another name, archived and back, deleted and brought back: by mouse, on a phone, and without script."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchlab.campaigns.models import Campaign
from benchlab.workers import messages
from tests.browser.axe import violations
from tests.browser.test_charts import log_in
from tests.lifecycle.conftest import lab

__all__ = ["lab"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


def opened(chromium, live_server, scheme: str):
    """The test's server knows no live events; the pages poll as well."""
    page, said = log_in(chromium, live_server, scheme)
    page.route("**/events/", lambda route: route.fulfill(status=204))
    return page, said


def wide(page) -> int:
    """Pixels that the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_renamed_without_losing_what_was_typed(chromium, live_server, lab):
    page, said = opened(chromium, live_server, "light")
    here = f"{live_server.url}/campaigns/{lab.campaign.pk}/"
    page.goto(here)
    page.get_by_role("button", name="Rename…").click()
    field = page.locator("#rename-form").get_by_label("Name")
    expect(field).to_have_value("Stripe sizes")
    assert violations(page) == []
    Campaign.objects.update(name="Bob's")
    field.fill("Stripes of four")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("it is called “Bob's” now")
    assert violations(page) == []
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Stripes of four")
    assert page.url == here and said == []
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_archived_deleted_and_back(chromium, live_server, lab, scheme):
    page, said = opened(chromium, live_server, scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    here = f"{live_server.url}/campaigns/{lab.campaign.pk}/"
    page.goto(here)
    assert wide(page) == 0
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    assert violations(page) == [] and wide(page) == 0
    page.goto(f"{live_server.url}/campaigns/?archived=true")
    expect(page.get_by_role("link", name="Stripe sizes")).to_be_visible()
    assert violations(page) == []
    page.goto(f"{here}delete/")
    assert violations(page) == [] and wide(page) == 0
    page.get_by_label("To agree, type").fill("delete it")
    page.get_by_role("button", name="Delete Stripe sizes").click()
    expect(page.get_by_role("alert")).to_contain_text("delete Stripe sizes")
    page.get_by_label("To agree, type").fill("delete Stripe sizes")
    page.get_by_role("button", name="Delete Stripe sizes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Deleted")
    assert violations(page) == [] and wide(page) == 0
    assert page.goto(here).status == 410
    assert violations(page) == [] and wide(page) == 0
    page.get_by_role("button", name="Bring it back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Stripe sizes")
    assert [text for text in said if "410" not in text] == []
    page.context.close()
