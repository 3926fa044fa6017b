"""Stages of a growing layout, side by side on the page that compares."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.person import Person
from tests.charts import made


@pytest.mark.browser
def test_stages_are_ticked_and_narrow_the_charts(chromium, live_server, user, team):
    lab = made.campaign(team, "Growing")
    stack = made.topology(team, "2-stripe, then 4")
    attempts = made.swept(lab, made.host(team), stack, made.workload(team), depths=(1, 4, 16))
    for attempt in attempts:
        stage = {1: "", 2: "during-1", 3: "after-1"}[attempt.run.repeat]
        type(attempt.run).objects.filter(pk=attempt.run_id).update(stage=stage)
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    page = person.page
    page.goto(f"/compare/?campaign={lab.pk}&stage=built&stage=after-1")
    person.drawn()
    person.look("compare-stages")
    legend = page.locator(".chart").first.locator(".legendtext")
    expect(legend).to_have_count(2)
    person.close()
    assert person.complaints == []
