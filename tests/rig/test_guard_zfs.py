"""The guard and ZFS's members on OpenZFS itself: every kind of them, in pools imported, exported and destroyed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.contracts import GuardError
from agents.safety.guard import refusals
from tests.rig.bench import LAYOUT, Bench
from tests.rig.test_layers import wipe

MEMBERS = {"vdb": "data", "vdc": "log", "vdd": "cache", "vde": "spare"}
CLEAR = (
    "set +e; exec 2>/dev/null; zpool import -f tank; zpool destroy -f tank;"
    " for d in vdb vdc vdd vde; do for p in 1 9; do"
    " zpool labelclear -f /dev/$d$p; wipefs -qa /dev/$d$p; done; sgdisk --zap-all /dev/$d; wipefs -qa /dev/$d;"
    " dd if=/dev/zero of=/dev/$d bs=1M count=2; dd if=/dev/zero of=/dev/$d bs=1M seek=510; done; udevadm settle;"
    " for d in vdb vdc vdd vde; do flock /dev/$d blockdev --rereadpt /dev/$d; done; udevadm settle; true"
)


@pytest.fixture(scope="module")
def bench(zfs_host) -> Iterator[Bench]:
    made = Bench(zfs_host)
    yield made
    made.run(CLEAR)


def ends(bench: Bench) -> str:
    """Sums of the ends of every disk, as the disk has them."""
    both = "for n in head tail; do $n -c 1M /dev/$d | sha256sum; done"
    return bench.run(f"sync; for d in vdb vdc vdd vde; do {both}; done")


def assert_refused(bench: Bench, said: str, *names: str) -> None:
    facts = bench.facts()
    for name in names:
        why = "; ".join(refusals(wipe(facts, name), facts, bench.spares, LAYOUT))
        assert said in why, (name, why)


def test_members_of_pools(bench):
    """One test, for each part goes on from the pool that the one before it left: two processes must not share them."""
    are_refused_whatever_their_use_and_state(bench)
    a_pool_that_is_not_imported_loses_no_data_with_its_cache(bench)
    the_cure_that_is_said_frees_them(bench)


def are_refused_whatever_their_use_and_state(bench):
    free = [wipe(bench.facts(), name) for name in MEMBERS]
    bench.run(
        "zpool create -f tank vdb log vdc cache vdd spare vde; echo precious >/tank/f; udevadm settle"
    )
    assert_refused(bench, "belongs to zpool tank", *MEMBERS)
    for state in ("zpool export tank", "zpool import tank; zpool destroy tank"):
        bench.run(f"{state}; udevadm settle")
        before = ends(bench)
        assert_refused(bench, "zfs_member", "vdb", "vdc")
        with pytest.raises(GuardError, match="zfs_member"):
            bench.apply(free[:1])
        assert ends(bench) == before


def a_pool_that_is_not_imported_loses_no_data_with_its_cache(bench):
    """Labels of caches and spares name no pool, and libblkid sees none on them: they pass for an old table."""
    bench.run("zpool import -D -f tank; zpool export tank; udevadm settle")
    bench.apply([wipe(bench.facts(), "vdd")])
    assert (
        bench.run("zpool import tank; cat /tank/f; zpool destroy tank; udevadm settle")
        == "precious\n"
    )


def the_cure_that_is_said_frees_them(bench):
    for name in ("vdb", "vdc"):
        assert_refused(bench, f"wipefs -a /dev/{name}1", name)
        bench.run(f"wipefs -qa /dev/{name}1; udevadm settle")
        facts = bench.facts()
        assert refusals(wipe(facts, name), facts, bench.spares, LAYOUT) == []


def test_disks_that_the_kernel_serves(bench):
    """Its NVMe target and zram have no holder; the target does not even keep wipefs away."""
    subsystem = "/sys/kernel/config/nvmet/subsystems/nqn.2014-08.org.nvmexpress:uuid:1"
    bench.run(
        "modprobe -a nvmet zram; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config;"
        f"mkdir {subsystem}; mkdir {subsystem}/namespaces/1; echo -n /dev/vdb >{subsystem}/namespaces/1/device_path;"
        f"echo 1 >{subsystem}/namespaces/1/enable; echo /dev/vdc >/sys/block/zram0/backing_dev"
    )
    try:
        assert_refused(
            bench, "NVMe target as nqn.2014-08.org.nvmexpress:uuid:1/1: if nobody needs", "vdb"
        )
        assert_refused(bench, "is the backing device of /dev/zram0: zramctl --reset", "vdc")
        facts = bench.facts()
        assert refusals(wipe(facts, "vdd"), facts, bench.spares, LAYOUT) == []
    finally:
        bench.run(
            f"rmdir {subsystem}/namespaces/1 {subsystem}; umount /sys/kernel/config; modprobe -r nvmet;"
            "zramctl --reset /dev/zram0; modprobe -r zram; udevadm settle"
        )
    facts = bench.facts()
    assert [refusals(wipe(facts, n), facts, bench.spares, LAYOUT) for n in ("vdb", "vdc")] == [
        [],
        [],
    ]
