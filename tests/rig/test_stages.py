"""Layouts that grow on a real kernel: measured before, during and after, by whole campaigns; then blank disks."""

from __future__ import annotations

from typing import Any

import pytest

from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.topologies.services import create_topology
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import register
from tests.runs import drive

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

DISKS = ("ubdb", "ubdc", "ubdd", "ubde")
FIO = {"rw": "randwrite", "size": 32 << 20, "runtime_s": 2, "iodepth": 4}
SPEED = "/proc/sys/dev/raid/speed_limit_max"


def ssds(count: int) -> list[dict[str, Any]]:
    return [{"use": "data", "role": "ssd", "count": count}]


@pytest.fixture
def make_campaign(rig_host, team, user):
    host = register(rig_host, team, "root")
    for name in DISKS:
        device = Device.objects.get(host=host, name=name)
        spare_disks.mark_spare(device, user, device.confirmation, "ssd")
    workload = Workload.objects.create(team=team, name="writes", tool="fio", options=FIO)

    def make(stack, during: bool) -> Campaign:
        stages = [{"layer": 1, "devices": ssds(1), "during": during}]
        topology = create_topology(team=team, user=user, name="grows", stack=stack, stages=stages)
        return create_campaign(
            team=team, user=user, name="grows", question="", hosts=[host], topologies=[topology],
            workloads=[workload], repeats=1, order="as_written", seed=1,
        )  # fmt: skip

    return make


def moments() -> dict[str, tuple[str, str]]:
    rows = Attempt.objects.order_by("run__position")
    return {row.run.stage: (row.outcome, row.reason_text) for row in rows.select_related("run")}


def succeeded(campaign: Campaign) -> Layout:
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), layout.reason_text
    return layout


def test_a_raid5_is_measured_before_during_and_after_its_reshape(
    make_campaign, rig_host, monkeypatch
):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # so that the speed is set before it grows
    campaign = make_campaign(
        [
            {"kind": "md", "options": {"level": 5}, "devices": ssds(3)},
            {"kind": "filesystem", "options": {"type": "ext4"}},
        ],
        during=True,
    )
    drive.plan_and_start(campaign)
    try:
        done = Attempt.objects.filter(phase="done")
        drive.until(campaign, lambda: done.filter(run__stage="").exists())
        rig_host.ssh("sh", "-c", f"echo 2000 >{SPEED}")  # KiB/s: minutes for these disks
        drive.until(campaign, lambda: done.filter(run__stage="during-1").exists())
        assert "reshape" in rig_host.ssh("cat", "/proc/mdstat").stdout
        assert campaign.layouts.get().progress[0]["says"].startswith("reshape")
    finally:
        rig_host.ssh("sh", "-c", f"echo 200000 >{SPEED}")
    drive.to_the_end(campaign, 300)
    layout = succeeded(campaign)
    assert moments() == dict.fromkeys(["", "during-1", "after-1"], ("succeeded", ""))
    during = Attempt.objects.get(run__stage="during-1")
    start, end = during.meta["during"]["start"][0], during.meta["during"]["end"][0]
    assert 0 <= start["done"] < end["done"] < 1
    parts = StepLog.objects.filter(layout=layout, kind="apply").exclude(part="")
    assert [row.part for row in parts.order_by("pk")][-1] == "follow 1"
    assert parts.get(part="follow 1").argv[0] == "resize2fs"
    assert_blank(rig_host, *DISKS)


def test_a_stripe_takes_a_disk_more_and_its_xfs_follows(make_campaign, rig_host):
    campaign = make_campaign(
        [
            {"kind": "lvm", "options": {"stripes": 2}, "devices": ssds(2)},
            {"kind": "filesystem", "options": {"type": "xfs"}},
        ],
        during=False,
    )
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 300)
    layout = succeeded(campaign)
    assert moments() == dict.fromkeys(["", "after-1"], ("succeeded", ""))
    [follow] = StepLog.objects.filter(layout=layout, part="follow 1")
    assert follow.argv[0] == "xfs_growfs" and "data blocks changed" in follow.stdout
    assert_blank(rig_host, *DISKS)
