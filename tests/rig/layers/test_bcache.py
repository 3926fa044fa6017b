"""bcache on a real kernel: alone, on an array, under one; torn down dirty, half registered, after a power loss."""

from __future__ import annotations

import pytest

from agents.contracts import GuardError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.uuids import uuid_of
from tests.rig.bench import LAYOUT, Bench, filesystem

SMALL = {"bucket_size": 262144}  # the rig's disks have too few of the usual buckets


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    return Bench(rig_host)


def bcache(backings: int, **chosen: object) -> LayerSpec:
    own = (DiskRequest("backing", "ssd", backings),) if backings else ()
    return LayerSpec("bcache", {**SMALL, **chosen}, (*own, DiskRequest("cache", "ssd")))


def assert_no_bcache(bench: Bench) -> None:
    assert bench.run("ls -d /sys/class/block/*/bcache /sys/fs/bcache/*-* 2>/dev/null || true") == ""
    assert "cset.uuid" not in bench.run(
        "for d in ubdb ubdc ubdd ubde; do bcache-super-show /dev/$d 2>/dev/null || true; done"
    )


def test_a_dirty_cache_under_a_file_system_is_thrown_away(bench):
    made = bench.plan(bcache(1), filesystem("ext4"))
    bench.build(made)
    bench.run(f"dd if=/dev/urandom of={made.target.mount}/f bs=1M count=40 conv=fsync 2>&1")
    assert bench.run("cat /sys/block/bcache0/bcache/state").strip() == "dirty"
    bench.assert_taken_down(made)
    assert_no_bcache(bench)


def test_two_disks_behind_one_cache_are_striped_by_md(bench):
    options = {"cache_mode": "writearound", "sequential_cutoff": 0, "writeback_percent": 40}
    made = bench.plan(bcache(2, **options), LayerSpec("md", {"level": 0, "chunk": 65536}))
    bench.build(made)
    assert bench.run("ls /dev/bcache/by-label").split() == ["bl17-1", "bl17-2"]
    assert "[writearound]" in bench.run("cat /sys/block/bcache1/bcache/cache_mode")
    bench.power_loss()
    bench.assert_taken_down(made)
    assert_no_bcache(bench)


def test_on_an_array_data_begins_at_a_full_stripe(bench):
    array = LayerSpec(
        "md", {"level": 5, "chunk": 65536, "assume_clean": True}, (DiskRequest("data", "ssd", 3),)
    )
    made = bench.plan(array, bcache(0), filesystem("ext4"))
    bench.build(made)
    assert "dev.data.first_sector\t256\n" in bench.run("bcache-super-show /dev/md/bl17")
    bench.power_loss()
    assert bench.run("ls /dev/bcache/by-label") == "bl17\n"
    bench.assert_taken_down(made)
    assert_no_bcache(bench)


def test_what_a_cut_before_the_label_leaves_is_ours(bench):
    made = bench.plan(bcache(1))
    steps = made.layers[0].steps
    at = next(number for number, step in enumerate(steps) if step.argv[0] == "make-bcache")
    bench.apply(steps[: at + 1])
    bench.run("udevadm settle")
    facts = bench.facts()
    assert [found.label for found in facts.bcache.values()] == ["", ""]
    assert {found.set_uuid for found in facts.bcache.values()} == {uuid_of(LAYOUT, "bcache")}
    bench.assert_taken_down(made)
    assert_no_bcache(bench)


def test_a_backing_disk_without_its_cache_is_taken_down(bench):
    made = bench.plan(bcache(1))
    bench.build(made)
    backing, cache = (made.layers[0].target.devices[use][0].node for use in ("backing", "cache"))
    bench.run("dd if=/dev/urandom of=/dev/bcache0 bs=1M count=20 oflag=direct 2>&1")
    bench.run(
        "echo 1 > /sys/block/bcache0/bcache/stop; echo 1 > /sys/fs/bcache/*-*/stop;"
        "while [ -e /sys/class/block/bcache0 ] || ls -d /sys/fs/bcache/*-* 2>/dev/null; do sleep 0.2; done;"
        f"echo {backing} > /sys/fs/bcache/register; udevadm settle"
    )
    found = {bench.facts().device(name).path: what for name, what in bench.facts().bcache.items()}
    assert found[backing].registered and found[backing].values["running"] == "0"
    assert not found[cache].registered
    assert stack.verify_stack(made, bench.facts())
    bench.assert_taken_down(made)
    assert_no_bcache(bench)


def test_a_foreign_superblock_is_refused(bench):
    made = bench.plan(bcache(1))
    disk = made.claims[0].node
    bench.run(f"make-bcache -B {disk} >/dev/null; udevadm settle")
    try:
        with pytest.raises(GuardError, match="bcache"):
            bench.build(made)
        assert "dev.data.first_sector" in bench.run(f"bcache-super-show {disk}")
    finally:
        name = disk.removeprefix("/dev/")
        bench.run(
            f"echo 1 > /sys/block/{name}/bcache/stop;"
            f"while [ -e /sys/block/{name}/bcache ]; do sleep 0.2; done; wipefs -qa {disk}"
        )
