"""A live page on the real web server: its stream tells it, it asks once for all that is live, and keeps its charts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import expect

from agents.plans import applied_part
from benchlab.charts.request_params import Filter
from benchlab.findings.models import Finding
from benchlab.runs import events
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.verdicts import dismissals
from benchlab.verdicts.answers import answers_of, lines_of
from tests import stack
from tests.browser.person import Person
from tests.charts import made, made_live
from tests.topologies.plans import cached, many_disks
from tests.topologies.plans import made as planned
from tests.verdicts.bench import Bench

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@contextmanager
def live_page(
    chromium, web, tmp_path, campaign, *, clock: bool = False
) -> Iterator[tuple[Any, list[str]]]:
    """The campaign's page once its stream is open, and the scripts' errors. `clock`: its timers can be wound on."""
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        context = chromium.new_context(base_url=url, reduced_motion="reduce")
        session = {
            "name": settings.SESSION_COOKIE_NAME,
            "value": web.cookies[settings.SESSION_COOKIE_NAME].value,
            "url": url,
        }
        context.add_cookies([session])
        page = context.new_page()
        if clock:
            page.clock.install()
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
        events.notify_pages(campaign.pk)
        page.wait_for_timeout(3_000)
        assert said == []
        # One request for all that is live, however much that is.
        assert [one for one in asked if one.startswith("campaign-")] == ["campaign-now"]


IDLE = ("/campaigns/", "/hosts/", "/topologies/", "/workloads/", "/runs/", "/explore/", "/account/")


def test_an_idle_page_asks_for_nothing(chromium, web, team, tmp_path):
    """However long it is open, and while something runs that its bar tells of. Home and live pages alone ask."""
    over, host = made.campaign(team), made.host(team)
    layout = made.done_layout(over, host, made.topology(team, "raw"))
    attempt = made.finished(over, layout, made.workload(team), 1, 1, 1000.0)
    ready(made.campaign(team, "Runs"), host, team)
    own = (f"/campaigns/{over.pk}/", f"/runs/{attempt.run_id}/", f"/hosts/{host.pk}/")
    with live_page(chromium, web, tmp_path, over, clock=True) as (page, said):
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        for path in (*own, *IDLE):
            page.goto(path)
            expect(page.locator("#top-pill")).to_have_text("1 running")
            page.wait_for_timeout(1_500)  # what a page loads at first: charts, the list of a wizard
            asked.clear()
            page.clock.fast_forward("10:00")
            page.wait_for_timeout(500)
            assert asked == [], path
        assert said == []


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
        events.notify_pages(campaign.pk)
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
        events.notify_pages(campaign.pk)
        page.get_by_role("heading", name="seqread", level=2).wait_for()
        expect(note).to_be_visible()
        expect(note).to_have_value("The ARC is what we ")
        expect(note).to_be_focused()
        assert said == []


def test_what_somebody_else_dismisses_comes_to_a_finished_page(chromium, web, user, team, tmp_path):
    """By its stream; else it asks for nothing, however long it is open."""
    bench = Bench(team)
    for name, top in (("cached", 400), ("stripe", 1000)):
        bench.measure(bench.build(name), top)
    with live_page(chromium, web, tmp_path, bench.campaign, clock=True) as (page, said):
        card = page.locator("#campaign-answers .answer").first
        expect(card).to_contain_text("times the IOPS of cached")
        chart = page.locator("#campaign-results .chart").first
        chart.locator(".main-svg").first.wait_for(state="attached")
        chart.evaluate("(one) => (one.seen = true)")
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        page.clock.fast_forward("10:00")
        page.wait_for_timeout(500)
        assert asked == []
        lines = lines_of(user, Filter((bench.campaign.pk,)))
        [answer] = answers_of(lines)
        key = dismissals.answer_key(answer)
        dismissals.dismiss_answer(answer, bench.campaign, user, key, "The cache was cold.")
        expect(card).to_contain_text("The cache was cold.")
        expect(card.locator("details").first).not_to_have_attribute("open", "")
        dismissals.restore_answer(answer, "It was warm after all.")
        expect(card).to_contain_text("It was warm after all.")
        assert chart.evaluate("(one) => one.seen")  # charts are not swapped
        page.clock.fast_forward("10:00")
        page.wait_for_timeout(500)
        assert len([one for one in asked if "said=" in one]) == 2, asked
        assert said == []


def building(team, ended: int) -> Layout:
    """A cache on a stripe of twelve, of whose commands so many ended."""
    host, found = made.host(team), many_disks()
    plan = planned(cached(), found)
    layout = Layout.objects.create(
        campaign=made.campaign(team), host=host, topology=made.topology(team, "LVM cache"), stack=cached(),
        plan=applied_part.to_json(plan), phase="provisioning", begun_at=timezone.now() - timedelta(seconds=72),
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
        session = {
            "name": settings.SESSION_COOKIE_NAME,
            "value": web.cookies[settings.SESSION_COOKIE_NAME].value,
            "url": url,
        }
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
        events.notify_pages(layout.campaign_id)
        expect(card.locator(".segs .done")).to_have_count(4)
        expect(search).to_have_value("signatures sdb")  # what is half written stays
        search.press("Enter")
        expect(page.locator("#campaign-log li:not(.day)")).to_have_count(1)
        expect(page.locator("#campaign-log")).to_contain_text("Erase the signatures of")
        person.look("live-building-log")
        assert person.complaints == []
        person.close()


def test_a_running_point_is_watched_on_its_disks(chromium, web, team, tmp_path):
    """Results that are there come first; strips beside them are asked for anew, as long as the point runs."""
    campaign, host, topology = made.campaign(team), made.host(team), made.topology(team, "raw")
    layout = made.done_layout(campaign, host, topology)
    for depth in (1, 2, 4, 8):
        for repeat in (1, 2, 3):
            made.finished(campaign, layout, made.workload(team), depth, repeat, 1000.0 * depth)
    attempt = made_live.running(campaign, host, topology, made.workload(team, "seqread"), frames=40)
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        person = Person(chromium, url)
        session = {
            "name": settings.SESSION_COOKIE_NAME,
            "value": web.cookies[settings.SESSION_COOKIE_NAME].value,
            "url": url,
        }
        person.page.context.add_cookies([session])
        page = person.page
        page.goto(f"/campaigns/{campaign.pk}/")
        page.locator("[sse-connect][data-streams]").wait_for()
        expect(page.locator("#campaign-running .chart .main-svg").first).to_be_attached()
        disks = page.get_by_role("region", name="Disks of vm-09 in the last 90 seconds")
        expect(disks).to_contain_text("4.1 MB/s")
        person.look("live-running")
        wide = page.evaluate("document.querySelector('.two').getBoundingClientRect().width")
        assert disks.bounding_box()["x"] > wide / 2  # at the side
        last = attempt.live.latest("offset")
        more = "".join(made_live.frame(40 + at, 1000 * (at + 1)) for at in range(5)).encode()
        attempt.live.create(offset=last.offset + len(last.data), data=more)
        expect(disks).to_contain_text("8.19 MB/s")
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        with page.expect_response(lambda one: "strips" in one.url and one.status == 286):
            Attempt.objects.filter(pk=attempt.pk).update(phase="done", outcome="succeeded")
        page.wait_for_timeout(300)
        expect(disks).to_contain_text("8.19 MB/s")  # until the next point's come: no heading alone
        events.notify_pages(campaign.pk)
        expect(disks).to_have_count(0)
        asked.clear()
        page.wait_for_timeout(5_000)
        assert [one for one in asked if "strips" in one] == []
        assert person.complaints == []
        person.close()
