"""md arrays on a real kernel: made, grown, taken down from every state; blank by the test's own look."""

from __future__ import annotations

import pytest

from agents.contracts import GuardError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from tests.rig.bench import Bench


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    return Bench(rig_host)


def md(count: int, spares: int = 0, **options: object) -> LayerSpec:
    wanted = (
        DiskRequest("data", "ssd", count),
        *((DiskRequest("spare", "ssd", spares),) if spares else ()),
    )
    return LayerSpec("md", options, wanted)


def assert_no_array(bench: Bench) -> None:
    """By mdadm's own eyes."""
    said = bench.run(
        "cat /proc/mdstat; for d in ubdb ubdc ubdd ubde; do mdadm --examine /dev/$d 2>&1 || true; done"
    )
    assert "md127" not in said and "Magic" not in said, said
    assert bench.run("ls /dev/md 2>/dev/null || true") == ""


ARRAYS = {
    "raid0": md(3, level=0, chunk=65536),
    "raid1": md(2, level=1, bitmap="none"),
    "raid5 with a spare": md(3, spares=1, level=5, chunk=16384),
    "raid10 offset": md(3, level=10, layout="o2", assume_clean=True, bitmap="none"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_made_used_and_taken_down_to_blank_disks(bench, name):
    made = bench.plan(ARRAYS[name])
    bench.build(made)
    size = int(bench.run(f"blockdev --getsize64 {made.target.volume}"))
    assert size == made.target.size
    if made.target.stripe_count:
        optimal = int(bench.run(f"blockdev --getioopt {made.target.volume}"))
        assert optimal == made.target.stripe_unit * made.target.stripe_count
    bench.wait(made)
    assert stack.verify_stack(made, bench.facts()) == []
    bench.run(f"mkfs.ext4 -qF {made.target.volume}; udevadm settle")
    bench.assert_taken_down(made)
    assert_no_array(bench)


@pytest.mark.parametrize(("level", "count"), [(0, 2), (5, 3), (10, 3)])
def test_an_array_grows(bench, level, count):
    stage = StageSpec(1, devices=(DiskRequest("data", "ssd", 1),))
    made = bench.plan(md(count, level=level, assume_clean=True), stages=[stage])
    bench.build(made)
    bench.run(f"printf benchlab | dd of={made.target.volume} conv=notrunc 2>&1")
    bench.grow(made)
    bench.wait(made, stage=1)
    assert stack.verify_stack(made, bench.facts(), stage=1) == []
    size = int(bench.run(f"blockdev --getsize64 {made.target.volume}"))
    assert size == made.layers_after(1)[-1].gives.size
    assert bench.run(f"head -c 8 {made.target.volume}") == "benchlab"
    bench.assert_taken_down(made)
    assert_no_array(bench)


def slow_reshape(bench: Bench) -> stack.StackPlan:
    """RAID 5 of 3 on its way to 4, for minutes."""
    stage = StageSpec(1, devices=(DiskRequest("data", "ssd", 1),))
    made = bench.plan(md(3, level=5, chunk=65536, assume_clean=True), stages=[stage])
    bench.build(made)
    bench.run("echo 1000 > /sys/block/md127/md/sync_speed_max")
    bench.grow(made)
    found = stack.awaited(made, bench.facts(), 1)
    assert len(found) == 1 and found[0].says == "reshape of bl17" and 0 <= found[0].done < 0.5
    return made


def test_a_reshape_cut_by_a_power_loss_is_taken_down(bench):
    made = slow_reshape(bench)
    bench.power_loss()
    assert "md127" in bench.run("cat /proc/mdstat")
    bench.assert_taken_down(made)
    assert_no_array(bench)


def test_an_array_that_could_not_start_is_taken_down(bench):
    made = bench.plan(md(3, level=5, assume_clean=True))
    bench.build(made)
    bench.run(
        "mdadm --stop /dev/md/bl17 2>&1; mdadm --incremental /dev/ubdc 2>&1; udevadm settle;"
        "cat /proc/mdstat"
    )
    facts = bench.facts()
    assert [array.state for array in facts.md_arrays] == ["inactive"]
    assert facts.members["ubdc"] == "md bl17"
    bench.assert_taken_down(made)
    assert_no_array(bench)


def test_what_an_earlier_array_held_does_not_come_back(bench):
    """An array of the same shape would begin with the physical volume of somebody."""
    made = bench.plan(md(2, level=1, assume_clean=True))
    bench.build(made)
    bench.run(
        "pvcreate -qy /dev/md/bl17 >/dev/null; mdadm --stop /dev/md/bl17 2>&1;"
        "wipefs -qa /dev/ubdb /dev/ubdc; udevadm settle"
    )
    made = bench.plan(md(2, level=1, assume_clean=True))
    bench.build(made)
    assert bench.run("wipefs -n /dev/md/bl17") == ""
    bench.assert_taken_down(made)


def test_a_foreign_array_is_refused(bench):
    bench.run(
        "mdadm --create /dev/md/data --run --assume-clean --level 1 --raid-devices 2 --metadata 1.2"
        " /dev/ubdb /dev/ubdc 2>&1; udevadm settle"
    )
    try:
        made = bench.plan(md(2, level=1))
        with pytest.raises(GuardError, match="belongs to md data"):
            bench.build(made)
        assert bench.run("cat /sys/block/md127/md/degraded").strip() == "0"
    finally:
        bench.run(
            "mdadm --stop /dev/md/data 2>&1; mdadm --zero-superblock /dev/ubdb /dev/ubdc;"
            "wipefs -qa /dev/ubdb /dev/ubdc; udevadm settle"
        )
