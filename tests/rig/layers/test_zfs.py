"""ZFS on a real kernel (QEMU, OpenZFS): the articles' pools and others, power loss; blank by zpool's own look.

Software emulation is slow, so there are few stacks, with much in each.
"""

from __future__ import annotations

import pytest

from agents.contracts import AgentError, GuardError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from tests.rig.bench import RAW, Bench, filesystem

EMPTY = "no pools available"


@pytest.fixture(scope="module")
def bench(zfs_host) -> Bench:
    return Bench(zfs_host)


def disks(use: str = "data", count: int = 1) -> DiskRequest:
    return DiskRequest(use, "ssd", count)


STACKS = {
    "article 000 and 001: stripe and SLOG partition, sync off": (
        LayerSpec("partition", {"use": "log", "size": 128 << 20}, (disks(),)),
        LayerSpec("zpool", {"ashift": 12}, (disks(count=3),)),
        LayerSpec("zfs", {"sync": "disabled", "recordsize": 8192}),
    ),
    "mirror, special, cache, sparse zvol with xfs": (
        LayerSpec("zpool", {"layout": "mirror", "autotrim": True},
                  (disks(count=2), disks("special"), disks("cache"), disks("spare"))),
        LayerSpec("zvol", {"sparse": True, "size": 320 << 20, "volmode": "dev", "sync": "always"}),
        filesystem("xfs"),
    ),
    "zpool on LVM": (
        LayerSpec("lvm", {"type": "linear"}, (disks(count=2),)),
        LayerSpec("zpool", {"ashift": 9}, (disks("log"),)),
        LayerSpec("zfs", {"compression": "zstd", "primarycache": "metadata", "atime": True}),
    ),
}  # fmt: skip
ARTICLE_003 = (
    LayerSpec("zpool", {"layout": "raidz1"}, (disks(count=3),)),
    LayerSpec("zvol", {"volblocksize": 8192}),
    filesystem("ext4"),
)


def assert_no_label(bench: Bench, made: stack.StackPlan) -> None:
    """By zpool's and zdb's own eyes: labels that libblkid does not see, and none in a table that is made again."""
    assert bench.run("zpool status 2>&1") == EMPTY + "\n"
    nodes = [claim.node for claim in made.claims]
    looks = "; ".join(f"zdb -l {node} | grep '^    guid' || true" for node in nodes)
    assert bench.run(looks) == ""
    found = bench.run(f"zpool import -d {' -d '.join(nodes)} 2>&1 || true")
    assert "no pools available" in found, found


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_built_used_and_taken_down_to_blank_disks(bench, name):
    made = bench.plan(*STACKS[name])
    bench.build(made)
    mount = made.target.mount
    bench.run(f"dd if=/dev/urandom of={mount}/f bs=1M count=8 conv=fsync 2>&1")
    bench.assert_taken_down(made)
    assert_no_label(bench, made)
    assert bench.run("ls -d /mnt/benchlab/bl17 /dev/zvol/bl17 2>/dev/null || true") == ""


def test_power_loss_leaves_labels_that_are_provably_ours(bench):
    made = bench.plan(*ARTICLE_003)
    bench.build(made)
    free = bench.run("zfs list -Hpo volsize,refreservation bl17/vol").split()
    assert int(free[0]) == made.target.size
    bench.power_loss()
    assert not bench.facts().zpools
    bench.assert_taken_down(made)
    assert_no_label(bench, made)


def test_a_busy_file_system_makes_the_teardown_fail_loudly(bench):
    made = bench.plan(LayerSpec("zpool", {}, (disks(),)), LayerSpec("zfs"))
    bench.build(made)
    bench.run("nohup sleep 300 >/mnt/benchlab/bl17/held 2>&1 & echo $! >/tmp/sleeper")
    with pytest.raises(AgentError, match=r"umount .* busy"):
        bench.take_down(made)
    bench.run("kill $(cat /tmp/sleeper); sleep 0.5")
    bench.assert_taken_down(made)


def test_a_foreign_pool_is_refused_imported_and_exported(bench):
    made = bench.plan(RAW)
    node = made.claims[0].node
    bench.run(f"zpool create -f -o cachefile=none -O mountpoint=none tank {node}; udevadm settle")
    try:
        with pytest.raises(GuardError, match="belongs to zpool tank"):
            bench.apply(made.steps)
        bench.run("zpool export tank; udevadm settle")
        with pytest.raises(GuardError, match=r"has a zfs_member signature \(tank\)"):
            bench.apply(made.steps)
    finally:
        bench.run(
            f"zpool destroy tank 2>/dev/null || true; zpool labelclear -f {node}1 || true; udevadm settle;"
            f" wipefs -qa {node}; udevadm settle"  # the partitions go, as udev has none of them open
        )
