"""The API's pages in a real browser: clean under the content security policy and under axe, light and dark."""

from __future__ import annotations

import pytest

from tests.browser.axe import violations
from tests.browser.test_charts import log_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.night
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_about_the_api_and_the_token_are_clean(chromium, live_server, user, scheme):
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/api/docs/")
    assert violations(page) == []
    page.get_by_text("POST /api/campaigns/", exact=True).click()
    page.get_by_text("GET /api/measurements/", exact=True).click()
    assert page.get_by_role("rowheader", name="outstanding", exact=True).is_visible()
    assert violations(page) == []
    page.goto(f"{live_server.url}/api/token/")
    page.get_by_label("Name").fill("notebook")
    page.get_by_role("button", name="Create a token").click()
    assert page.locator("#token").inner_text().startswith("blab_")
    assert violations(page) == [] and said == []
    page.context.close()
