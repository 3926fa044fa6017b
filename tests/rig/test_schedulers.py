"""I/O schedulers as a factor of one build, on a real kernel: /sys tells during each run what it asked for, and after
every ending what was there before."""

from __future__ import annotations

import os
import signal
from itertools import pairwise

import pytest

from benchlab.campaigns.models import Workload
from benchlab.charts.queries import read_groups
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device, Host
from benchlab.runs.attempt_meta import QUEUES
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.topologies.models import Topology
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import FIO, register
from tests.runs import drive
from tests.stack import redis_url, wait_for, worker

pytestmark = [pytest.mark.rig, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

DISKS = ("ubdc", "ubdd")  # which have serial numbers: they are known again after a power loss
BOTH = [{"use": "data", "role": "ssd", "count": 2}]
STRIPE = {"kind": "lvm", "options": {"type": "striped"}, "devices": BOTH}
XFS = {"kind": "filesystem", "options": {"type": "xfs"}, "devices": []}
ASKED = ["none", "mq-deadline"]


def in_force(rig_host) -> list[tuple[str, str]]:
    """(scheduler, nr_requests) of each disk, as the kernel prints them."""
    paths = [f"/sys/block/{d}/queue/{a}" for d in DISKS for a in ("scheduler", "nr_requests")]
    lines = rig_host.ssh("cat", *paths).stdout.splitlines()
    return [
        (line.partition("[")[2].partition("]")[0], requests)
        for line, requests in zip(lines[::2], lines[1::2], strict=True)
    ]


@pytest.fixture
def before(rig_host):
    """Each disk has another scheduler, one of them with fewer requests than it brings: a person's own choice."""
    plain = in_force(rig_host)
    rig_host.ssh(
        "sh", "-c",
        "cd /sys/block && echo mq-deadline >ubdc/queue/scheduler && echo 96 >ubdc/queue/nr_requests"
        " && echo bfq >ubdd/queue/scheduler",
    )  # fmt: skip
    made = in_force(rig_host)
    assert made[0] == ("mq-deadline", "96") and made[1][0] == "bfq"
    yield made
    rig_host.ssh(
        "sh", "-c",
        ";".join(
            f"echo {scheduler} >/sys/block/{disk}/queue/scheduler;"
            f"echo {requests} >/sys/block/{disk}/queue/nr_requests"
            for disk, (scheduler, requests) in zip(DISKS, plain, strict=True)
        ),
    )  # fmt: skip
    assert in_force(rig_host) == plain


@pytest.fixture
def lab(rig_host, team, user) -> Host:
    host = register(rig_host, team, "root")
    for device in Device.objects.filter(host=host, name__in=DISKS):
        spare_disks.mark_spare(device, user, device.confirmation, "ssd")
    return host


@pytest.fixture
def make_campaign(lab, team, user):
    def make(*above, repeats=2, runtime_s=3, **told):
        topology = Topology.objects.create(team=team, name="stripe", stack=[STRIPE, *above])
        workload = Workload.objects.create(
            team=team,
            name="fio",
            tool="fio",
            options={**FIO, "runtime_s": runtime_s},
            sweep={"iodepth": [1, 4]},
        )
        return create_campaign(
            team=team, user=user, name="c", question="", hosts=[lab], topologies=[topology],
            workloads=[workload], repeats=repeats, order="random_blocks", seed=1, schedulers=ASKED,
            **told,
        )  # fmt: skip

    return make


def ended(campaign) -> Layout:
    layout = campaign.layouts.get()
    assert layout.phase == "done", (layout.reason_text, layout.trouble)
    return layout


def test_two_schedulers_and_two_depths_are_mixed_in_the_blocks_of_one_build(
    make_campaign, rig_host, before, user, monkeypatch
):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # one thing a step, so that somebody looks
    campaign = make_campaign(XFS)
    drive.plan_and_start(campaign)
    seen: dict[int, tuple[str, list[tuple[str, str]]]] = {}

    def looked() -> bool:
        running = Attempt.objects.filter(phase="running").select_related("run").first()
        if running and running.pk not in seen:
            found = in_force(rig_host)
            if Attempt.objects.get(pk=running.pk).phase == "running":
                seen[running.pk] = running.run.scheduler, found
        return not campaign.layouts.exclude(phase__in=drive.OVER).exists()

    drive.until(campaign, looked, 600)
    assert ended(campaign).outcome == "succeeded"
    attempts = list(
        Attempt.objects.filter(run__campaign=campaign).select_related("run").order_by("started_at")
    )
    assert [(one.outcome, one.reason_text) for one in attempts] == [("succeeded", "")] * 8
    assert len(seen) >= 6, "somebody looked at nearly every run"
    for asked, found in seen.values():
        assert [scheduler for scheduler, _ in found] == [asked] * 2
    # What the run itself keeps, and the first disk's own number of requests with the scheduler that it had.
    for one in attempts:
        queues = one.meta[QUEUES]
        assert {name: told["scheduler"] for name, told in queues.items()} == dict.fromkeys(
            DISKS, one.run.scheduler
        )
        if one.run.scheduler == "mq-deadline":
            assert queues["ubdc"]["nr_requests"] == "96"
    # Each block has each point once, and is no list of one scheduler after the other.
    ran = [(one.run.repeat, one.run.scheduler, one.run.options["iodepth"]) for one in attempts]
    every = {(scheduler, depth) for scheduler in ASKED for depth in (1, 4)}
    for block in (ran[:4], ran[4:]):
        assert len({repeat for repeat, *_ in block}) == 1
        assert {(scheduler, depth) for _, scheduler, depth in block} == every
    order = [scheduler for _, scheduler, _ in ran]
    assert sum(a != b for a, b in pairwise(order)) >= 2
    # One fingerprint for each scheduler and depth, in both repeats.
    by_point: dict[tuple[str, int], set[str]] = {}
    for one in attempts:
        point = one.run.scheduler, one.run.options["iodepth"]
        by_point.setdefault(point, set()).add(one.fingerprint)
    assert [len(some) for some in by_point.values()] == [1] * 4
    assert len(set().union(*by_point.values())) == 4
    assert {line.rest for line in read_groups(user, [campaign.pk])} == {
        "scheduler none",
        "scheduler mq-deadline",
    }
    assert in_force(rig_host) == before
    assert_blank(rig_host, *DISKS)


def test_cancel_in_the_middle_puts_them_back(make_campaign, rig_host, before):
    campaign = make_campaign(repeats=1, runtime_s=60)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    asked = Attempt.objects.get(phase="running").run.scheduler
    assert [scheduler for scheduler, _ in in_force(rig_host)] == [asked] * 2
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign)
    assert ended(campaign).outcome == "cancelled"
    assert in_force(rig_host) == before
    assert_blank(rig_host, *DISKS)


