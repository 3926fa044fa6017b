"""A live page on the real web server: its stream tells it, it asks once for all that is live, and keeps its charts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents.plans import as_json
from benchlab.findings.models import Finding
from benchlab.runs import events
from benchlab.runs.models import Attempt, Layout, StepLog
from tests import stack
from tests.browser.person import Person
from tests.charts import made
from tests.topologies.plans import cached, many_disks
from tests.topologies.plans import made as planned

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@contextmanager
def live_page(chromium, web, tmp_path, campaign) -> Iterator[tuple[Any, list[str]]]:
    """The campaign's page once its stream is open, and the scripts' errors."""
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        context = chromium.new_context(base_url=url)
        session = {"name": "sessionid", "value": web.cookies["sessionid"].value, "url": url}
        context.add_cookies([session])
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"/campaigns/{campaign.pk}/")
        page.locator("[sse-connect][data-streams]").wait_for()
        yield page, said
        context.close()


def ready(campaign, host, team) -> Layout:
    return Layout.objects.create(
        campaign=campaign, host=host, topology=made.topology(team, "raw"), stack=[], phase="ready"
    )


def test_what_the_stream_tells_is_not_asked_for_by_the_clock(chromium, web, team, tmp_path):
    campaign = made.campaign(team)
    ready(campaign, made.host(team), team)
    with live_page(chromium, web, tmp_path, campaign) as (page, said):
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.headers.get("hx-target", "")))
        page.wait_for_timeout(7_000)  # each part asks once by its clock, which nothing told before
        asked.clear()
        page.wait_for_timeout(12_000)
        assert [one for one in asked if one.startswith("campaign-")] == []
        events.changed(campaign.pk)
        page.wait_for_timeout(3_000)
        assert said == []
        # One request for all that is live, however much that is.
        assert [one for one in asked if one.startswith("campaign-")] == ["campaign-now"]


def test_a_chart_is_kept_while_another_one_comes(chromium, web, team, tmp_path):
    """With what it was zoomed to; and a table that somebody opened stays open."""
    campaign, host = made.campaign(team), made.host(team)
    layout = ready(campaign, host, team)
    load = made.workload(team)
    made.finished(campaign, layout, load, 1, 1, 1000.0)
    with live_page(chromium, web, tmp_path, campaign) as (page, said):
        drawn = page.locator("#campaign-results .chart .main-svg")
        drawn.first.wait_for(state="attached")
        chart = page.locator("#campaign-results .chart")
        chart.evaluate("(one) => (one.seen = true)")
        page.locator("#campaign-results details summary").last.click()
        made.finished(campaign, layout, made.workload(team, "seqread"), 1, 1, 2000.0)
        events.changed(campaign.pk)
        page.get_by_role("heading", name="seqread", level=2).wait_for()
        expect(page.locator("#campaign-heat td a[class^=c]")).to_have_count(2)
        expect(page.locator("#campaign-results .chart:has(.main-svg)")).to_have_count(2)
        kept = chart.evaluate_all("(all) => all.filter((one) => one.seen).length")
        opened = page.locator("#campaign-results details[id][open]").count()
        assert (kept, opened, said) == (1, 1, [])


def test_a_note_half_written_outlives_what_comes_meanwhile(chromium, web, team, tmp_path):
    """The findings are swapped with the answers when a result of another workload comes."""
    campaign, host = made.campaign(team), made.host(team)
    layout = ready(campaign, host, team)
    attempt = made.finished(campaign, layout, made.workload(team), 1, 1, 1000.0)
    row = Finding.objects.create(
        campaign=campaign, attempt=attempt, kind="cached_read", says="90 % came from a cache",
        severity="doubt", runs=[attempt.run_id],
    )  # fmt: skip
    with live_page(chromium, web, tmp_path, campaign) as (page, said):
        page.locator(f"#finding-{row.pk} summary").click()
        note = page.locator(f"#finding-{row.pk}-note")
        note.fill("The ARC is what we ")
        made.finished(campaign, layout, made.workload(team, "seqread"), 1, 1, 2000.0)
        events.changed(campaign.pk)
        page.get_by_role("heading", name="seqread", level=2).wait_for()
        expect(note).to_be_visible()
        expect(note).to_have_value("The ARC is what we ")
        expect(note).to_be_focused()
        assert said == []


def building(team, ended: int) -> Layout:
    """A cache on a stripe of twelve, of whose commands so many ended."""
    host, found = made.host(team), many_disks()
    plan = planned(cached(), found)
    layout = Layout.objects.create(
        campaign=made.campaign(team), host=host, topology=made.topology(team, "LVM cache"), stack=cached(),
        plan=as_json.to_json(plan), phase="provisioning", begun_at=timezone.now() - timedelta(seconds=72),
    )  # fmt: skip
    run = made.run(layout.campaign, layout, made.workload(team), 4, 1)
    Attempt.objects.create(run=run, layout=layout)
    for step in plan.steps[: ended + 1]:
        argv = [str(word) for word in step.argv]
        StepLog.objects.create(layout=layout, kind="apply", argv=argv, says=step.says)
    done = layout.steps.order_by("pk").values_list("pk", flat=True)[:ended]
    StepLog.objects.filter(pk__in=list(done)).update(ended_at=timezone.now(), exit_code=0)
    return layout


def test_a_build_is_watched_step_by_step(chromium, web, team, tmp_path):
    """In both themes and on a phone; its clock goes on by itself, its log is searched."""
    layout = building(team, ended=3)
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        person = Person(chromium, url)
        session = {"name": "sessionid", "value": web.cookies["sessionid"].value, "url": url}
        person.page.context.add_cookies([session])
        page = person.page
        page.goto(f"/campaigns/{layout.campaign_id}/")
        page.locator("[sse-connect][data-streams]").wait_for()
        card = page.get_by_role("region", name="Building layout 1 of 1 on vm-09")
        expect(card).to_contain_text(re.compile(r"step\s*4 of \d\d"))
        expect(card.locator(".segs .done")).to_have_count(3)
        expect(card.locator(".ops .now")).to_have_count(1)
        clock = card.locator("[data-ticks]")
        before = clock.inner_text()
        expect(clock).not_to_have_text(before, timeout=5_000)
        person.look("live-building")
        search = page.get_by_role("searchbox", name="Search the log")
        search.fill("signatures sdb")
        layout.steps.update(ended_at=timezone.now(), exit_code=0)
        events.changed(layout.campaign_id)
        expect(card.locator(".segs .done")).to_have_count(4)
        expect(search).to_have_value("signatures sdb")  # what is half written stays
        search.press("Enter")
        expect(page.locator("#campaign-log li")).to_have_count(1)
        expect(page.locator("#campaign-log")).to_contain_text("Erase the signatures of")
        person.look("live-building-log")
        assert person.complaints == []
        person.close()
