"""Full stations where a line ends: which lines are asked about, what is read of their runs, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse

from agents.contracts import Claim, Target
from agents.plans import applied_part
from agents.plans.chain import LayerSpec
from agents.plans.stack import Placed, StackPlan
from benchlab.analysis.devices import Full, FullStation
from benchlab.analysis.knees import Cap
from benchlab.campaigns.models import Run
from benchlab.charts import device_work
from benchlab.charts.cards import campaign_cards
from benchlab.charts.queries import read_groups
from benchlab.runs.attempt_meta import DISKS as DISKS_TOLD
from benchlab.runs.models import Series
from tests.charts import made

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
DISKS = ("sdb", "sdc")


@pytest.fixture
def line(team, user):
    """One line of three repeats with its knee at 16 or so, two disks below, sampled at 32 and 64."""
    where, campaign = made.host(team, disks=2), made.campaign(team)
    attempts = made.swept(
        campaign, where, made.topology(team, "stripe"), made.workload(team), depths=DEPTHS
    )
    claims = tuple(Claim(f"serial:{name}", f"/dev/{name}", 1, "") for name in DISKS)
    target = Target(
        "bl1", devices={"data": claims, "spare": (Claim("serial:z", "/dev/sdz", 1, ""),)}
    )
    layout = attempts[0].layout
    layout.plan = applied_part.to_json(
        StackPlan("bl1", (Placed(LayerSpec("lvm"), target, target, ()),), "f")
    )
    layout.save(update_fields=["plan"])
    return campaign, attempts


def sampled(attempts, queue, idle):
    """`queue`: {depth: requests in flight at each disk} while it measured; ten times that in the layout of its file."""
    times = [float(second) for second in range(1, 61)]
    for attempt in attempts:
        depth = attempt.run.outstanding
        if depth not in queue:
            continue
        attempt.windows = made.WINDOWS  # measured: 22 to 58 s
        attempt.save(update_fields=["windows"])
        held = [queue[depth] * (10 if at <= 22 else 1) for at in times]
        rows = [(name, "queue", held) for name in DISKS]
        rows += [("cpu0", "cpu.idle", [idle] * 60), ("cpu0", "cpu.iowait", [0.1] * 60)]
        rows += [("cpu1", "cpu.idle", [0.8] * 60), ("", "cpu.idle", [0.01] * 60)]
        Series.objects.bulk_create(
            Series(
                attempt=attempt,
                sampler="diskstats",
                device=d,
                metric=m,
                unit="1",
                times=times,
                values=v,
            )
            for d, m, v in rows
        )


def only(campaign, user):
    return device_work.find_full_stations(read_groups(user, [campaign.pk]))


def test_the_disks_are_full_where_what_was_added_waits(line, user, web):
    """By hand: 2 x (30 - 15) of 32 more are 94 %; cpu0 was busy 1 - 0.6 - 0.1."""
    campaign, attempts = line
    sampled(attempts, {32: 15.0, 64: 30.0}, 0.6)
    [found] = only(campaign, user).values()
    assert found.full == Full.DEVICES and found.depth == 64
    assert found.queued == pytest.approx(0.9375) and found.cpu == pytest.approx(0.3)
    [card] = campaign_cards(user, campaign.pk)
    [(_, depth, words)] = card.full_stations
    told = "the disks, where 94 % of the I/Os added after 32 outstanding wait"
    assert (depth, words) == (64, told)
    page = web.get(reverse("campaign-detail", args=[campaign.pk])).content.decode()
    assert f"at 64 {told}." in page


def test_a_full_core_and_nothing_that_is_seen(line, user):
    campaign, attempts = line
    sampled(attempts, {32: 2.0, 64: 2.5}, 0.02)
    [found] = only(campaign, user).values()
    assert found.full == Full.NOTHING and found.cpu == pytest.approx(0.88)
    Series.objects.filter(metric="cpu.iowait").delete()
    [found] = only(campaign, user).values()
    assert found.full == Full.CPU and found.cpu == pytest.approx(0.98)
    Run.objects.update(options={"extra": ["hipri"]})
    [found] = only(campaign, user).values()
    assert (found.full, found.cpu) == (Full.NOTHING, None), "a thread that polls is always busy"


def test_the_layers_between_a_volume_and_its_disks(line, user, django_assert_num_queries):
    """By hand: 2 x 0.5 of 32 more wait at the disks, 29 at the volume: 28 of 32 are 88 %."""
    campaign, attempts = line
    layout = attempts[0].layout
    plan = applied_part.from_json(layout.plan)
    gives = replace(plan.layers[0].gives, volume="/dev/bl1/data")
    layout.plan = applied_part.to_json(
        replace(plan, layers=(replace(plan.layers[0], gives=gives),))
    )
    layout.save(update_fields=["plan"])
    facts = attempts[0].facts
    there = {"name": "dm-0", "path": "/dev/mapper/bl1-data", "links": ["/dev/bl1/data"]}
    facts.facts["devices"] = [*facts.facts["devices"], there]
    facts.save(update_fields=["facts"])
    sampled(attempts, {32: 2.0, 64: 2.5}, 0.6)
    volume(attempts, {32: 31.0, 64: 60.0})
    found = read_groups(user, [campaign.pk])
    with django_assert_num_queries(3):
        [one] = device_work.find_full_stations(found).values()
    assert one.full == Full.LAYERS and one.inside == pytest.approx(28 / 32)
    told = "the layers above the disks, where 88 % of the I/Os added after 32 outstanding wait"
    assert device_work.full_station_text(one).startswith(told)
    Series.objects.filter(device="dm-0").delete()
    [one] = only(campaign, user).values()
    assert one.full == Full.NOTHING, "nobody looked at the volume"


def volume(attempts, queue):
    Series.objects.bulk_create(
        Series(
            attempt=one,
            sampler="diskstats",
            device="dm-0",
            metric="queue",
            unit="1",
            times=[float(second) for second in range(1, 61)],
            values=[queue[one.run.outstanding]] * 60,
        )
        for one in attempts
        if one.run.outstanding in queue
    )


def imported(attempts, disks, queue):
    """Without a plan, facts and windows; `queue`: {depth: what a report prints of each disk, once}."""
    layout = attempts[0].layout
    layout.plan = {}
    layout.save(update_fields=["plan"])
    for attempt in attempts:
        attempt.meta, attempt.facts, attempt.windows = (
            ({DISKS_TOLD: disks} if disks else {}),
            None,
            [],
        )
        attempt.save(update_fields=["meta", "facts", "windows"])
        if (depth := attempt.run.outstanding) in queue:
            Series.objects.bulk_create(
                Series(
                    attempt=attempt, sampler="iostat", device=name, metric="queue", unit="1", times=[60.0],
                    values=[queue[depth]],
                )
                for name in DISKS
            )  # fmt: skip


def test_of_a_result_from_elsewhere_by_the_disks_that_its_source_tells(line, user):
    """Likewise 94 %, by one printed average of each of both disks; of its cores nobody told anything."""
    campaign, attempts = line
    imported(attempts, {"hdd": list(DISKS)}, {32: 15.0, 64: 30.0})
    [found] = only(campaign, user).values()
    assert found.full == Full.DEVICES and found.queued == pytest.approx(0.9375)
    assert (found.cpu, found.inside) == (None, None)
    told = "the disks, where 94 % of the I/Os added after 32 outstanding wait"
    assert device_work.full_station_text(found) == told


@pytest.mark.parametrize("disks", [{}, {"hdd": ["sdb", "sdc", "sdd"]}])
def test_of_disks_that_no_source_tells_or_no_report_has_nothing_is_said(line, user, disks):
    campaign, attempts = line
    imported(attempts, disks, {32: 15.0, 64: 30.0})
    assert only(campaign, user) == {}


def test_what_cannot_be_said(line, user, django_assert_num_queries):
    campaign, attempts = line
    assert only(campaign, user) == {}, "nothing was sampled"
    sampled(attempts, {64: 30.0}, 0.6)
    assert only(campaign, user) == {}, "only the deepest was"
    sampled(attempts, {32: 15.0}, 0.6)
    found = read_groups(user, [campaign.pk])
    with django_assert_num_queries(2):
        assert len(device_work.find_full_stations(found)) == 1
    Series.objects.filter(device="sdc", attempt__run__outstanding=64).delete()
    assert only(campaign, user) == {}, "a disk was not watched"


def test_a_line_that_goes_on_is_not_asked_about(line, user, django_assert_num_queries):
    campaign, attempts = line
    sampled(attempts, {32: 15.0, 64: 30.0}, 0.6)
    found = [replace(one, over=False) for one in read_groups(user, [campaign.pk])]
    with django_assert_num_queries(0):
        assert device_work.find_full_stations(found) == {}


def test_a_depth_that_was_not_reached_is_not_taken_for_one(line, user):
    """Four workers of that depth each: 128 more were outstanding, not 32."""
    campaign, attempts = line
    sampled(attempts, {32: 15.0, 64: 30.0}, 0.6)
    for attempt in attempts:
        latency = attempt.measurements.get(name="lat.mean")
        latency.value *= 4
        latency.save(update_fields=["value"])
    assert only(campaign, user) == {}


def said(full, cap=None, **more):
    told = {"gain": 0.01, "queued": 0.1, "cpu": 0.4, "depth": 64, **more}
    return device_work.full_station_text(FullStation(full, **told), cap)


def test_words():
    both = said(Full.DEVICES, Cap(16, 64, 5000.0), queued=0.9, device="sdb")
    assert both.startswith("sdb, one of the disks, or a cap on them, where 90 % of the I/Os added")
    assert (
        said(Full.CPU, cpu=0.96)
        == "the CPU, 96 % busy (its busiest core, or the tool's own thread)"
    )
    nothing = "nothing that was watched; the limit may be a lock, a log, a link or a cap above the disks; 10 % of"
    assert said(Full.NOTHING).startswith(nothing) and "the CPU was 40 % busy" in said(Full.NOTHING)
    assert said(Full.NOTHING, cpu=None).endswith("CPU use is unknown")
    assert said(Full.NOT_YET, gain=0.3).startswith("nothing yet, IOPS are 30 % above those at")
    assert said(Full.UNCLEAR, queued=-0.1).startswith("unclear; 0 % of")


def test_no_more_waits_than_was_added():
    """By the noise of two depths the share is 1.13 once in a while: on a page no share is above all of it."""
    found = FullStation(Full.DEVICES, 0.01, 1.13, 0.1, 16, "nbd8")
    assert "where 100 % of the I/Os added" in device_work.full_station_text(found)
    inside = replace(found, full=Full.LAYERS, queued=-0.02, inside=1.02)
    assert "where 100 % of the I/Os added" in device_work.full_station_text(inside)
    assert "0 % of the I/Os" in device_work.full_station_text(inside)
