"""A live page on the real web server: its event stream tells it, so it does not ask by the clock beside that."""

from __future__ import annotations

import pytest

from benchlab.runs import events
from benchlab.runs.models import Layout
from tests import stack
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_what_the_stream_tells_is_not_asked_for_by_the_clock(chromium, web, team, tmp_path):
    campaign = made.campaign(team)
    Layout.objects.create(
        campaign=campaign, host=made.host(team), topology=made.topology(team, "raw"), stack=[],
        phase="ready",
    )  # fmt: skip
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        context = chromium.new_context(base_url=url)
        session = {"name": "sessionid", "value": web.cookies["sessionid"].value, "url": url}
        context.add_cookies([session])
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.headers.get("hx-target", "")))
        page.goto(f"/campaigns/{campaign.pk}/")
        page.locator("[sse-connect][data-streams]").wait_for()
        page.wait_for_timeout(7_000)  # each part asks once by its clock, which nothing told before
        asked.clear()
        page.wait_for_timeout(12_000)
        assert [one for one in asked if one.startswith("campaign-")] == []
        events.changed(campaign.pk)
        page.wait_for_timeout(3_000)
        assert said == []
        assert "campaign-live" in asked
        context.close()
