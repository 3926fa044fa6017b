"""Programs that have a spare disk open for writing on a real kernel, as a virtual machine has its disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.contracts import GuardError
from agents.plans.chain import DiskRequest, LayerSpec
from agents.safety.guard import refusals
from tests.rig.bench import LAYOUT, Bench
from tests.rig.test_layers import wipe

DISKS = ("ubdc", "ubdd", "ubde")  # those with serials
LVM = LayerSpec("lvm", {}, (DiskRequest("data", "ssd", 3),))
PARTITION = "sgdisk -n 1:0:0 /dev/ubdd; udevadm settle;"
# A node that udev did not make, in a chroot's /dev.
CHROOT = (
    "mkdir -p /mnt/x; mount -t tmpfs none /mnt/x; mkdir /mnt/x/dev;"
    "mknod /mnt/x/dev/vd b $(stat -c '0x%t 0x%T' /dev/ubdd1);"
)
AWAY = "umount -q /mnt/x; udevadm settle; wipefs -qa /dev/ubdd; udevadm settle; partprobe /dev/ubdd"


@pytest.fixture(autouse=True)
def clean(bench) -> Iterator[None]:
    yield
    bench.run(f"set +e; pkill -x sleep; {AWAY}; true")


def opened(bench: Bench, how: str) -> str:
    """The number of a process that has done `how` and stays."""
    return bench.run(f"nohup sleep 300 {how} >/dev/null 2>&1 & echo $!").strip()


def end(bench: Bench, pid: str) -> None:
    bench.run(f"kill {pid}; while [ -e /proc/{pid}/fd/1 ]; do sleep 0.1; done")


def why(bench: Bench, name: str = "ubdd") -> str:
    facts = bench.facts()
    return "; ".join(refusals(wipe(facts, name), facts, bench.spares, LAYOUT))


@pytest.mark.parametrize("how", ["3<>/dev/ubdd", "3>>/dev/ubdd"])
def test_who_writes_to_a_disk_keeps_it_until_he_has_ended(bench, how):
    made = bench.plan(LVM)
    pid = opened(bench, how)
    with pytest.raises(GuardError, match=rf"open for writing: sleep\[{pid}\]"):
        bench.apply(made.steps)
    assert bench.run("wipefs -n /dev/ubdd") == ""
    end(bench, pid)
    assert why(bench) == ""
    bench.build(made)
    bench.assert_taken_down(made)


@pytest.mark.parametrize("node", ["/dev/ubdd1", "/mnt/x/dev/vd"])
def test_who_writes_to_a_partition_by_whatever_name_keeps_the_disk(bench, node):
    bench.run(PARTITION + CHROOT)
    pid = opened(bench, f"3<>{node}")
    assert (
        f"/dev/ubdd (by ubdd1 on it): is in use by a program that has it open for writing: sleep[{pid}]"
        in why(bench)
    )
    end(bench, pid)
    assert why(bench) == ""


def test_who_only_reads_keeps_nothing(bench):
    opened(bench, "3</dev/ubdd")
    assert why(bench) == ""


def test_our_own_tool_on_our_own_volume_does_not_keep_the_disks(bench):
    """As while a layout grows under load."""
    made = bench.plan(LVM)
    bench.build(made)
    pid = opened(bench, "3<>/dev/bl17/data")
    volume = bench.facts().device("/dev/mapper/bl17-data")
    assert volume is not None and volume.writers == (f"sleep[{pid}]",)
    assert [why(bench, name) for name in DISKS] == ["", "", ""]
    end(bench, pid)
    bench.assert_taken_down(made)
