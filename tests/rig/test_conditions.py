"""Settings that change between two runs or during one, and a member that is away for a part of a run, on a real kernel:
no number stands under the old name."""

from __future__ import annotations

import pytest

from benchlab.runs.models import Attempt
from tests.rig.blank import assert_blank
from tests.rig.test_degraded import EXT4, LVM, MD, campaign_on, on_rig, told, until_first_is
from tests.runs import drive
from tests.topologies.plans import layer

__all__ = ["campaign_on", "on_rig"]
pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

BCACHE = [layer("bcache", {"cache_mode": "writeback"}, backing=("ssd", 1), cache=("ssd", 1)), EXT4]
# Away and back, while the run goes on: what a look after the run sees is in order, or recovers.
AWAY = {
    "md": """
array=/dev/md/{name}
mdadm --fail $array /dev/ubdc && sleep 2 && mdadm --remove $array /dev/ubdc && sleep 1
mdadm --re-add $array /dev/ubdc || mdadm --add $array /dev/ubdc
""",
    "lvm": """
leg={name}-data_rimage_1; was=$(dmsetup table $leg); size=$(blockdev --getsz /dev/mapper/$leg)
dmsetup suspend --nolockfs $leg; echo 0 $size error | dmsetup load $leg; dmsetup resume $leg
sleep 2
dmsetup suspend --nolockfs $leg; echo "$was" | dmsetup load $leg; dmsetup resume $leg
lvchange -qq --refresh {name}/data
""",
    "bcache": """
cd /sys/block/bcache0/bcache; set=$(ls -d /sys/fs/bcache/*-*)
echo 1 >detach
sleep 2
echo "${{set##*/}}" >attach
""",
}
ONE_AWAY = {
    "md": (MD, "md: md127 runs with 1 of 2 members, for "),
    "lvm": (LVM, "lvm: leg 2 of 2 of "),
    "bcache": (BCACHE, "does not run with its cache (state 'no cache'), for "),
}
CHANGED = ("failed", "changed_meanwhile")


def ends() -> list[tuple[str, str]]:
    return [(outcome, reason) for outcome, reason, _ in told()]


def reasons() -> list[str]:
    return list(Attempt.objects.order_by("run__position").values_list("reason_text", flat=True))


@pytest.mark.covering
def test_a_cache_that_is_switched_off_in_a_run_fails_it_and_those_after_it(on_rig, rig_host):
    campaign = on_rig(BCACHE, "fio")
    until_first_is("done", campaign)
    until_first_is("running", campaign)
    rig_host.ssh("sh", "-c", "echo none >/sys/block/bcache0/bcache/cache_mode")
    drive.to_the_end(campaign)
    assert ends() == [("succeeded", ""), CHANGED, CHANGED]
    _, during, refused = reasons()
    assert "bcache cache_mode of /dev/ubd" in during
    assert "was writeback when the run began and is none after the run" in during
    assert "none before the run" in refused and "not started" in refused
    assert_blank(rig_host, "ubdb", "ubdc")


def test_a_read_ahead_that_is_set_back_by_hand_is_set_again_or_refused(on_rig, rig_host):
    """What the tuning layer sets is set again; what no layer sets is refused when it has changed."""
    campaign = on_rig([*MD[:1], layer("tuning", {"read_ahead_kb": 512}), EXT4])
    until_first_is("done", campaign)
    rig_host.ssh("sh", "-c", "echo 128 >/sys/block/ubdb/queue/read_ahead_kb")
    until_second = Attempt.objects.filter(run__campaign=campaign, phase="done")
    drive.until(campaign, lambda: until_second.count() == 2)
    rig_host.ssh("sh", "-c", "echo 2 >/sys/block/ubdb/queue/nomerges")
    drive.to_the_end(campaign)
    rig_host.ssh("sh", "-c", "echo 0 >/sys/block/ubdb/queue/nomerges")
    assert ends() == [("succeeded", ""), ("succeeded", ""), CHANGED]
    assert (
        "nomerges of /dev/ubdb was 0 when the layout was verified and is 2 before the run"
        in reasons()[2]
    )
    assert_blank(rig_host, "ubdb", "ubdc")


@pytest.mark.parametrize("kind", ONE_AWAY)
def test_a_member_that_was_away_for_a_part_of_a_run_marks_it(on_rig, rig_host, kind):
    layers, fault = ONE_AWAY[kind]
    campaign = on_rig(layers, "fio", on_degraded="measure")
    until_first_is("running", campaign)
    rig_host.ssh("sh", "-c", AWAY[kind].format(name=campaign.layouts.get().name))
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").exists(), 120)
    first = Attempt.objects.order_by("run__position").first()
    assert first is not None and first.outcome == "succeeded"
    says = [one["says"] for one in first.degraded]
    assert any(fault in one and one.endswith(" s") for one in says), says
    assert {one["seen"] for one in first.degraded} == {"during"}
    drive.to_the_end(campaign, 600)
    assert_blank(rig_host, "ubdb", "ubdc")
