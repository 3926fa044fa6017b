"""Partitions, LVM and its caches on a real kernel: made, grown, cut off, taken down; blank by the test's own look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.plans import stack
from agents.plans.blank import not_blank
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from benchlab.testing import profiles
from tests.rig import stacks
from tests.rig.bench import LAYOUT, Bench, filesystem

MIB = 1 << 20
SPEED = "/proc/sys/dev/raid/speed_limit_max"
HIDE = 'devices { filter=["r|/dev/ubd.*|"] global_filter=["r|/dev/ubd.*|"] }'


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    made = Bench(rig_host)
    # What LVM wrote of groups that an earlier module made by hand is not ours to look for.
    made.run("rm -rf /etc/lvm/archive/* /etc/lvm/backup/*")
    return made


@pytest.fixture(autouse=True)
def clean(bench) -> Iterator[None]:
    """Whatever a failed test left must not fail the next one."""
    bench.quick = True
    yield
    bench.run(
        "rm -f /etc/lvm/lvmlocal.conf; umount -q /mnt/benchlab/bl17 || true; for i in 1 2 3; do"
        " dmsetup ls | grep -o '^bl17[^[:space:]]*' | xargs -r dmsetup remove --retry || true; done;"
        " for d in b c d e; do wipefs -qa /dev/ubd$d; blockdev --rereadpt /dev/ubd$d || true; done"
        " 2>/dev/null; udevadm settle; sync"  # else the next test's power loss may bring the file back
    )


def disks(count: int, use: str = "data") -> tuple[DiskRequest, ...]:
    return (DiskRequest(use, "ssd", count),)


def lvm(count: int, **options: object) -> LayerSpec:
    return LayerSpec("lvm", options, disks(count))


def cache(**options: object) -> LayerSpec:
    return LayerSpec("lvm_cache", options, disks(1, "cache"))


def partition(**options: object) -> LayerSpec:
    return LayerSpec("partition", options, disks(1))


STRIPE = lvm(2, stripe_size=4096)
STACKS = {
    "a raw partition": (partition(), LayerSpec("raw"), filesystem("ext4")),
    "two linear disks": (lvm(2, type="linear"), filesystem("ext4")),
    "a stripe of 4 KiB over 4": (lvm(4, stripe_size=4096), filesystem("xfs")),
    "a stripe over partitions": (partition(count=2, size=200 * MIB), LayerSpec("lvm")),
    "writeback": (STRIPE, cache(), filesystem("xfs")),
    "writethrough": (STRIPE, cache(mode="writethrough", size=200 * MIB, chunk_size=131072)),
    "passthrough on a cachevol": (lvm(2), cache(kind="cachevol", mode="passthrough")),
    "writecache": (STRIPE, cache(kind="writecache", size=300 * MIB), filesystem("xfs")),
    "a cached mirror": (lvm(2, type="mirror"), cache(), filesystem("ext4")),
}

# The facts are read anew before every step
GUARDED = (
    "a stripe over partitions",
    "a cached mirror",
)


def kinds(name: str) -> set[tuple[str, str]]:
    return stacks.proves(STACKS[name])


DRAWN = profiles.drawn("LVM", list(STACKS), quick=1, more=1, proves=kinds)


@pytest.mark.parametrize("name", DRAWN)
def test_a_stack_is_built_used_and_taken_down_to_blank_disks(bench, name):
    bench.quick = name not in GUARDED
    made = bench.plan(*STACKS[name])
    bench.build(made)
    where = f"{made.target.mount}/f" if made.target.mount else made.target.volume
    bench.run(f"dd if=/dev/urandom of={where} bs=1M count=32 conv=fsync 2>&1")
    assert int(bench.run(f"blockdev --getsize64 {made.target.volume}")) == made.target.size
    assert not_blank(made.claims, bench.facts(), LAYOUT)
    bench.assert_taken_down(made)
    assert_no_lvm(bench)


def assert_no_lvm(bench: Bench) -> None:
    """By LVM's own eyes, and nothing of it in /etc but what the host's own LVM wrote there when it booted."""
    assert bench.run("pvs --noheadings; vgs --noheadings") == ""
    by_us = "grep -rl bl17 /etc/lvm | xargs -r grep -L autoactivation"
    assert bench.run(f"{{ {by_us}; }} || true") == ""


def test_a_mirror_is_awaited(bench):
    made = bench.plan(lvm(2, type="mirror"))
    # KiB/s: else its first copy may be over before anybody looks. No file without the module.
    bench.run(f"modprobe md_mod; echo 2000 >{SPEED}")
    try:
        bench.build(made)
        (found,) = stack.awaited(made, bench.facts())
        assert found.says == "resync of /dev/bl17/data" and 0 <= found.done < 0.9
    finally:
        bench.run(f"echo 200000 >{SPEED}")
    bench.wait(made)
    assert " AA " in bench.run("dmsetup status bl17-data")
    bench.assert_taken_down(made)


def test_a_stripe_grows_and_its_file_system_follows(bench):
    stages = (StageSpec(1, {}, disks(1)), StageSpec(1, {}, disks(1)))
    made = bench.plan(STRIPE, filesystem("xfs"), stages=stages)
    bench.build(made)
    for stage in (1, 2):
        bench.grow(made, stage)
        size = int(bench.run("blockdev --getsize64 /dev/bl17/data"))
        assert size == made.target_at(stage).size
    assert [row.split()[2] for row in bench.run("dmsetup table bl17-data").splitlines()] == [
        "striped", "linear", "linear"]  # fmt: skip
    bench.assert_taken_down(made)


def test_disks_that_lvm_does_not_see_work_all_the_same(bench):
    """As in article 000, where lvm.conf knew nothing of the SSD."""
    bench.run(f"printf '%s\\n' '{HIDE}' >/etc/lvm/lvmlocal.conf")
    made = bench.plan(STRIPE, cache())
    bench.build(made)
    assert bench.run("pvs --noheadings") == ""
    bench.assert_taken_down(made)
    assert bench.run("cat /etc/lvm/lvmlocal.conf") == HIDE + "\n"
    assert bench.run("ls /etc/lvm/devices 2>/dev/null || true") == ""


def test_power_is_lost_with_a_dirty_cache(bench):
    made = bench.plan(STRIPE, cache())
    bench.build(made)
    bench.run("dd if=/dev/urandom of=/dev/bl17/data bs=1M count=64 oflag=direct 2>&1")
    bench.power_loss()
    bench.assert_taken_down(made)
    assert_no_lvm(bench)


def test_power_is_lost_after_a_volume_without_a_group(bench):
    """By its UUID it is known for the layout's own: the guard lets the teardown erase it."""
    made = bench.plan(STRIPE)
    first = next(i for i, step in enumerate(made.steps) if step.argv[0] == "vgcreate")
    bench.apply(made.steps[:first])
    bench.power_loss()
    assert "lvm" in bench.facts().members.values()
    bench.assert_taken_down(made)
    bench.build(stack.plan_stack([STRIPE], LAYOUT, bench.facts(), bench.spares.values()))
    bench.assert_taken_down(made)
