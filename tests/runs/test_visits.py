"""Campaigns in the order ABBA, on this machine: each visit is planned, built, measured and taken down by itself."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise

import pytest
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from agents.facts.model import Signature
from benchlab.campaigns import cost
from benchlab.campaigns.models import Workload
from benchlab.charts.queries import read_groups
from benchlab.engine import commands, load_state, new_runs
from benchlab.engine import tasks as engine
from benchlab.engine.checks import previews
from benchlab.engine.decide import built
from benchlab.engine.decisions import AcquireHost, Wait
from benchlab.engine.new_runs import create_campaign
from benchlab.pages.campaigns import heat
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase as P
from benchlab.topologies.models import Topology
from benchlab.verdicts import builds
from tests.hosts.conftest import disk
from tests.runs import drive, local_host
from tests.runs.paper_host import TOY, confirmed, paper, toy

__all__ = ["paper", "toy"]

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {"block_size": 65536, "count": 16}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def make_campaign(server, team, user, tmp_path):
    tmp_path.chmod(0o755)
    here = local_host.register(team, *server)

    def make(repeats=3, options=SMALL, sweep=None, order="abba"):
        rows = [
            Topology.objects.create(
                team=team, name=name,
                stack=[{"kind": "directory", "options": {"path": str(tmp_path / name)}, "devices": []}],
            )
            for name in ("first", "second")
        ]  # fmt: skip
        workload = Workload.objects.create(
            team=team, name="dd", tool="dd", options=options, sweep=sweep or {}
        )
        return create_campaign(
            team=team, user=user, name="abba", question="", hosts=[here], topologies=rows,
            workloads=[workload], repeats=repeats, order=order, seed=7,
        )  # fmt: skip

    return make


def in_order(campaign) -> list[Layout]:
    return list(campaign.layouts.order_by("begun_at").select_related("topology"))


def step_alone(layout: Layout, to: str) -> None:
    """Nothing else is stepped until it has come so far."""
    until = time.monotonic() + 60
    while Layout.objects.get(pk=layout.pk).phase != to:
        assert time.monotonic() < until
        engine.step_until_waiting(layout.pk)


def test_layouts_take_turns_and_each_is_down_before_the_next(make_campaign):
    campaign = make_campaign()
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    built = in_order(campaign)
    a, b = built[0].topology, built[1].topology
    assert [(one.topology, one.visit) for one in built] == [(a, 1), (b, 1), (b, 2), (a, 2)]
    assert [one.position for one in built] == [0, 1, 2, 3]
    for one in built:
        assert one.outcome == "succeeded", one.reason_text
        assert one.begun_at < one.ready_at < one.down_at < one.ended_at
        assert one.build_s > 0 and one.teardown_s > 0
    for one, then in pairwise(built):
        assert one.ended_at <= then.begun_at, "it was down, and looked at, before the next began"
    # Whole blocks: two repeats in the first visit, one in the second.
    done = Attempt.objects.filter(run__campaign=campaign)
    assert {(n.layout.visit, n.run.visit) for n in done.select_related("layout", "run")} == {
        (1, 1),
        (2, 2),
    }
    assert Counter(done.values_list("run__topology", "run__visit")) == {
        (t.pk, visit): n for t in (a, b) for visit, n in ((1, 2), (2, 1))
    }
    assert not done.exclude(outcome="succeeded").exists()


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_all_visits_of_a_layout_are_one_set_up(make_campaign, user):
    campaign = make_campaign(repeats=2, sweep={"block_size": [4096, 65536]})
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    lines = read_groups(user, [campaign.pk])
    assert len(lines) == 4  # two layouts, two block sizes
    for line in lines:
        assert [(s.repeat, s.visit, s.repeat_text) for s in line.samples] == [
            (1, 1, "repeat 1"),
            (2, 2, "repeat 2, visit 2"),
        ]
        assert not line.has_unlike_repeats, "rebuilt equals have equal fingerprints"
        assert len({s.fingerprint for s in line.samples}) == 1 and line.samples[0].fingerprint
    rows = heat.build_heat_map(campaign, lines, QueryDict()).rows
    assert [row.topology for row in rows] == ["first", "second"]
    assert all("median of 2 repeats" in cell for row in rows for cell in row.cells)


@pytest.mark.night
def test_later_estimates_know_how_long_building_took(make_campaign):
    campaign = make_campaign(repeats=2)
    [host] = {one.host for one in campaign.layouts.select_related("host")}
    topologies = list(Topology.objects.order_by("pk"))
    before = cost.estimate_builds([host], topologies)
    assert {one.learned for one in before.values()} == {False}
    assert {one.expected_s for one in campaign.layouts.all()} == {20.0}
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    Layout.objects.filter(campaign=campaign, visit=2).update(rebuilds=1)  # was cut off: no example
    found = cost.estimate_builds([host], topologies)
    for topology in topologies:
        one = found[host.pk, topology.pk]
        like = campaign.layouts.get(topology=topology, visit=1)
        assert one.learned and one.seconds == pytest.approx(like.build_s + like.teardown_s)
    Topology.objects.filter(pk=topologies[0].pk).update(stack=[])
    topologies[0].refresh_from_db()
    assert not cost.estimate_builds([host], topologies)[host.pk, topologies[0].pk].learned


@pytest.mark.night
def test_a_retry_of_one_visit_measures_nothing_of_another(make_campaign):
    campaign = make_campaign(repeats=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    topology = Topology.objects.get(name="first")
    runs = list(campaign.runs.filter(topology=topology).order_by("visit"))
    layouts = [commands.retry_run(run).layout for run in runs]
    assert [(one.visit, one.phase) for one in layouts] == [(1, P.DRAFT), (2, P.DRAFT)]
    assert layouts[0].pk != layouts[1].pk
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    last = [run.attempts.latest("number") for run in runs]
    assert [(n.outcome, n.layout_id) for n in last] == [("succeeded", one.pk) for one in layouts]


@pytest.mark.slow
def test_a_pause_between_two_visits_holds_the_next_one(make_campaign):
    campaign = make_campaign(repeats=2)
    drive.plan_and_start(campaign)
    first = campaign.layouts.get(position=0)
    step_alone(first, P.DONE)
    commands.pause_campaign(campaign)
    for _ in range(3):
        for pk in campaign.layouts.filter(phase=P.WAITING).values_list("pk", flat=True):
            engine.step_until_waiting(pk)
    held = campaign.layouts.exclude(pk=first.pk).values_list("phase", flat=True)
    assert P.WAITING in held and P.DONE not in held
    commands.resume_campaign(campaign)
    drive.to_the_end(campaign)
    assert set(campaign.layouts.values_list("outcome", flat=True)) == {"succeeded"}
    assert [one.position for one in in_order(campaign)] == [0, 1, 2, 3]


@pytest.mark.one_in(1)
@pytest.mark.slow
def test_a_cancel_in_the_first_visit_builds_no_second_one(make_campaign, monkeypatch):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # one thing per step
    campaign = make_campaign(repeats=2)
    drive.plan_and_start(campaign)
    first = campaign.layouts.get(position=0)
    step_alone(first, P.READY)
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign)
    later = campaign.layouts.exclude(pk=first.pk)
    assert set(later.values_list("outcome", "begun_at")) == {("cancelled", None)}
    assert not Attempt.objects.filter(run__campaign=campaign).exclude(phase="done").exists()


@pytest.mark.slow
def test_a_first_visit_that_fails_leaves_the_others_to_go_on(make_campaign):
    campaign = make_campaign(repeats=2)
    drive.plan_and_start(campaign)
    first = campaign.layouts.get(position=0)
    Layout.objects.filter(pk=first.pk).update(
        confirmed_fingerprint="another plan", plan_fingerprint="another plan"
    )
    drive.to_the_end(campaign)
    outcomes = dict(campaign.layouts.values_list("position", "outcome"))
    assert outcomes == {0: "failed", 1: "succeeded", 2: "succeeded", 3: "succeeded"}
    first.refresh_from_db()
    assert first.reason == "plan_stale"


@pytest.mark.parametrize("phase", [P.WAITING, P.PROVISIONING, P.READY, P.TEARING_DOWN, P.STUCK])
def test_a_visit_waits_until_the_one_before_it_is_proven_blank(make_layout, phase):
    decided = {P.TEARING_DOWN: "succeeded", P.STUCK: "succeeded"}.get(phase, "")
    first = make_layout(phase=phase, position=0, outcome=decided)
    second = make_layout(phase="waiting", position=1, visit=2)
    scene = load_state.load_state(load_state.load_rows(second.pk))
    assert scene.waits_for_earlier and isinstance(built.decide_waiting(scene), Wait)
    Layout.objects.filter(pk=first.pk).update(
        phase=P.DONE, outcome="succeeded", ended_at=timezone.now()
    )
    scene = load_state.load_state(load_state.load_rows(second.pk))
    assert not scene.waits_for_earlier and isinstance(built.decide_waiting(scene), AcquireHost)


def test_what_came_onto_a_disk_between_two_visits_is_not_wiped(make_layout, paper):
    """It was not there when the visits were confirmed; that the first one wiped the disk is no leave for the second."""
    second = confirmed(make_layout(visit=2), TOY)
    Layout.objects.filter(pk=second.pk).update(phase="waiting")
    known = [disk(name) for name in ("sdb", "sdc", "sdd")]
    known[0] = disk("sdb", signatures=(Signature("ext4"),))
    paper.disks(*known)
    for _ in range(3):
        engine.step_until_waiting(second.pk)
    second.refresh_from_db()
    assert (second.outcome, second.reason) == ("failed", "plan_stale")
    assert paper.ran == []


def test_a_disk_that_was_mounted_between_two_visits_is_not_wiped(make_layout, paper):
    second = confirmed(make_layout(visit=2), TOY)
    Layout.objects.filter(pk=second.pk).update(phase="waiting")
    paper.disks(disk("sdb", mounts=("/mnt",)), disk("sdc"), disk("sdd"))
    for _ in range(3):
        engine.step_until_waiting(second.pk)
    second.refresh_from_db()
    assert second.outcome == "failed" and paper.ran == []


def test_each_visit_is_confirmed_by_its_own_plan(make_campaign):
    """One word for all, and yet none of them is built by another's fingerprint."""
    campaign = make_campaign(repeats=2)
    for layout in campaign.layouts.all():
        previews.plan_draft(layout.pk)
    seen = dict(campaign.layouts.values_list("pk", "plan_fingerprint"))
    assert len(set(seen.values())) == 4
    last = max(seen)
    with pytest.raises(commands.CommandError, match="changed since you saw it"):
        commands.start_campaign(campaign, {**seen, last: seen[min(seen)]})
    missing = {pk: seen[pk] for pk in seen if pk != last}
    with pytest.raises(commands.CommandError, match="changed since you saw it"):
        commands.start_campaign(campaign, missing)
    assert set(campaign.layouts.values_list("phase", flat=True)) == {P.DRAFT}


