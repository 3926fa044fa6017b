"""More repeats of points that were measured: on layouts that still take runs, else on a further visit of each."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign, Run
from benchlab.engine import commands, new_runs
from benchlab.engine.access import begin_teardown
from benchlab.engine.decisions import BeginTeardown
from benchlab.engine.load_state import load_rows as load_rows
from benchlab.engine.new_runs import create_campaign
from benchlab.runs import repeat_offers, transitions
from benchlab.runs.models import Attempt
from benchlab.runs.repeat_offers import RepeatGoal
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.topologies.models import Topology
from tests.api.conftest import client_of
from tests.campaigns.conftest import DIRECTORY

pytestmark = pytest.mark.django_db


def over(campaign: Campaign) -> None:
    """Everything of it was measured, and taken down."""
    Attempt.objects.filter(run__campaign=campaign).update(
        phase=AttemptPhase.DONE, outcome=Outcome.SUCCEEDED
    )
    campaign.layouts.update(phase=LayoutPhase.DONE, outcome=Outcome.SUCCEEDED)


@pytest.fixture
def pair(team, user, host, directory, workload) -> Campaign:
    """Two set-ups, A before B, two repeats at three depths, all over."""
    other = Topology.objects.create(team=team, name="Z other", stack=DIRECTORY)
    made = create_campaign(
        team=team, user=user, name="A or B", question="", hosts=[host], topologies=[directory, other],
        workloads=[workload], repeats=2, order="as_written", seed=7,
    )  # fmt: skip
    over(made)
    return made


def added(campaign: Campaign) -> list[Run]:
    return list(campaign.runs.filter(repeat__gt=2).order_by("position"))


def test_of_a_campaign_that_is_over_each_set_up_gets_a_further_visit_in_the_reverse_order(pair):
    like = [run.pk for run in pair.runs.filter(repeat=1, point__in=[{"depth": 1}, {"depth": 4}])]
    assert new_runs.add_repeats(pair, like, 2) == 8
    drafts = list(pair.layouts.filter(phase=LayoutPhase.DRAFT).order_by("position"))
    assert [(row.topology.name, row.visit, row.position) for row in drafts] == [
        ("Z other", 2, 2), ("Directory", 2, 3),
    ]  # fmt: skip
    runs = added(pair)
    assert [(r.topology.name, r.repeat, r.point["depth"], r.visit) for r in runs] == [
        (name, repeat, depth, 2)
        for name in ("Z other", "Directory")
        for repeat in (3, 4)
        for depth in (1, 4)
    ]
    assert [run.position for run in runs] == list(range(12, 20))
    for run in runs:
        [attempt] = run.attempts.all()
        assert (attempt.phase, attempt.layout.topology_id) == (AttemptPhase.QUEUED, run.topology_id)
    first = pair.runs.get(topology__name="Directory", repeat=1, point={"depth": 4})
    same = next(r for r in runs if r.topology_id == first.topology_id and r.point == first.point)
    for name in ("tool", "options", "stage", "outstanding", "workload_id", "host_id", "expected_s"):
        assert getattr(same, name) == getattr(first, name)


def test_nothing_runs_before_its_plan_is_agreed_to(pair):
    new_runs.add_repeats(pair, [pair.runs.first().pk], 1)
    [draft] = pair.layouts.filter(phase=LayoutPhase.DRAFT)
    assert (draft.plan, draft.confirmed_fingerprint) == (None, "")
    with pytest.raises(commands.CommandError, match="not planned yet"):
        commands.start_campaign(pair, {draft.pk: ""})


def test_blocks_are_shuffled_as_the_campaign_is(pair):
    pair.order = "random_blocks"
    pair.save()
    like = [run.pk for run in pair.runs.filter(repeat=1, topology__name="Directory")]
    new_runs.add_repeats(pair, like, 8)
    blocks: dict[int, list[int]] = {}
    for run in added(pair):
        blocks.setdefault(run.repeat, []).append(run.point["depth"])
    assert sorted(blocks) == list(range(3, 11))
    assert all(sorted(block) == [1, 2, 4] for block in blocks.values())
    assert len({tuple(block) for block in blocks.values()}) > 1


@pytest.mark.parametrize("phase", [LayoutPhase.DRAFT, LayoutPhase.WAITING, LayoutPhase.READY])
def test_a_layout_that_still_takes_runs_gets_them_in_place(campaign, phase):
    campaign.layouts.update(phase=phase)
    new_runs.add_repeats(campaign, [campaign.runs.first().pk], 1)
    [layout] = campaign.layouts.all()
    [run] = added(campaign)
    assert (run.attempts.get().layout, run.visit, run.position) == (layout, 1, 6)


@pytest.mark.parametrize("phase", [LayoutPhase.TEARING_DOWN, LayoutPhase.STUCK, LayoutPhase.DONE])
def test_one_that_takes_none_any_more_is_built_once_more(campaign, phase):
    campaign.layouts.update(phase=phase, outcome=Outcome.SUCCEEDED)
    new_runs.add_repeats(campaign, [campaign.runs.first().pk], 1)
    [run] = added(campaign)
    assert (run.attempts.get().layout.phase, run.visit) == (LayoutPhase.DRAFT, 2)


def test_a_layout_that_grows_is_not_gone_back_to(campaign):
    campaign.layouts.update(phase=LayoutPhase.READY, stages=[{"devices": []}])
    new_runs.add_repeats(campaign, [campaign.runs.first().pk], 1)
    assert added(campaign)[0].visit == 2


def test_what_the_kernel_does_meanwhile_is_measured_once_a_build(campaign):
    campaign.runs.update(stage="resync")
    over(campaign)
    new_runs.add_repeats(campaign, [campaign.runs.first().pk], 3)
    assert [(run.stage, run.repeat) for run in added(campaign)] == [("resync", 3)]


def test_a_layout_does_not_go_down_while_it_has_runs_that_came_meanwhile(campaign):
    """The engine found nothing left to do; before it acts, repeats are added."""
    campaign.layouts.update(phase=LayoutPhase.READY)
    Attempt.objects.filter(run__campaign=campaign).update(
        phase=AttemptPhase.DONE, outcome=Outcome.SUCCEEDED
    )
    [layout] = campaign.layouts.all()
    decided_on = load_rows(layout.pk)
    new_runs.add_repeats(campaign, [campaign.runs.first().pk], 1)
    with pytest.raises(transitions.Moved):
        begin_teardown(decided_on, BeginTeardown(Outcome.SUCCEEDED))
    layout.refresh_from_db()
    assert layout.phase == LayoutPhase.READY


def test_the_same_wish_twice_adds_once(pair):
    like = [pair.runs.first().pk]
    new_runs.add_repeats(pair, like, 2, after=2)
    with pytest.raises(commands.CommandError, match="added in the meantime"):
        new_runs.add_repeats(pair, like, 2, after=2)
    assert pair.runs.filter(repeat__gt=2).count() == 2


@pytest.mark.parametrize(("repeats", "says"), [(0, "1 to 30"), (31, "1 to 30")])
def test_as_many_as_are_in_reason(pair, repeats, says):
    with pytest.raises(commands.CommandError, match=says):
        new_runs.add_repeats(pair, [pair.runs.first().pk], repeats)


def test_runs_of_another_campaign_are_refused(pair, campaign):
    with pytest.raises(commands.CommandError, match="not of this campaign"):
        new_runs.add_repeats(pair, [campaign.runs.first().pk, pair.runs.first().pk], 1)
    with pytest.raises(commands.CommandError, match="No run"):
        new_runs.add_repeats(pair, [], 1)


def test_what_was_measured_elsewhere_gets_none(pair):
    pair.source = "imported"
    pair.save()
    with pytest.raises(commands.CommandError, match="elsewhere"):
        new_runs.add_repeats(pair, [pair.runs.first().pk], 1)


def test_a_cancelled_campaign_goes_on_with_them_alone(pair):
    Campaign.objects.filter(pk=pair.pk).update(cancelled_at=timezone.now())
    new_runs.add_repeats(pair, [pair.runs.first().pk], 1)
    pair.refresh_from_db()
    assert pair.cancelled_at is None


def test_an_offer_says_how_many_runs_and_how_long(pair, django_assert_num_queries):
    runs = [run.pk for run in pair.runs.filter(repeat=1)]
    with django_assert_num_queries(3):
        [offer] = repeat_offers.repeat_offers(pair, [RepeatGoal(runs, 5)])
    assert offer is not None
    assert (offer.repeats, offer.points, offer.after) == (3, 6, 2)
    assert offer.seconds == 3 * 6 * 10 + 2 * 20  # both layouts are built once more
    assert sorted(offer.runs) == sorted(runs)


def test_what_is_queued_is_not_offered_again(pair):
    runs = [run.pk for run in pair.runs.filter(repeat=1)]
    new_runs.add_repeats(pair, runs, 3)
    assert repeat_offers.repeat_offers(pair, [RepeatGoal(runs, 5)]) == [None]
    [more] = repeat_offers.repeat_offers(pair, [RepeatGoal(runs, 6)])
    # The drafts are built anyway
    assert more is not None and (more.repeats, more.seconds) == (
        1,
        6 * 10,
    )


def test_a_layout_that_stands_costs_no_building(campaign):
    campaign.layouts.update(phase=LayoutPhase.READY)
    [offer] = repeat_offers.repeat_offers(campaign, [RepeatGoal([campaign.runs.first().pk], 4)])
    assert offer is not None and (offer.repeats, offer.seconds) == (2, 20.0)


def test_a_run_that_failed_is_no_repeat(pair):
    [run] = pair.runs.filter(topology__name="Directory", repeat=2, point={"depth": 1})
    run.attempts.update(outcome=Outcome.FAILED)
    [offer] = repeat_offers.repeat_offers(pair, [RepeatGoal([run.pk], 3)])
    assert offer is not None and offer.repeats == 2


def url(campaign: Campaign) -> str:
    return reverse("campaign-add-repeats", args=[campaign.pk])


def test_the_button(web, pair):
    runs = ",".join(str(run.pk) for run in pair.runs.filter(repeat=1))
    said = {"runs": runs, "repeats": "2", "after": "2"}
    page = web.post(url(pair), said, follow=True).content.decode()
    assert "12 runs were added" in page and "Nothing runs before" in page
    assert pair.runs.filter(repeat__gt=2).count() == 12
    again = web.post(url(pair), said, follow=True).content.decode()
    assert "added in the meantime" in again
    assert pair.runs.filter(repeat__gt=2).count() == 12
    kept = Entry.objects.filter(action="campaign-add-repeats").order_by("pk")
    assert [one.outcome for one in kept] == ["done", "refused"]


def test_the_plan_says_what_is_built_once_more(web, pair):
    new_runs.add_repeats(pair, [run.pk for run in pair.runs.filter(repeat=1)], 2)
    page = web.get(reverse("campaign-detail", args=[pair.pk])).content.decode()
    assert "Built once more, for added repeats" in page
    assert "ABBA: each layout is built" not in page


@pytest.mark.parametrize("said", [{}, {"runs": "x", "repeats": "1"}, {"runs": "1", "repeats": "y"}])
def test_nonsense_adds_nothing(web, pair, said):
    before = pair.runs.count()
    assert web.post(url(pair), said, follow=True).status_code == 200
    assert pair.runs.count() == before


def test_a_further_visit_has_half_as_many_repeats_as_there_are(pair):
    """Fewer would not count as a turn. Two of each are there, and three would do."""
    runs = [run.pk for run in pair.runs.filter(repeat=1)]
    for run in list(pair.runs.filter(repeat=2)):  # now six of each
        for repeat in range(3, 7):
            again = Run.objects.get(pk=run.pk)
            again.pk, again.repeat, again.position = None, repeat, pair.runs.count()
            again.save()
            run.attempts.get().__class__.objects.create(
                run=again, layout=run.attempts.get().layout, phase=AttemptPhase.DONE,
                outcome=Outcome.SUCCEEDED,
            )  # fmt: skip
    [offer] = repeat_offers.repeat_offers(pair, [RepeatGoal(runs, 7)])
    assert offer is not None and offer.repeats == 3


def test_the_api_adds_them_once_for_one_key(user, pair):
    api, runs = client_of(user), [run.pk for run in pair.runs.filter(repeat=1)]
    where, body = f"/api/campaigns/{pair.pk}/add-repeats/", {"runs": runs, "repeats": 1}
    for _ in range(2):
        answer = api.post(where, body, format="json", headers={"Idempotency-Key": "once"})
        assert (answer.status_code, answer.json()["progress"]["drafts"]) == (200, 2)
    assert pair.runs.filter(repeat=3).count() == 6
    stale = api.post(where, {**body, "after": 2}, format="json")
    assert stale.status_code == 409 and "meantime" in stale.json()["detail"]
    assert api.post(where, {**body, "repeats": 31}, format="json").status_code == 400
    assert api.post(where, {**body, "runs": []}, format="json").status_code == 400
