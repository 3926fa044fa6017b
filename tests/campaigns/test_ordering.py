"""The order recommended by the wizard and why, what visits cost, and what is said of layouts that do not take turns."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from agents.drivers import protocols, registry
from benchlab.campaigns.estimates import advise_order, campaign_design, estimate
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import Selection
from benchlab.engine.new_runs import create_campaign
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies.models import Topology
from tests.campaigns.conftest import LAYERS, RAW, make_host, make_spare, toy_layer

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair(team, host) -> list[Topology]:
    """Two topologies that take the same disk."""
    make_spare(host)
    xfs = [*RAW, {"kind": "filesystem", "options": {"fstype": "xfs"}, "devices": []}]
    return [
        Topology.objects.create(team=team, name=name, stack=stack)
        for name, stack in (("Raw", RAW), ("XFS", xfs))
    ]


@pytest.fixture
def long(workload) -> Workload:
    """Three points of 100 s: beside them 20 s of building are little."""
    workload.options = {"seconds": 100}
    workload.save(update_fields=["options"])
    return workload


def wish(host, topologies, workload, **fields) -> dict[str, object]:
    return {
        "name": "Which?", "question": "", "hosts": [host.pk], "workloads": [workload.pk],
        "topologies": [row.pk for row in topologies], "repeats": "4", "order": "recommended",
        "visits": "2", "seed": "", **fields,
    }  # fmt: skip


def built_before(team, host, topology, seconds: float, waited: float = 0.0, **fields) -> Layout:
    """A layout of an earlier campaign, whose building and taking down took so long together."""
    then = timezone.now() - timedelta(days=1)
    earlier = Campaign.objects.create(team=team, name="earlier", seed=1)
    given = {
        "campaign": earlier, "host": host, "topology": topology, "stack": topology.stack,
        "phase": "done", "outcome": "succeeded", "begun_at": then,
        "ready_at": then + timedelta(seconds=seconds * 0.75),
        "down_at": then + timedelta(hours=5),
        "ended_at": then + timedelta(hours=5, seconds=seconds * 0.25), **fields,
    }  # fmt: skip
    layout = Layout.objects.create(**given)
    run = earlier.runs.create(
        host=host, topology=topology, workload=Workload.objects.first(), tool="toy", options={},
        point={}, repeat=1, position=0,
    )  # fmt: skip
    started = given["ready_at"] + timedelta(seconds=waited)
    Attempt.objects.create(run=run, layout=layout, started_at=started)
    return layout


def test_layouts_on_the_same_disks_take_turns_where_building_is_cheap(host, pair, long):
    found = advise_order(Selection([host], pair, [long], 4))
    assert found.order == "abba" and "take turns on the same disks (A B B A)" in found.says


def test_not_where_building_costs_a_third_of_the_measuring(host, pair, workload):
    """3 points of 10 s, 4 repeats, 2 layouts: 240 s; twice 20 s each are 80 s, a third."""
    found = advise_order(Selection([host], pair, [workload], 4))
    assert found.order == "random_blocks"
    assert found.says.startswith("Built one after the other: building each layout twice would cost")
    assert "larger error" in found.says
    assert advise_order(Selection([host], pair, [workload], 5)).order == "abba"


def test_how_long_it_took_before_counts_more_than_an_estimate(team, host, pair, long):
    built_before(team, host, pair[0], 500.0)
    assert advise_order(Selection([host], pair, [long], 4)).order == "random_blocks"
    for _ in range(3):  # the middle of the newest counts
        built_before(team, host, pair[0], 30.0)
    assert advise_order(Selection([host], pair, [long], 4)).order == "abba"


@pytest.mark.parametrize(
    "fields", [{"outcome": "failed"}, {"rebuilds": 1}, {"stack": []}, {"begun_at": None}]
)
def test_what_is_no_example_of_building_is_left_out(team, host, pair, long, fields):
    built_before(team, host, pair[0], 5000.0, **fields)
    assert advise_order(Selection([host], pair, [long], 4)).order == "abba"


def test_each_layout_alone_has_nothing_to_take_turns_with(host, pair, long, directory):
    alone = "none is compared with another on the same disks"
    assert alone in advise_order(Selection([host], pair[:1], [long], 4)).says
    assert alone in advise_order(Selection([host], [pair[0], directory], [long], 4)).says
    assert alone in advise_order(Selection([make_host(host.team, "bare")], pair, [long], 4)).says


def test_other_disks_are_not_the_same_disks(team, host, pair, long):
    make_spare(host, "sdc", role="hdd")
    other = [{**RAW[0], "devices": [{"use": "data", "role": "hdd", "count": 1}]}]
    hdd = Topology.objects.create(team=team, name="HDD", stack=other)
    assert advise_order(Selection([host], [pair[0], hdd], [long], 4)).order == "random_blocks"


def test_one_repeat_cannot_be_divided(host, pair, long):
    says = advise_order(Selection([host], pair, [long], 1)).says
    assert "1 repeat cannot be divided over 2 visits" in says


def test_a_persons_part_is_not_asked_for_twice(team, host, pair, long, monkeypatch):
    monkeypatch.setitem(LAYERS, "manual", toy_layer("Manual", "any", "same", dict, {}))
    by_hand = [*RAW, {"kind": "manual", "options": {}, "devices": []}]
    Topology.objects.filter(pk=pair[0].pk).update(stack=by_hand)
    pair[0].refresh_from_db()
    assert "would have to be done twice" in advise_order(Selection([host], pair, [long], 4)).says


def test_a_resync_of_unknown_length_is_not_waited_for_twice(team, host, pair, long, monkeypatch):
    resync = protocols.BackgroundWork
    implements = lambda kind, protocol: (kind == "raw" and protocol is resync) or None  # noqa: E731
    monkeypatch.setattr(registry, "implements", implements)
    monkeypatch.setattr(registry, "starts_resync", lambda kind, options: kind == "raw")
    assert (
        "the duration of the initial resync"
        in advise_order(Selection([host], pair, [long], 4)).says
    )
    for topology in pair:
        built_before(team, host, topology, 20.0, waited=30.0)
    assert advise_order(Selection([host], pair, [long], 4)).order == "abba"
    for topology in pair:
        for _ in range(2):
            built_before(team, host, topology, 20.0, waited=3000.0)
    assert advise_order(Selection([host], pair, [long], 4)).order == "random_blocks"


def test_the_wizard_takes_what_is_recommended(web, host, pair, long):
    web.post(reverse("campaign-new"), {**wish(host, pair, long), "create": "1"})
    made = Campaign.objects.get()
    assert (made.order, made.visits, made.layouts.count()) == ("abba", 2, 4)
    assert [(one.visit, one.topology_id) for one in made.layouts.filter(visit=2)] == [
        (2, one.topology_id) for one in made.layouts.filter(visit=1).reverse()
    ]
    assert campaign_design(made) == "abba"


def test_the_wizard_takes_what_a_person_chose(web, host, pair, long):
    asked = wish(host, pair, long, order="random_blocks")
    text = web.post(reverse("campaign-new"), {**asked, "create": "1"}, follow=True).text
    made = Campaign.objects.get()
    assert (made.order, made.visits, made.layouts.count()) == ("random_blocks", 1, 2)
    assert (
        campaign_design(made) == "one_after_other" and "<dd>built one after the other</dd>" in text
    )


def test_the_wizard_says_what_visits_cost(htmx, host, pair, long):
    text = htmx.post(reverse("campaign-new"), wish(host, pair, long)).text
    assert "<dt>Layouts to build</dt><dd>4</dd>" in text
    assert "Order: ABBA" in text
    assert "Building each layout 2 times costs about 40 s more than building it once." in text
    assert "as they took here before" not in text
    once = htmx.post(reverse("campaign-new"), wish(host, pair, long, order="as_written")).text
    assert "<dt>Layouts to build</dt><dd>2</dd>" in once and "Order: As written." in once
    assert "Recommended: The layouts take turns" in once


def test_visits_that_repeats_cannot_be_divided_over_are_said(htmx, web, host, pair, long):
    asked = wish(host, pair, long, order="abba", repeats="1")
    says = "1 cannot be divided over 2 visits of each layout (ABBA)"
    assert says in htmx.post(reverse("campaign-new"), asked).text
    assert says in web.post(reverse("campaign-new"), {**asked, "create": "1"}).text
    few = wish(host, pair, long, order="abba", visits="1")
    assert "greater than or equal to 2" in web.post(reverse("campaign-new"), {**few, "create": "1"}).text  # fmt: skip
    assert not Campaign.objects.exists()


def test_the_estimate_of_abba(host, pair, long):
    found = estimate(Selection([host], pair, [long], 4), "abba")
    assert (found.layouts, found.visits, found.runs) == (4, 2, 24)
    assert (found.building, found.again, found.seconds) == (80.0, 40.0, 2480.0)
    assert found.design == "built in turns"
    once = estimate(Selection([host], pair, [long], 4))
    assert (once.building, once.again, once.seconds) == (40.0, 0.0, 2440.0)
    assert once.design == "built one after the other"


def test_an_estimate_says_where_a_drift_does_not_cancel(host, pair, long):
    assert not any(
        "drift" in said for said in estimate(Selection([host], pair, [long], 4), "abba").warnings
    )
    [odd] = [
        one
        for one in estimate(Selection([host], pair, [long], 5), "abba").warnings
        if "drift" in one
    ]
    assert odd == (
        "The visits measure 3, 2 repeats: a steady drift cancels wholly only where each measures as many; "
        "use a multiple of 2."
    )
    three = estimate(Selection([host], pair, [long], 6), "abba", 3).warnings
    assert "A steady drift cancels wholly only in an even number of visits." in three


def test_an_estimate_is_kept_with_the_layouts(team, user, host, pair, long):
    built_before(team, host, pair[0], 30.0)
    made = create_campaign(
        team=team, user=user, name="x", question="", hosts=[host], topologies=pair,
        workloads=[long], repeats=4, order="abba", visits=4,
    )  # fmt: skip
    assert made.layouts.count() == 8
    told = {row.expected_s for row in made.layouts.filter(topology=pair[0])}
    assert told == {30.0} and made.layouts.filter(topology=pair[1])[0].expected_s == 20.0


@pytest.mark.parametrize(
    ("order", "visits", "says"),
    [
        ("abba", 1, "the order abba builds each layout at least 2 times"),
        ("abba", 5, "4 cannot be divided over 5 visits"),
        ("random_blocks", 2, "more than one visit of each layout needs the order abba"),
    ],
)
def test_visits_that_do_not_go_are_refused_and_nothing_is_stored(
    team, user, host, pair, long, order, visits, says
):
    with pytest.raises(ValidationError, match=says):
        create_campaign(
            team=team, user=user, name="x", question="", hosts=[host], topologies=pair,
            workloads=[long], repeats=4, order=order, visits=visits,
        )  # fmt: skip
    assert not Campaign.objects.exists()


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("md", {"level": 0}, False),
        ("md", {"level": 1}, True),
        ("md", {"level": 5, "assume_clean": True}, False),
        ("md", {}, True),
        ("lvm", {"type": "striped"}, False),
        ("lvm", {"type": "mirror"}, True),
        ("raw", {}, False),
    ],
)
def test_layers_tell_whether_a_resync_follows(monkeypatch, kind, options, says):
    monkeypatch.undo()  # the real drivers
    assert registry.starts_resync(kind, options) is says