@pytest.fixture
def on_paper(team, user, host, paper):
    """Two topologies that take the same two disks, four layouts, all planned."""
    rows = [
        Topology.objects.create(team=team, name=f"level {n}", stack=[{**TOY, "options": {"level": n}}])
        for n in (5, 6)
    ]  # fmt: skip
    workload = Workload.objects.create(team=team, name="dd", tool="dd", options=SMALL)
    campaign = create_campaign(
        team=team, user=user, name="abba", question="", hosts=[host], topologies=rows,
        workloads=[workload], repeats=3, order="abba", seed=7,
    )  # fmt: skip
    for layout in campaign.layouts.all():
        previews.plan_draft(layout.pk)
    return campaign


def test_the_plan_tells_what_visits_cost_and_is_agreed_to_once(web, on_paper):
    text = web.get(reverse("campaign-detail", args=[on_paper.pk])).text
    assert "each layout is built in 2 visits that take turns" in text
    assert "about 1 min 20 s in all, 40 s of it for the visits after the first" in text
    assert [text.count(f", visit {n} of 2") for n in (1, 2)] == [2, 2]
    # Each disk is shown once, with all visits that take it; commands that only differ in names are there on demand.
    assert text.count("Everything on 2 disks will be destroyed.") == 1
    names = ", ".join(layout.name for layout in on_paper.layouts.order_by("position"))
    assert text.count(f"<td>{names}</td>") == 2
    assert text.count("command: those of bl") == 2
    assert "1 point, 2 times each" in text and "1 point, 1 time each" in text
    assert text.count('name="typed"') == 1 and "destroy 2 disks on lab1" in text
    assert text.count('name="layout-') == 4