@pytest.mark.parametrize("then", ["goes on", "cancelled"])
def test_a_worker_killed_in_the_middle_puts_them_back(
    make_campaign, rig_host, before, tmp_path, then
):
    redis, log = redis_url(15), tmp_path / "worker.log"
    campaign = make_campaign(repeats=1, runtime_s=8 if then == "goes on" else 60)
    with worker(tmp_path, redis) as first:
        drive.plan_and_start(campaign)
        wait_for(lambda: Attempt.objects.filter(phase="running").exists(), log, 120)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    asked = Attempt.objects.get(phase="running").run.scheduler
    assert [scheduler for scheduler, _ in in_force(rig_host)] == [asked] * 2
    if then == "cancelled":
        commands.cancel_campaign(campaign)
    with worker(tmp_path, redis):
        wait_for(lambda: Layout.objects.filter(phase__in=drive.OVER).exists(), log, 300)
    outcomes = set(Attempt.objects.values_list("outcome", flat=True))
    assert outcomes == {"succeeded" if then == "goes on" else "cancelled"}
    ended(campaign)
    assert in_force(rig_host) == before
    assert_blank(rig_host, *DISKS)


def test_a_power_loss_in_the_middle_leaves_what_was_there_before(make_campaign, rig_host, before):
    """After it the kernel has its own defaults again."""
    campaign = make_campaign(repeats=1, runtime_s=60)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    rig_host.kill()
    rig_host.restart()
    drive.to_the_end(campaign, 600)
    assert ended(campaign).outcome == "interrupted"
    assert in_force(rig_host) == before
    assert_blank(rig_host, *DISKS)


def test_who_changes_it_during_a_run_has_measured_nothing(make_campaign, rig_host, before):
    campaign = make_campaign(repeats=1, runtime_s=15)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    disturbed = Attempt.objects.get(phase="running")
    rig_host.ssh("sh", "-c", "echo kyber >/sys/block/ubdd/queue/scheduler")
    drive.to_the_end(campaign, 600)
    disturbed.refresh_from_db()
    assert (disturbed.outcome, disturbed.reason) == ("failed", "changed_meanwhile")
    assert "and is kyber after the run" in disturbed.reason_text
    others = Attempt.objects.exclude(pk=disturbed.pk).values_list("outcome", flat=True)
    assert set(others) == {"succeeded"}, "the next run sets it again"
    assert StepLog.objects.filter(part="before a run", exit_code=0).exists()
    assert in_force(rig_host) == before
    assert_blank(rig_host, *DISKS)
