"""A disk is pulled out from under a layout, on a real kernel: the rest is taken down, and the host released; or the
disk is plugged in again, and all of it is taken down.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from benchlab.campaigns.models import Workload
from benchlab.engine import commands, host_cleanup
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device
from benchlab.practice import DiskSpec, PracticeHost, UmlHost, add_scsi_disks
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import DD, register
from tests.runs import drive
from tests.topologies.plans import layer

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

EXT4 = layer("filesystem", {"type": "ext4"})
# Not bcache's cache: kernel 6.1 stood still once in five times when it was pulled.
STACKS = {
    "lvm": [layer("lvm", {"type": "striped"}, data=("ssd", 2)), EXT4],
    "md": [layer("md", {"level": 1}, data=("ssd", 2)), EXT4],
}
REPLUGGED = {
    **STACKS,
    "mirror": [layer("lvm", {"type": "mirror"}, data=("ssd", 2)), EXT4],
    "stripe of md": [layer("md", {"level": 0}, data=("ssd", 2)), EXT4],
    "lvm on md": [STACKS["md"][0], layer("lvm", {"type": "linear"}), EXT4],
    "bcache, its disk": [
        layer("bcache", {"bucket_size": 65536}, cache=("ssd", 1), backing=("ssd", 1))
    ],
}
# The kernel gives it another name: what stood on it keeps the one it had.
REPLUG = """
set -e
place=$(readlink -f /sys/block/$1/device); place=${place%/target*}; host=${place##*/}
echo 1 >/sys/block/$1/device/delete
echo "- - -" >/sys/class/scsi_host/$host/scan
udevadm settle
"""


PULL = "echo 1 >/sys/block/$1/device/delete; udevadm settle"
BACK = 'for host in /sys/class/scsi_host/host*; do echo "- - -" >$host/scan; done; udevadm settle'


@pytest.fixture(scope="module")
def scsi_host(make_rig_host) -> UmlHost:
    host: UmlHost = make_rig_host([DiskSpec(512)])
    return host


def standing(
    team: Any, user: Any, host: PracticeHost, names: Collection[str], stack: list[dict[str, Any]]
) -> Layout:
    lab = register(host, team, "root")
    for device in Device.objects.filter(host=lab, name__in=names):
        spare_disks.mark_spare(device, user, device.confirmation, "ssd")
    topology = Topology.objects.create(team=team, name="t", stack=stack)
    workload = Workload.objects.create(team=team, name="dd", tool="dd", options=DD)
    campaign = create_campaign(
        team=team, user=user, name="c", question="", hosts=[lab], topologies=[topology],
        workloads=[workload], repeats=1, order="as_written", seed=1,
    )  # fmt: skip
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: campaign.layouts.get().phase == "ready")
    layout: Layout = campaign.layouts.get()
    return layout


@pytest.mark.parametrize("kind", STACKS)
def test_a_pulled_disk_is_named_and_the_others_are_blank(kind, team, user, scsi_host, monkeypatch):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # else one step of a fast host goes past READY
    layout = standing(team, user, scsi_host, add_scsi_disks(scsi_host, 2), STACKS[kind])
    kept, pulled = sorted(Device.objects.filter(spare=True), key=lambda row: row.name)
    scsi_host.ssh("sh", "-c", f"echo 1 >/sys/block/{pulled.name}/device/delete")
    commands.cancel_campaign(layout.campaign)
    drive.to_the_end(layout.campaign)
    layout.refresh_from_db()
    assert layout.phase == "stuck"
    serial = pulled.serial or pulled.identity
    assert f"/dev/{pulled.name} (scsi_debug" in layout.trouble and serial in layout.trouble
    assert "Not blank" not in layout.trouble, layout.trouble
    assert_blank(scsi_host, kept.name)
    assert [
        row.name
        for row in host_cleanup.release_host(layout, host_cleanup.release_phrase(layout), user)
    ] == [pulled.name]
    layout.refresh_from_db()
    assert layout.phase == "done"
    assert [row.name for row in Device.objects.filter(spare=True)] == [kept.name]
    scsi_host.ssh("sh", "-c", "udevadm settle; modprobe -r scsi_debug")  # for the next one


@pytest.mark.parametrize("kind", REPLUGGED)
def test_a_disk_that_is_plugged_in_again_is_taken_down_at_the_first_try(
    kind, team, user, scsi_host, monkeypatch
):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    layout = standing(team, user, scsi_host, add_scsi_disks(scsi_host, 2), REPLUGGED[kind])
    rows = sorted(Device.objects.filter(spare=True), key=lambda row: row.name)
    scsi_host.ssh("sh", "-c", REPLUG, "replug", rows[-1].name)
    commands.cancel_campaign(layout.campaign)
    drive.to_the_end(layout.campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.trouble, layout.teardown_tries) == ("done", "", 0)
    for row in rows:
        row.refresh_from_db()
    assert_blank(scsi_host, *(row.name for row in rows))
    scsi_host.ssh("sh", "-c", "udevadm settle; modprobe -r scsi_debug")  # for the next one


def test_an_array_none_of_whose_disks_came_back_is_stopped_and_they_are_cleared_when_they_do(
    team, user, scsi_host, monkeypatch
):
    """It stood on for ever: no command named it, and each try said that it is still there."""
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    stack = [layer("md", {"level": 0}, data=("ssd", 2)), EXT4]
    layout = standing(team, user, scsi_host, add_scsi_disks(scsi_host, 2), stack)
    rows = sorted(Device.objects.filter(spare=True), key=lambda row: row.name)
    for row in rows:
        scsi_host.ssh("sh", "-c", PULL, "pull", row.name)
    commands.cancel_campaign(layout.campaign)
    drive.to_the_end(layout.campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.teardown_tries) == ("stuck", 1)
    assert "are not on" in layout.trouble and "Put them back in" in layout.trouble
    assert "Not blank" not in layout.trouble and "reboot" not in layout.trouble, layout.trouble
    assert "active" not in scsi_host.ssh("cat", "/proc/mdstat").stdout
    scsi_host.ssh("sh", "-c", BACK)
    commands.retry_teardown(layout)
    drive.to_the_end(layout.campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.trouble) == ("done", "")
    for row in rows:
        row.refresh_from_db()
    assert_blank(scsi_host, *(row.name for row in rows))
    scsi_host.ssh("sh", "-c", "udevadm settle; modprobe -r scsi_debug")  # for the next one
