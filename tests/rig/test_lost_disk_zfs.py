"""The same (test_lost_disk.py) for pools: one that can do without the disk, and one whose I/O is suspended."""

from __future__ import annotations

import time

import pytest

from benchlab.engine import commands, host_cleanup
from benchlab.engine import tasks as engine
from benchlab.engine.decide import built
from benchlab.hosts.models import Device
from benchlab.practice import DiskSpec, QemuHost
from benchlab.runs.models import Attempt, Layout, StepLog
from tests.rig.blank import assert_blank
from tests.rig.test_degraded import campaign_on, until_first_is
from tests.rig.test_lost_disk import standing
from tests.runs import drive
from tests.topologies.plans import layer

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

__all__ = ["campaign_on"]

DISKS = ("vdb", "vdc")
PULL = 'echo 1 >"$(readlink -f /sys/block/vdc/device/..)/remove"'


@pytest.fixture(scope="module")
def pool_host(make_zfs_host) -> QemuHost:
    host: QemuHost = make_zfs_host([DiskSpec(256, serial=f"LOST-{name}") for name in DISKS])
    return host


@pytest.fixture
def host(pool_host, monkeypatch) -> QemuHost:
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # else one step goes past READY
    return pool_host


def pulled(team, user, host: QemuHost, layout: str) -> Layout:
    """OpenZFS takes the disk for open until it is told to look again, and nothing is done meanwhile."""
    stack = [layer("zpool", {"layout": layout}, data=("ssd", 2)), layer("zfs", {})]
    row = standing(team, user, host, DISKS, stack)
    host.ssh("zpool", "sync", row.name)
    row = cancelled_without(row, host)
    assert f"(if it was pulled: zpool reopen {row.name})" in row.trouble, row.trouble
    host.ssh("zpool", "reopen", row.name, check=False)
    return again(row)


def cancelled_without(row: Layout, host: QemuHost) -> Layout:
    """The layout as it is stuck after its disk was pulled out."""
    host.ssh("sh", "-c", PULL)
    commands.cancel_campaign(row.campaign)
    drive.to_the_end(row.campaign)
    row.refresh_from_db()
    assert row.phase == "stuck"
    return row


def again(row: Layout) -> Layout:
    commands.retry_teardown(row)
    drive.to_the_end(row.campaign)
    row.refresh_from_db()
    return row


def test_a_stripe_without_a_disk_waits_for_a_reboot(team, user, host):
    row = pulled(team, user, host, "stripe")
    assert row.phase == "stuck"
    assert "reboot the host, then retry" in row.trouble
    host.restart()
    assert again(row).phase == "done", row.trouble
    assert_blank(host, *DISKS)


def test_what_a_stripe_had_yet_to_write_holds_nobody_up(team, user, host):
    """To unmount is to write it: umount waited for ever, and its layout with it for five minutes."""
    stack = [layer("zpool", {}, data=("ssd", 2)), layer("zfs", {})]
    row = standing(team, user, host, DISKS, stack)
    host.ssh("sh", "-c", f"head -c 8M /dev/urandom >/mnt/benchlab/{row.name}/unwritten")
    row = cancelled_without(row, host)
    assert not StepLog.objects.filter(layout=row, kind=StepLog.Kind.TEARDOWN).exists()
    host.restart()
    assert again(row).phase == "done", row.trouble
    assert_blank(host, *DISKS)


@pytest.mark.parametrize("kind", ["zfs", "zvol"])
def test_a_disk_pulled_during_a_run_is_told_while_the_tool_hangs(
    kind, campaign_on, pool_host, monkeypatch
):
    """Its pool says ONLINE for ever. What reads a zvol of it, does so too: a look at the host among others."""
    monkeypatch.setattr(built, "OVERDUE_S", 8.0)
    volume = [layer("zvol", {"size": 64 << 20}), layer("filesystem", {"type": "ext4"})]
    top = {"zfs": [layer("zfs", {})], "zvol": volume}[kind]
    campaign = campaign_on(
        pool_host, DISKS, [layer("zpool", {}, data=("ssd", 2)), *top], tool="fio"
    )
    until_first_is("running", campaign)
    time.sleep(1.5)  # it writes
    pool_host.ssh("sh", "-c", PULL)
    [first, *_] = Attempt.objects.order_by("run__position")
    drive.until(campaign, lambda: Attempt.objects.get(pk=first.pk).degraded, 60.0)
    first.refresh_from_db()
    assert first.phase == "running"
    assert {"says": "/dev/vdc is gone", "seen": "during"} in first.degraded
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign, 120.0)
    row = campaign.layouts.get()
    assert row.phase == "stuck"
    assert f"(if it was pulled: zpool reopen {row.name})" in row.trouble, row.trouble
    pool_host.restart()
    assert again(row).phase == "done", row.trouble
    assert_blank(pool_host, *DISKS)


def test_a_mirror_without_a_disk_is_taken_down(team, user, host):
    row = pulled(team, user, host, "mirror")
    assert row.phase == "stuck"
    assert "/dev/vdc" in row.trouble and "LOST-vdc" in row.trouble
    assert "Not blank" not in row.trouble, row.trouble
    assert_blank(host, "vdb")
    assert [
        one.name for one in host_cleanup.release_host(row, host_cleanup.release_phrase(row), user)
    ] == ["vdc"]
    assert [one.name for one in Device.objects.filter(spare=True)] == ["vdb"]
