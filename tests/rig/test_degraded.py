"""A member fails between two runs and in the midst of one, on a real kernel: no number of it goes unmarked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest

from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import host_cleanup
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device
from benchlab.practice import DiskSpec, PracticeHost, UmlHost, add_scsi_disks
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import DD, register
from tests.runs import drive
from tests.topologies.plans import layer

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

EXT4 = layer("filesystem", {"type": "ext4"})
MD = [layer("md", {"level": 1}, data=("ssd", 2)), EXT4]
LVM = [layer("lvm", {"type": "mirror"}, data=("ssd", 2)), EXT4]
FIO = {"rw": "randwrite", "size": 32 << 20, "runtime_s": 5, "iodepth": 4}
FAIL = "mdadm --fail /dev/md/{name} /dev/ubdc"
# Its device answers nothing but errors, which the mirror sees when it writes.
BREAK_LEG = """
leg={name}-data_rimage_1; size=$(blockdev --getsz /dev/mapper/$leg)
dmsetup suspend --nolockfs $leg; echo 0 $size error | dmsetup load $leg; dmsetup resume $leg
file=/mnt/benchlab/{name}/x; dd if=/dev/zero of=$file bs=64k count=16 oflag=direct; rm $file; sync
"""
STOPPED: tuple[str, str, list[str]] = ("failed", "degraded", [])
Make = Callable[..., Campaign]


@pytest.fixture
def campaign_on(team, user, monkeypatch) -> Make:
    """Three runs on a host's disks, planned and started."""
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # so that something can be done between two runs

    def make(
        host: PracticeHost,
        names: Collection[str],
        stack: list[dict[str, Any]],
        tool: str = "dd",
        **chosen: Any,
    ) -> Campaign:
        lab = register(host, team, "root")
        for device in Device.objects.filter(host=lab, name__in=names):
            spare_disks.mark_spare(device, user, device.confirmation, "ssd")
        topology = Topology.objects.create(team=team, name="t", stack=stack, **chosen)
        options = FIO if tool == "fio" else DD
        workload = Workload.objects.create(team=team, name=tool, tool=tool, options=options)
        campaign = create_campaign(
            team=team, user=user, name="c", question="", hosts=[lab], topologies=[topology],
            workloads=[workload], repeats=3, order="as_written", seed=1,
        )  # fmt: skip
        drive.plan_and_start(campaign)
        return campaign

    return make


@pytest.fixture
def on_rig(campaign_on, rig_host) -> Make:
    return partial(campaign_on, rig_host, ("ubdb", "ubdc"))


@pytest.fixture(scope="module")
def scsi_host(make_rig_host) -> UmlHost:
    host: UmlHost = make_rig_host([DiskSpec(512)])
    return host


def until_first_is(phase: str, campaign: Campaign) -> None:
    rows = Attempt.objects.filter(run__campaign=campaign, phase=phase)
    drive.until(campaign, lambda: rows.exists())


def fail(host: PracticeHost, campaign: Campaign) -> None:
    host.ssh("sh", "-c", FAIL.format(name=campaign.layouts.get().name))


def told() -> list[tuple[str, str, list[str]]]:
    """Outcome, reason and when something was not in order, of each run."""
    rows = Attempt.objects.order_by("run__position")
    return [(row.outcome, row.reason, [one["seen"] for one in row.degraded]) for row in rows]


def test_a_member_that_failed_between_two_runs_stops_the_layout(on_rig, rig_host):
    campaign = on_rig(MD)
    until_first_is("done", campaign)
    fail(rig_host, campaign)
    drive.to_the_end(campaign)
    assert told() == [("succeeded", "", []), STOPPED, STOPPED]
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome, layout.reason) == ("done", "failed", "degraded")
    assert "md: ubdc has failed in md" in layout.reason_text
    assert_blank(rig_host, "ubdb", "ubdc")


@pytest.mark.parametrize("stack", [MD, MD[:1]], ids=["hidden", "on top"])
def test_a_topology_may_be_measured_degraded_and_every_run_says_so(on_rig, rig_host, stack):
    """On top a whole look finds the difference too, in the words that are known already."""
    campaign = on_rig(stack, on_degraded="measure")
    until_first_is("done", campaign)
    fail(rig_host, campaign)
    drive.to_the_end(campaign)
    marked = ("succeeded", "", ["before"])
    assert told() == [("succeeded", "", []), marked, marked]
    rows = Attempt.objects.order_by("run__position")
    first, second, third = rows.values_list("fingerprint", flat=True)
    assert first != second == third
    assert campaign.layouts.get().outcome == "succeeded"
    assert_blank(rig_host, "ubdb", "ubdc")


def test_a_run_during_which_a_member_failed_is_marked_and_is_the_last(on_rig, rig_host):
    campaign = on_rig(MD, "fio")
    until_first_is("running", campaign)
    fail(rig_host, campaign)
    drive.to_the_end(campaign)
    assert told() == [("succeeded", "", ["during"]), STOPPED, STOPPED]
    [said] = Attempt.objects.exclude(degraded=[]).get().degraded
    assert said["says"].startswith("md: ubdc has failed")


@pytest.mark.parametrize("chosen", ["stop", "measure"])
def test_a_leg_of_a_mirror_of_lvm_fails(on_rig, rig_host, chosen):
    campaign = on_rig(LVM, on_degraded=chosen)
    until_first_is("done", campaign)
    name = campaign.layouts.get().name
    rig_host.ssh("bash", "-c", BREAK_LEG.format(name=name))
    drive.to_the_end(campaign)
    first, *others = told()
    assert first == ("succeeded", "", [])
    if chosen == "stop":
        assert others == [STOPPED, STOPPED]
        says = campaign.layouts.get().reason_text
    else:
        assert [row[0] for row in others] == ["succeeded", "succeeded"], others
        assert all("before" in row[2] for row in others)
        says = Attempt.objects.order_by("run__position")[1].degraded[0]["says"]
    assert f"lvm: leg 2 of 2 of {name}-data has failed" in says
    assert_blank(rig_host, "ubdb", "ubdc")


@pytest.mark.parametrize("chosen", ["stop", "measure"])
def test_a_disk_of_an_array_is_pulled(campaign_on, scsi_host, user, chosen):
    disks = add_scsi_disks(scsi_host, 2)
    campaign = campaign_on(scsi_host, disks, MD, on_degraded=chosen)
    until_first_is("done", campaign)
    pulled = sorted(disks)[1]
    scsi_host.ssh("sh", "-c", f"echo 1 >/sys/block/{pulled}/device/delete")
    drive.to_the_end(campaign)
    first, *others = told()
    assert first == ("succeeded", "", [])
    layout = campaign.layouts.get()
    if chosen == "stop":
        assert others == [STOPPED, STOPPED]
        assert f"/dev/{pulled} is gone" in layout.reason_text
    else:
        assert [row[0] for row in others] == ["succeeded", "succeeded"], others
        last = Attempt.objects.order_by("run__position")[2]
        says = {one["says"] for one in last.degraded if one["seen"] == "before"}
        assert f"/dev/{pulled} is gone" in says and any("md: " in one for one in says), says
    assert layout.phase == "stuck"  # nobody can prove that disk blank
    host_cleanup.release_host(layout, host_cleanup.release_phrase(layout), user)
    scsi_host.ssh("sh", "-c", "udevadm settle; modprobe -r scsi_debug")  # for the next one
