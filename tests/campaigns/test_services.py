"""A campaign is frozen when it is made, and what cannot be run is refused by name."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from benchlab.campaigns.estimates import estimate
from benchlab.campaigns.models import Campaign, Run
from benchlab.campaigns.services import Selection, create_workload
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from tests.campaigns.conftest import DIRECTORY, make_host, make_spare

pytestmark = pytest.mark.django_db


def test_a_campaign_is_frozen_into_runs_layouts_and_first_attempts(campaign, host, directory):
    runs = list(campaign.runs.all())
    assert [(r.position, r.repeat, r.point) for r in runs] == [
        (0, 1, {"depth": 1}), (1, 1, {"depth": 2}), (2, 1, {"depth": 4}),
        (3, 2, {"depth": 1}), (4, 2, {"depth": 2}), (5, 2, {"depth": 4}),
    ]  # fmt: skip
    assert runs[2].options == {"rw": "read", "depth": 4, "seconds": 10, "direct": True}
    assert [r.outstanding for r in runs[:3]] == [1, 2, 4]
    assert (runs[0].expected_s, runs[0].expected_writes) == (10.0, 0)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.stack, layout.host) == (LayoutPhase.DRAFT, DIRECTORY, host)
    attempts = Attempt.objects.filter(layout=layout)
    assert {(a.number, a.phase) for a in attempts} == {(1, AttemptPhase.QUEUED)}
    assert attempts.count() == 6


def test_making_a_campaign_has_it_planned(
    team, user, host, directory, workload, nudges, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        made = create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=[directory],
            workloads=[workload], repeats=1, order="random_blocks",
        )  # fmt: skip
    assert nudges == [f"benchlab.engine.tasks.plan_layout({made.layouts.get().pk})"]


def test_every_layout_of_hosts_and_topologies_gets_its_runs(
    team, user, host, directory, raw, workload
):
    other = make_host(team, "other")
    made = create_campaign(
        team=team, user=user, name="x", question="", hosts=[host, other],
        topologies=[directory, raw], workloads=[workload], repeats=3, order="random_blocks", seed=1,
    )  # fmt: skip
    assert made.layouts.count() == 4
    for layout in made.layouts.all():
        runs = Run.objects.filter(attempts__layout=layout)
        assert runs.count() == 9
        assert {(r.host_id, r.topology_id) for r in runs} == {(layout.host_id, layout.topology_id)}
    assert made.seed == 1


def test_a_bad_sweep_value_is_named(team, user):
    with pytest.raises(ValidationError) as caught:
        create_workload(
            team=team, user=user, name="Deep", tool="toy", options={}, sweep={"depth": [1, 0]}
        )
    assert caught.value.messages == ["Workload Deep at depth 0: depth: 0 is below 1"]


def test_options_that_only_together_are_wrong_are_named(team, user):
    with pytest.raises(ValidationError, match="Workload Deep at depth 128: depth: writes go up"):
        create_workload(
            team=team, user=user, name="Deep", tool="toy", options={"rw": "write"},
            sweep={"depth": [64, 128]},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tool": "nosuch"}, "there is no tool named 'nosuch'; known: toy"),
        ({"options": {"speed": 9}}, "speed"),
        ({"options": {"depth": "4"}}, "expected int @ options.depth"),
        ({"sweep": {"depth": [2, 2]}}, "the sweep of depth: 2 is listed twice"),
        ({"sweep": {"depth": []}}, "the sweep of depth is empty"),
        ({"name": ""}, "cannot be blank"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(team, user, fields, says):
    wanted = {"name": "W", "tool": "toy", "options": {}, **fields}
    with pytest.raises(ValidationError, match=says):
        create_workload(team=team, user=user, **wanted)


def test_two_workloads_of_a_name_are_refused(team, user, workload):
    with pytest.raises(ValidationError, match="already exists"):
        create_workload(team=team, user=user, name="Reads", tool="toy", options={})


def test_what_belongs_to_another_team_is_refused_and_nothing_is_stored(
    team, user, host, workload, db
):
    foreign = Topology.objects.create(
        team=Team.objects.create(name="Others"), name="Theirs", stack=DIRECTORY
    )
    with pytest.raises(ValidationError, match="Theirs does not belong to Storage"):
        create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=[foreign],
            workloads=[workload], repeats=1, order="as_written",
        )  # fmt: skip
    assert not Campaign.objects.exists() and not Layout.objects.exists()


def test_a_wrong_order_is_refused(team, user, host, directory, workload):
    with pytest.raises(ValidationError, match="sideways"):
        create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=[directory],
            workloads=[workload], repeats=1, order="sideways",
        )  # fmt: skip


def test_making_a_campaign_costs_the_same_queries_however_many_runs(
    team, user, host, directory, django_assert_max_num_queries
):
    many = create_workload(
        team=team, user=user, name="Many", tool="toy", options={},
        sweep={"depth": list(range(1, 101))},
    )  # fmt: skip
    with django_assert_max_num_queries(16):  # the last: nobody deleted meanwhile what it is made of
        made = create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=[directory],
            workloads=[many], repeats=5, order="random_blocks",
        )  # fmt: skip
    assert made.runs.count() == 500


def test_the_estimate_says_runs_time_and_bytes(team, user, host, directory, raw):
    writes = create_workload(
        team=team, user=user, name="Writes", tool="toy", options={"rw": "write"},
        sweep={"depth": [1, 2]},
    )  # fmt: skip
    make_spare(host)
    found = estimate(Selection([host], [directory, raw], [writes], 3))
    assert (found.runs, found.layouts, found.seconds) == (12, 2, 12 * 10 + 2 * 20)
    assert [(h.host, h.runs, h.writes, h.unknown) for h in found.hosts] == [(host, 12, 18000, 0)]
    assert found.warnings == ()


def test_hosts_work_side_by_side(team, host, directory, workload):
    found = estimate(Selection([host, make_host(team, "b")], [directory], [workload], 3))
    assert found.seconds == 9 * 10 + 20


def test_the_estimate_warns(team, host, raw, workload):
    keyless = make_host(team, "new", host_key="")
    FactSnapshot.objects.create(host=host, facts={"os_family": "debian", "tools": {}})
    assert estimate(Selection([host, keyless], [raw], [workload], 1)).warnings == (
        "With fewer than 3 repeats no interval can be claimed: the chart shows points only.",
        "rig has 0 spare ssd of the 1 that Raw SSD asks for; mark more devices spare.",
        "new: its host key is not confirmed yet, so it cannot be reached.",
        "new has 0 spare ssd of the 1 that Raw SSD asks for; mark more devices spare.",
        "rig: toy was not found there when its facts were read; install the package toy-utils.",
    )


def test_an_estimate_of_nothing_says_what_is_missing(host, directory):
    with pytest.raises(ValidationError, match="workloads: choose at least one"):
        estimate(Selection([host], [directory], [], 3))
