"""The reference library in a real browser: every article is drawn and clean, light and dark; metrics can be chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchlab.campaigns.models import Campaign
from benchlab.imports import reference_library
from benchlab.imports.reference_library import articles
from tests.browser.axe import violations
from tests.browser.test_charts import drawn, log_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def library(user):
    reference_library.load_library(articles())
    return list(Campaign.objects.filter(source=Campaign.Source.LIBRARY).order_by("pk"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_article_is_drawn_and_clean(chromium, live_server, library, scheme):
    page, said = log_in(chromium, live_server, scheme)
    for campaign in library:
        page.goto(f"{live_server.url}/campaigns/{campaign.pk}/")
        drawn(page)
        shoot(page, f"{campaign.origin['library']}-{campaign.pk}-{scheme}")
        assert violations(page) == [], campaign
    assert said == []
    page.context.close()


def shoot(page: Any, name: str) -> None:
    """For a person to look at, where one is named."""
    if folder := os.environ.get("BENCHLAB_SHOTS"):
        page.wait_for_timeout(400)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
        for number, card in enumerate(page.locator("section[id^=chart-]").all()):
            card.screenshot(path=Path(folder) / f"{name}-card-{number}.png")


def test_a_choice_draws_another_metric(chromium, live_server, library):
    page, said = log_in(chromium, live_server, "light")
    campaign = next(one for one in library if one.origin["library"] == "centos7-caches")
    page.goto(f"{live_server.url}/campaigns/{campaign.pk}/")
    drawn(page)
    card = page.locator("section", has=page.get_by_role("heading", name="pg_test_fsync, 8 kB")).last
    assert (card.locator(".xtitle").text_content() or "").startswith("fdatasync, one write")
    card.get_by_label("Show").select_option("one.*.ops")
    card.locator(".xtitle", has_text="Every method, one write").wait_for()
    assert said == []
    page.context.close()


def test_a_choice_works_without_javascript(chromium, live_server, library):
    page, _ = log_in(chromium, live_server, "light")
    state = page.context.storage_state()
    plain = chromium.new_context(java_script_enabled=False, storage_state=state).new_page()
    campaign = next(one for one in library if one.origin["library"] == "freebsd-zfs")
    plain.goto(f"{live_server.url}/campaigns/{campaign.pk}/")
    plain.get_by_label("Show", exact=True).select_option("two.fsync.ops")
    plain.get_by_role("button", name="Show").click()
    numbers = plain.locator("details", has_text="The numbers as a table")
    numbers.locator("summary").click()
    first = numbers.locator("tbody tr").first.inner_text()
    assert "fsync, two writes" in first
    assert "65 k fsyncs/s" in first
    for one in (plain, page):
        one.context.close()
