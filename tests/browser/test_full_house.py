"""A server without a connection to its database, in a real browser: a page that says so, in both colours, and one line
of its log a visitor."""

from __future__ import annotations

import pytest

from tests import stack
from tests.browser.person import Person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_page_of_a_full_house(chromium, tmp_path):
    nobody = "postgresql://nobody:secret@127.0.0.1:1/none"
    more = {"DATABASE_URL": nobody, "BENCHLAB_POOL_WAIT": "1"}
    with stack.web(tmp_path, stack.redis_url(8), **more) as url:
        person = Person(chromium, url)
        person.page.goto("/join/a-link/?from=mail")
        heading = person.page.get_by_role("heading", name="BenchLab is not available")
        assert heading.is_visible()
        person.look("full-house")
        link = person.page.get_by_role("link", name="load this page again")
        assert link.get_attribute("href") == "/join/a-link/?from=mail"
        link.click()
        assert heading.is_visible()
        # A browser notes each 503 in its console; that is what was asked for.
        assert [one for one in person.complaints if "status of 503" not in one] == []
        person.close()
    said = (tmp_path / "web.log").read_text()
    told = [line for line in said.splitlines() if "no database connection for /join/***" in line]
    assert len(told) >= 2 and all(" WARNING django.request " in line for line in told), said
    assert "Traceback" not in said and "ERROR" not in said and "secret" not in said
