"""Pages of campaigns: whole and in parts, ours and nobody else's."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.engine.new_runs import create_campaign
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

pytestmark = pytest.mark.django_db


def url(name: str, campaign: Campaign) -> str:
    return reverse(name, args=[campaign.pk])


def now(client, campaign, query: str = ""):
    """Answer to a live page that asks at a change."""
    return client.get(
        url("campaign-detail", campaign) + query, headers={"HX-Target": "campaign-now"}
    )


def planned(campaign: Campaign, fingerprint: str = "f00d") -> Layout:
    campaign.layouts.update(plan_fingerprint=fingerprint, planned_at=timezone.now())
    return campaign.layouts.get()


def end(attempt: Attempt, outcome: str, reason: str = "", text: str = "") -> None:
    Attempt.objects.filter(pk=attempt.pk).update(
        phase=AttemptPhase.DONE, outcome=outcome, reason=reason, reason_text=text
    )


@pytest.fixture
def attempts(campaign) -> list[Attempt]:
    campaign.layouts.update(phase=LayoutPhase.READY)
    return list(Attempt.objects.order_by("run__position"))


def test_the_list_shows_how_far_each_is(web, campaign):
    answer = web.get(reverse("campaign-list"))
    assert [row["campaign"] for row in answer.context["rows"]] == [campaign]
    assert "0 of 6 runs" in answer.text and "Plan not confirmed" in answer.text


def test_the_list_costs_the_same_queries_for_many(
    web, team, user, host, directory, workload, django_assert_num_queries
):
    for name in "abcde":
        create_campaign(
            team=team, user=user, name=name, question="", hosts=[host], topologies=[directory],
            workloads=[workload], repeats=1, order="as_written",
        )  # fmt: skip
    # session, user, teams, count, campaigns, layouts, attempts, tags, the top bar
    with django_assert_num_queries(9):
        web.get(reverse("campaign-list"))


def test_an_empty_list_says_what_to_do(web):
    assert "No campaigns yet" in web.get(reverse("campaign-list")).text


@pytest.mark.parametrize(
    "name", ["campaign-detail", "campaign-cancel", "campaign-events", "campaign-figure"]
)
def test_another_team_gets_404(other_web, campaign, name):
    assert other_web.get(url(name, campaign)).status_code == 404


@pytest.mark.parametrize(
    "action", ["start", "pause", "resume", "cancel", "plan", "retry", "add-repeats"]
)
def test_another_team_can_do_nothing(other_web, campaign, action):
    assert other_web.post(url(f"campaign-{action}", campaign)).status_code == 404
    campaign.refresh_from_db()
    assert campaign.paused_at is campaign.cancelled_at is campaign.started_at is None


def test_another_team_can_neither_retry_nor_tear_down(other_web, campaign):
    run, layout = campaign.runs.first(), campaign.layouts.get()
    assert other_web.post(reverse("run-retry", args=[run.pk])).status_code == 404
    assert other_web.post(reverse("layout-teardown", args=[layout.pk])).status_code == 404


@pytest.mark.parametrize("action", ["start", "pause", "resume", "plan", "retry", "add-repeats"])
def test_a_link_changes_nothing(web, campaign, action):
    assert web.get(url(f"campaign-{action}", campaign)).status_code == 405


def test_the_page_has_every_part(web, campaign):
    text = web.get(url("campaign-detail", campaign)).text
    for name in (
        "acts",
        "work",
        "live",
        "plan",
        "scale",
        "heat",
        "running",
        "disks",
        "results",
        "log",
    ):
        assert f'id="campaign-{name}"' in text
    assert f'sse-connect="{url("campaign-events", campaign)}"' in text


def swapped(text: str) -> list[str]:
    return re.findall(r'id="campaign-([a-z]+)"[^>]* hx-swap-oob="true"', text)


def test_a_live_page_asks_for_all_of_it_at_once(htmx, web, campaign):
    """One request for a change, however much of the page is live."""
    page = web.get(url("campaign-detail", campaign)).text
    assert page.partition("<main")[2].count("hx-get=") == 1  # the search above it asks as well
    text = now(htmx, campaign, "?plan=pending").text
    assert "<html" not in text and text.count("hx-get=") == 1
    assert swapped(text) == [
        "state",
        "acts",
        "parts",
        "work",
        "live",
        "plan",
        "scale",
        "heat",
        "running",
        "disks",
        "answers",
        "results",
        "log",
    ]


def test_what_has_charts_and_did_not_change_is_left_alone(htmx, campaign):
    text = now(htmx, campaign, "?running=&results=").text
    assert swapped(text) == ["state", "acts", "parts", "work", "live", "scale", "heat", "log"]


def test_a_plan_that_is_there_is_left_alone(htmx, web, campaign):
    """Somebody may just be writing into it."""
    text = web.get(url("campaign-detail", campaign)).text
    assert "plan=pending" in text
    planned(campaign)
    text = now(htmx, campaign, "?running=&results=&plan=pending").text
    assert "plan" in swapped(text) and "plan=pending" not in text
    assert "plan" not in swapped(now(htmx, campaign, "?running=&results=").text)


def test_all_of_the_log_stays_all_of_it(htmx, web, campaign):
    text = web.get(url("campaign-detail", campaign) + "?log=all").text
    assert "?log=all&amp;" in text
    assert "?log=all&amp;" in now(htmx, campaign, "?log=all").text


def test_what_a_page_was_asked_for_is_asked_for_when_it_is_live_too(htmx, web, campaign):
    """Else the cards that arrive with the second result show another metric than the first."""
    asks = "?metric=lat&moment=built"
    for text in (
        web.get(url("campaign-detail", campaign) + asks).text,
        now(htmx, campaign, f"{asks}&running=1&results=w1").text,
    ):
        (again,) = re.findall(r'hx-get="([^"]*)"', text.rpartition("<main")[2])
        assert "metric=lat&amp;moment=built" in again
        assert again.count("results=") == again.count("running=") == 1


def test_another_team_is_not_told_what_is_live(other_user, campaign):
    client = Client(headers={"HX-Request": "true"})
    client.force_login(other_user)
    assert now(client, campaign).status_code == 404


def test_the_page_of_a_campaign_that_is_over_asks_no_more(htmx, web, campaign, attempts):
    """It only listens: a retry is told."""
    assert 'hx-trigger="sse:changed, every 5s"' in now(htmx, campaign).text
    for attempt in attempts:
        end(attempt, Outcome.SUCCEEDED)
    campaign.layouts.update(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)
    answer = now(htmx, campaign, "?running=&results=")
    assert swapped(answer.text) == [
        "state",
        "acts",
        "parts",
        "work",
        "live",
        "scale",
        "heat",
        "running",
        "disks",
        "answers",
        "results",
        "log",
    ]
    assert 'hx-trigger="sse:changed"' in answer.text
    assert ", every" not in web.get(url("campaign-detail", campaign)).text


def test_a_change_costs_few_queries(htmx, campaign, attempts, django_assert_max_num_queries):
    """Once for all that is live: apart its parts took more than forty. Of shown results few numbers are read."""
    for attempt in attempts[:2]:
        end(attempt, Outcome.SUCCEEDED)
        Measurement.objects.create(attempt=attempt, name="iops", value=9.0, unit="op/s")
    shown = unescape(re.findall('hx-get="([^"]+)"', now(htmx, campaign).text)[0])
    with django_assert_max_num_queries(14):
        answer = htmx.get(shown, headers={"HX-Target": "campaign-now"})
    assert (
        swapped(answer.text) == ["state", "acts", "parts", "work", "live", "scale", "heat", "log"]
        and "9 IOPS, one repeat" in answer.text
    )


def test_the_page_costs_the_same_queries_however_many_runs(
    web, team, user, host, directory, workload, django_assert_max_num_queries
):
    made = create_campaign(
        team=team, user=user, name="big", question="", hosts=[host], topologies=[directory],
        workloads=[workload], repeats=20, order="as_written",
    )  # fmt: skip
    with django_assert_max_num_queries(24):
        web.get(url("campaign-detail", made))


def test_a_draft_that_is_being_planned_asks_again(htmx, campaign):
    text = now(htmx, campaign, "?plan=pending").text
    assert "Planning: 1 of 1 layout" in text and "every 2s" in text
    assert "campaign-start" not in text


def test_a_plan_that_failed_says_so_and_cannot_be_started(htmx, campaign):
    campaign.layouts.update(plan_error="no spare ssd", planned_at=timezone.now())
    text = now(htmx, campaign, "?plan=pending").text
    assert "It cannot be built:" in text and "no spare ssd" in text
    assert url("campaign-start", campaign) not in text and "every 2s" not in text


def test_starting_posts_the_fingerprint_that_was_shown(web, campaign):
    layout = planned(campaign)
    answer = web.post(url("campaign-start", campaign), {f"layout-{layout.pk}": "f00d"}, follow=True)
    layout.refresh_from_db()
    assert (layout.phase, layout.confirmed_fingerprint) == (LayoutPhase.WAITING, "f00d")
    assert "Started." in answer.text


def test_a_stale_plan_is_refused_in_words(web, campaign):
    layout = planned(campaign)
    answer = web.post(url("campaign-start", campaign), {f"layout-{layout.pk}": "old"}, follow=True)
    layout.refresh_from_db()
    assert layout.phase == LayoutPhase.DRAFT
    assert "changed since you saw it" in answer.text


def test_pause_and_resume(web, campaign, attempts):
    web.post(url("campaign-pause", campaign))
    campaign.refresh_from_db()
    assert campaign.paused_at
    assert "Resume" in web.get(url("campaign-detail", campaign)).text
    web.post(url("campaign-resume", campaign))
    campaign.refresh_from_db()
    assert campaign.paused_at is None


def test_cancel_asks_first_and_works_twice(web, campaign, attempts):
    assert "Cancel the campaign" in web.get(url("campaign-cancel", campaign)).text
    for _ in range(2):
        assert web.post(url("campaign-cancel", campaign))["Location"] == url(
            "campaign-detail", campaign
        )
    campaign.refresh_from_db()
    assert campaign.cancelled_at
    assert "Cancel again" in web.get(url("campaign-detail", campaign)).text


def test_the_heat_map_fills_in(web, campaign, attempts):
    """Two repeats at each of three depths: those that are not measured say where they are."""
    end(attempts[0], Outcome.SUCCEEDED)
    Measurement.objects.create(attempt=attempts[0], name="iops", value=12345.0, unit="op/s")
    end(attempts[1], Outcome.FAILED, "tool_failed")
    end(attempts[4], Outcome.FAILED, "tool_failed")
    Attempt.objects.filter(pk=attempts[2].pk).update(phase=AttemptPhase.RUNNING)
    heat = web.get(url("campaign-detail", campaign)).context["heat"]
    [span] = heat.spans
    assert (span.name, span.varied, span.heads) == ("Reads", "depth", ("1", "2", "4"))
    [row] = heat.rows
    assert (row.topology, row.host, heat.host) == ("Directory", "", "rig")
    first, second, third = row.cells
    assert ">12.3 k<small>1/2</small></a>" in first and "12.3 k IOPS, one repeat; 1 queued" in first
    assert 'class="fail"' in second and 'title="2 failed">failed</a>' in second
    assert 'class="wait now"' in third and 'title="1 running; 1 queued">running</a>' in third


def test_runs_that_failed_alike_are_told_once_and_retried_together(web, campaign, attempts):
    for attempt in attempts[:2]:
        end(attempt, Outcome.FAILED, "tool_missing", "fio: not found")
    end(attempts[2], Outcome.INTERRUPTED, "host_rebooted")
    failures = web.get(url("campaign-detail", campaign)).context["failures"]
    assert [(f.outcome, len(f.runs)) for f in failures] == [("failed", 2), ("interrupted", 1)]
    assert failures[0].words.do.startswith("Install it")
    web.post(url("campaign-retry", campaign), {"run": [run.pk for run in failures[0].runs]})
    again = Attempt.objects.filter(number=2)
    assert {a.run for a in again} == set(failures[0].runs)
    assert {a.layout.phase for a in again} == {LayoutPhase.DRAFT}


def test_a_run_that_is_not_over_is_not_retried(web, campaign, attempts):
    answer = web.post(reverse("run-retry", args=[attempts[0].run_id]), follow=True)
    assert "is not over yet" in answer.text
    assert not Attempt.objects.filter(number=2).exists()


def test_a_stuck_layout_says_what_to_do_and_is_torn_down_again(web, campaign):
    campaign.layouts.update(
        phase=LayoutPhase.STUCK, outcome=Outcome.FAILED, trouble="sdb still has an xfs signature"
    )
    layout = campaign.layouts.get()
    text = web.get(url("campaign-detail", campaign)).text
    assert "sdb still has an xfs signature" in text and "Tear down again" in text
    assert "stuck: sdb still" in text and "retrying" not in text
    web.post(reverse("layout-teardown", args=[layout.pk]))
    layout.refresh_from_db()
    assert layout.phase == LayoutPhase.TEARING_DOWN
    again = web.post(reverse("layout-teardown", args=[layout.pk]), follow=True)
    assert "is not stuck" in again.text


def test_the_page_is_in_the_order_of_what_one_asks_for(web, campaign, attempts):
    """First what goes on, then what came of it, then the run that is measured; what may be done stands in the title
    row.
    """
    end(attempts[0], Outcome.SUCCEEDED)
    Measurement.objects.create(attempt=attempts[0], name="iops", value=9.0, unit="op/s")
    Attempt.objects.filter(pk=attempts[1].pk).update(phase=AttemptPhase.RUNNING)
    text = web.get(url("campaign-detail", campaign)).text
    marks = (
        'id="do-pause"', 'id="do-cancel"', 'id="campaign-work"', 'class="two"', 'id="campaign-results"',
        'data-figure-url="/campaigns/', 'id="heat-title"', 'id="campaign-running"', 'data-refresh="3"',
        'id="log-title"', 'id="campaign-disks"', 'id="how"',
    )  # fmt: skip
    places = [text.find(mark) for mark in marks]
    assert -1 not in places and places == sorted(places)
    assert 'class="tabs"' not in text


def test_a_campaign_that_is_over_leads_to_its_parts(web, campaign, attempts):
    for attempt in attempts:
        end(attempt, Outcome.SUCCEEDED)
    campaign.layouts.update(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)
    text = web.get(url("campaign-detail", campaign)).text
    parts = text.partition('id="campaign-parts"')[2].partition("</nav>")[0]
    anchors = re.findall('href="#([^"]+)"', parts)
    assert anchors[0] == "campaign-answers" and {"how", "talk", "log-title"} < set(anchors)
    assert all(f'id="{one}"' in text for one in anchors)
    (runs,) = re.findall('href="(/runs/[^"]+)"', parts)
    assert f">{attempts[0].run_id}<" in web.get(runs).text
    assert "do-pause" not in text and "do-cancel" not in text


def test_a_plan_has_the_whole_width(web, campaign):
    planned(campaign)
    assert 'class="two"' not in web.get(url("campaign-detail", campaign)).text


def test_the_running_point_has_a_live_chart(web, campaign, attempts):
    Attempt.objects.filter(pk=attempts[0].pk).update(
        phase=AttemptPhase.RUNNING, started_at=timezone.now()
    )
    text = web.get(url("campaign-detail", campaign)).text
    assert (
        f'data-figure-url="{reverse("attempt-live-figure", args=[attempts[0].pk])}?disks=own"'
        in text
    )
    assert f"?running={attempts[0].pk}&" in text


def test_the_running_point_shows_all_disks_when_they_are_asked_for(htmx, web, campaign, attempts):
    Attempt.objects.filter(pk=attempts[0].pk).update(phase=AttemptPhase.RUNNING)
    figure = reverse("attempt-live-figure", args=[attempts[0].pk])
    for text in (
        web.get(url("campaign-detail", campaign), {"disks": "all"}).text,
        now(htmx, campaign, "?disks=all").text,
    ):
        assert f'data-figure-url="{figure}"' in text and "disks=all&amp;running=" in text
