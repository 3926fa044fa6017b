"""A person behind nginx with TLS: log-in, an upload's page, and a live page that is told over HTTP/2."""

from __future__ import annotations

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from playwright.sync_api import expect

from benchlab.runs import events
from benchlab.team.models import Membership
from tests import stack
from tests.charts import made
from tests.up.fronts import LACKING, SETTINGS, front

pytestmark = [
    pytest.mark.browser,
    pytest.mark.night,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        bool(LACKING), reason=f"{', '.join(LACKING)} missing: apt-get install nginx caddy curl"
    ),
]
PROTOCOL = "() => performance.getEntriesByType('navigation')[0].nextHopProtocol"


def test_a_person_works_through_nginx(chromium, team, settings, tmp_path):
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    person = User.objects.create_user("alice", password="alice-password-8")
    Membership.objects.create(team=team, user=person)
    campaign = made.campaign(team)
    given = {**SETTINGS, "ALLOWED_HOSTS": "127.0.0.1"}
    with (
        stack.web(tmp_path, stack.redis_url(9), **given) as url,
        front("nginx", url.removeprefix("http://"), tmp_path / "front") as proxy,
    ):
        context = chromium.new_context(
            base_url=f"https://127.0.0.1:{proxy.https}", ignore_https_errors=True
        )
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
        page.goto(f"/campaigns/{campaign.pk}/")
        page.fill("#id_username", "alice")
        page.fill("#id_password", "alice-password-8")
        page.get_by_role("button", name="Log in", exact=True).click()
        page.locator("[sse-connect][data-streams]").wait_for()
        assert page.evaluate(PROTOCOL) == "h2"
        # The first word of the stream is for everybody; the next is for what happens now.
        page.wait_for_timeout(3_000)
        with page.expect_request(lambda one: "hx-request" in one.headers, timeout=30_000):
            events.notify_pages(campaign.pk)
        page.goto("/import/")
        page.fill("textarea[name=text]", "nothing that a tool prints")
        page.locator("main form button[type=submit]").first.click()
        expect(page.locator("main")).to_contain_text("pasted")
        assert all(cookie["secure"] for cookie in context.cookies())
        assert said == []
        context.close()
