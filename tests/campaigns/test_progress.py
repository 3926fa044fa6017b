"""A campaign's state, counts and remaining time follow from its layouts and attempts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import registration
from benchlab.hosts.models import Credential
from benchlab.runs import progress
from benchlab.runs.models import Attempt
from benchlab.runs.progress import State
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome

pytestmark = pytest.mark.django_db
P = LayoutPhase
OUTCOMES = dict.fromkeys((P.DONE, P.TEARING_DOWN, P.STUCK), Outcome.SUCCEEDED)


CASES = [
    ({P.DRAFT: 2}, (), State.DRAFT),
    ({P.WAITING: 2}, (), State.QUEUED),
    ({P.WAITING: 1, P.READY: 1}, (), State.RUNNING),
    ({P.DONE: 1, P.TEARING_DOWN: 1}, (), State.RUNNING),
    ({P.READY: 1}, ("paused_at",), State.PAUSED),
    ({P.READY: 1}, ("paused_at", "cancelled_at"), State.CANCELLING),
    ({P.STUCK: 1, P.READY: 1}, ("cancelled_at",), State.STUCK),
    ({P.DONE: 2}, ("cancelled_at",), State.CANCELLED),
    ({P.DONE: 2}, ("paused_at",), State.DONE),
    ({P.DONE: 2}, (), State.DONE),
    ({P.DONE: 2, P.DRAFT: 1}, (), State.DRAFT),
    ({P.READY: 2, P.DRAFT: 1}, (), State.RUNNING),
]


@pytest.mark.parametrize(("phases", "wishes", "expected"), CASES)
def test_the_state_follows_from_layouts_and_wishes(phases, wishes, expected):
    campaign = Campaign(**{name: timezone.now() for name in wishes})
    assert progress.derive_state(campaign, phases) == expected


@pytest.mark.parametrize(("phases", "wishes", "expected"), CASES)
def test_the_database_orders_by_the_same_state(phases, wishes, expected, campaign):
    layout, key = campaign.layouts.first(), Credential.objects.first()
    campaign.layouts.all().delete()
    for number, phase in enumerate(phases):
        host = registration.add_host(
            campaign.team, f"{number}", "192.0.2.9", key, port=100 + number
        )
        layout.pk, layout.host, layout.phase = None, host, phase
        layout.outcome = OUTCOMES.get(phase, "")
        layout.save()
    Campaign.objects.filter(pk=campaign.pk).update(**{name: timezone.now() for name in wishes})
    found = Campaign.objects.annotate(place=progress.state_rank()).get(pk=campaign.pk)
    assert progress.STATE_ORDER[found.place] == expected == progress.campaign_progress(found).state
    campaign.layouts.exclude(phase=P.DONE).update(needs_person="Look at it.")
    found = Campaign.objects.annotate(place=progress.state_rank()).get(pk=campaign.pk)
    assert progress.STATE_ORDER[found.place] == progress.campaign_progress(found).state


def test_every_state_has_a_place():
    assert set(progress.STATE_ORDER) == set(State)


def share_ended(campaign: Campaign) -> float | None:
    rows = Campaign.objects.annotate(share=progress.share_ended())
    return rows.values_list("share", flat=True).get(pk=campaign.pk)


def test_the_database_orders_by_the_share_of_runs_that_ended(campaign):
    attempts = Attempt.objects.filter(run__campaign=campaign).order_by("pk")
    runs = attempts.count()
    assert runs > 2 and share_ended(campaign) == 0.0
    first = attempts.first()
    done = {"phase": AttemptPhase.DONE, "outcome": Outcome.FAILED, "ended_at": timezone.now()}
    Attempt.objects.filter(pk=first.pk).update(**done)
    assert share_ended(campaign) == progress.campaign_progress(campaign).ended / runs == 1 / runs
    Attempt.objects.create(run=first.run, layout=first.layout, number=first.number + 1)
    assert share_ended(campaign) == progress.campaign_progress(campaign).ended / runs == 0.0
    attempts.update(**done)
    campaign.layouts.update(phase=P.DONE, outcome=Outcome.FAILED)
    assert share_ended(campaign) == progress.campaign_progress(campaign).ended / runs == 1.0


def test_without_runs_no_share_of_them_has_ended(team):
    assert share_ended(Campaign.objects.create(team=team, name="empty", seed=1)) is None


def test_a_host_that_is_cut_off_leaves_no_time_to_tell(campaign):
    """Its page said "running, about 2 min left" while nobody could reach it."""
    open_layout(campaign)
    assert progress.campaign_progress(campaign).eta_s is not None
    campaign.layouts.update(trouble="lab1: no answer (timed out)")
    found = progress.campaign_progress(campaign)
    assert (found.state, found.eta_s, found.trouble) == (
        State.RUNNING,
        None,
        "lab1: no answer (timed out)",
    )
    campaign.layouts.update(phase=P.DONE, outcome=Outcome.SUCCEEDED)
    assert progress.campaign_progress(campaign).trouble == ""


@pytest.mark.parametrize(("seconds", "silent"), [(20, False), (50, True)])
def test_a_host_that_falls_silent_during_a_run_is_named(campaign, seconds, silent):
    """A connection that is cut gives no error for minutes; the page said "1 running, about 34 s left"."""
    open_layout(campaign)
    running = {"phase": AttemptPhase.RUNNING, "started_at": timezone.now()}
    seen = timezone.now() - timedelta(seconds=seconds)
    Attempt.objects.filter(pk=Attempt.objects.first().pk).update(**running, seen_at=seen)
    found = progress.campaign_progress(campaign)
    host = campaign.layouts.first().host
    assert (found.eta_s is None, found.trouble) == (
        (True, f"{host} has not answered for 50 s") if silent else (False, "")
    )


def end(attempt: Attempt, outcome: str = Outcome.SUCCEEDED, took: float = 20.0) -> None:
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        phase=AttemptPhase.DONE, outcome=outcome,
        started_at=now - timedelta(seconds=took), ended_at=now,
    )  # fmt: skip


def open_layout(campaign: Campaign, phase: LayoutPhase = P.READY) -> None:
    campaign.layouts.update(phase=phase)
    Campaign.objects.filter(pk=campaign.pk).update(started_at=timezone.now())


def test_runs_are_counted_by_their_latest_attempt(campaign):
    open_layout(campaign)
    attempts = list(Attempt.objects.order_by("run__position"))
    end(attempts[0])
    end(attempts[1], Outcome.FAILED)
    Attempt.objects.create(run=attempts[1].run, layout=attempts[1].layout, number=2)
    end(attempts[2], Outcome.ERRORED)
    Attempt.objects.filter(pk=attempts[3].pk).update(
        phase=AttemptPhase.RUNNING, started_at=timezone.now()
    )
    found = progress.campaign_progress(campaign)
    assert found.counts == {"succeeded": 1, "errored": 1, "running": 1, "queued": 3}
    assert (found.runs, found.ended, found.not_succeeded) == (6, 2, 1)
    assert found.shown_counts[0] == ("succeeded", 1)


def test_the_eta_is_calibrated_by_what_runs_really_took(campaign):
    open_layout(campaign)
    assert progress.campaign_progress(campaign).eta_s == pytest.approx(6 * 10 + 10)
    end(Attempt.objects.order_by("run__position")[0], took=20)
    assert progress.campaign_progress(campaign).eta_s == pytest.approx(5 * 20 + 10)


def test_a_running_attempt_counts_down_and_never_below_nothing(campaign):
    open_layout(campaign)
    first = Attempt.objects.order_by("run__position")[0]
    Attempt.objects.filter(pk=first.pk).update(
        phase=AttemptPhase.RUNNING, started_at=timezone.now() - timedelta(seconds=4)
    )
    # By the database's clock, which goes on.
    assert progress.campaign_progress(campaign).eta_s == pytest.approx(50 + 6 + 10, abs=3)
    Attempt.objects.filter(pk=first.pk).update(started_at=timezone.now() - timedelta(hours=1))
    assert progress.campaign_progress(campaign).eta_s == pytest.approx(50 + 10)


def ago(seconds: float):
    return timezone.now() - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("fields", "building"),
    [
        ({"phase": P.WAITING}, 20),
        ({"phase": P.PROVISIONING}, 10),  # of before anybody noted when
        ({"phase": P.PROVISIONING, "begun_at": 4}, 16),
        ({"phase": P.PROVISIONING, "begun_at": 300}, 10),  # it is still to be taken down
        ({"phase": P.READY, "begun_at": 300}, 10),
        ({"phase": P.TEARING_DOWN, "outcome": Outcome.SUCCEEDED, "down_at": 4}, 6),
        ({"phase": P.TEARING_DOWN, "outcome": Outcome.SUCCEEDED, "down_at": 300}, 0),
    ],
)
def test_the_eta_counts_building_and_taking_down(campaign, still, fields, building):
    """20 s are expected of both, beside six runs of 10 s."""
    at = {name: ago(value) for name, value in fields.items() if name.endswith("_at")}
    campaign.layouts.update(**fields | at)
    found = progress.campaign_progress(campaign)
    assert found.eta_s == pytest.approx(60 + building)
    assert found.ends_at == ago(-60 - building)


def test_what_is_over_or_not_started_has_no_eta(campaign):
    assert progress.campaign_progress(campaign).eta_s is None
    campaign.layouts.update(phase=P.DONE, outcome=Outcome.SUCCEEDED)
    assert progress.campaign_progress(campaign).eta_s is None


def test_many_campaigns_cost_two_queries(
    campaign, team, user, host, directory, workload, django_assert_num_queries
):
    for name in "abc":
        create_campaign(
            team=team, user=user, name=name, question="", hosts=[host], topologies=[directory],
            workloads=[workload], repeats=1, order="as_written",
        )  # fmt: skip
    rows = list(Campaign.objects.all())
    with django_assert_num_queries(2):
        assert len(progress.progress_by_campaign(rows)) == 4