def test_one_word_starts_all_visits_and_no_other_word_any(web, on_paper):
    start = reverse("campaign-start", args=[on_paper.pk])
    seen = {f"layout-{pk}": f for pk, f in on_paper.layouts.values_list("pk", "plan_fingerprint")}
    for typed in ("", "destroy 4 disks on lab1", "destroy 2 disks"):
        web.post(start, {**seen, "typed": typed})
        assert set(on_paper.layouts.values_list("phase", flat=True)) == {P.DRAFT}
    web.post(start, {**seen, "typed": "destroy 2 disks on lab1"})
    assert set(on_paper.layouts.values_list("phase", flat=True)) == {P.WAITING}
    for layout in on_paper.layouts.all():
        assert layout.confirmed_fingerprint == layout.plan_fingerprint


def test_a_later_visit_with_other_commands_shows_them(web, on_paper):
    """Its disks may be others by then: what differs is not folded away."""
    second = on_paper.layouts.get(position=3)
    plan = second.plan
    plan["layers"][0]["steps"][0]["argv"].append("--force")
    Layout.objects.filter(pk=second.pk).update(plan=plan)
    text = web.get(reverse("campaign-detail", args=[on_paper.pk])).text
    assert text.count("command: those of bl") == 1


@pytest.mark.night
def test_repeats_that_are_added_make_turns_of_what_was_built_one_after_the_other(
    make_campaign, user
):
    """Really built, measured and taken down: A B, then with two repeats more B A; one set-up each, built in turns."""
    campaign = make_campaign(repeats=2, order="random_blocks")
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    assert designs(user, campaign) == {"one_after_other"}
    like = list(campaign.runs.filter(repeat=1).values_list("pk", flat=True))
    assert new_runs.add_repeats(campaign, like, 2, after=2) == 4
    assert drive_plan(campaign) == 2, "each is looked at and agreed to before it is built"
    drive.to_the_end(campaign)
    built = in_order(campaign)
    a, b = built[0].topology, built[1].topology
    assert [(one.topology, one.visit) for one in built] == [(a, 1), (b, 1), (b, 2), (a, 2)]
    done = Attempt.objects.filter(run__campaign=campaign)
    assert (done.count(), done.filter(outcome="succeeded").count()) == (8, 8)
    assert {len(line.samples) for line in read_groups(user, [campaign.pk])} == {4}
    assert designs(user, campaign) == {"abba"}


def designs(user, campaign) -> set[str]:
    lines = read_groups(user, [campaign.pk])
    known = builds.read_builds(lines)
    return {str(builds.design_of(*pair, known, builds.Lab()).order) for pair in pairwise(lines)}


def drive_plan(campaign) -> int:
    """Plan and start all drafts; returns their number."""
    drafts = campaign.layouts.filter(phase=P.DRAFT).count()
    drive.plan_and_start(campaign)
    return drafts


@pytest.mark.slow
def test_repeats_are_queued_on_a_layout_that_stands(make_campaign, monkeypatch):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # one thing a step: it is seen to stand
    campaign = make_campaign(repeats=1, order="random_blocks")
    drive.plan_and_start(campaign)
    first = campaign.layouts.order_by("position").first()
    step_alone(first, P.READY)
    run = campaign.runs.get(topology=first.topology)
    assert new_runs.add_repeats(campaign, [run.pk], 2) == 2
    drive.to_the_end(campaign)
    assert campaign.layouts.count() == 2, "nothing was built once more"
    done = first.attempts.filter(outcome="succeeded").values_list("run__repeat", flat=True)
    assert sorted(done) == [1, 2, 3]
