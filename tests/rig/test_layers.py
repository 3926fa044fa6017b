"""Layers, executor and guard against a real kernel; what is left on a disk is looked at by the test's own commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.contracts import AgentError, GuardError, Reason, Step
from agents.facts import reading
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.blank import not_blank
from agents.plans.chain import DiskRequest, LayerSpec
from agents.safety.guard import Spare, refusals
from tests.agents.made_up import claim
from tests.rig.bench import LAYOUT, RAW, Bench, filesystem, shell_on
from tests.rig.blank import assert_blank
from tests.rig.in_use import USES
from tests.rig.kernel_uses import COVERING, KERNEL_USES, NO_TARGET, TARGET, fileio


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    return Bench(rig_host)


@pytest.fixture(autouse=True)
def clean(request, bench) -> Iterator[None]:
    """Every test leaves blank disks, by its own teardown or by this."""
    yield
    # The copy of a btrfs's superblock, too: wipefs leaves it.
    bench.run(
        "sync; for d in ubdb ubdc ubdd ubde; do wipefs -qa /dev/$d;"
        " dd if=/dev/zero of=/dev/$d bs=4096 seek=16384 count=1 status=none; done; udevadm settle"
    )


STACKS = {
    "raw": (RAW,),
    "raw_discard": (LayerSpec("raw", {"discard": True}, (DiskRequest("data", "ssd"),)),),
    "xfs": (RAW, filesystem("xfs", mount_options=["noatime", "logbsize=256k"])),
    "ext4": (RAW, filesystem("ext4", mkfs_options=["-m", "0"])),
    "btrfs": (RAW, filesystem("btrfs", mount_options=["noatime", "nodatacow"])),
    "directory": (LayerSpec("directory"),),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_is_built_used_and_taken_down_to_blank_disks(bench, name):
    made = bench.plan(*STACKS[name])
    bench.build(made)
    if made.target.mount:
        bench.run(f"dd if=/dev/urandom of={made.target.mount}/f bs=1M count=8 conv=fsync 2>&1")
    else:  # what a benchmark could leave: something that looks like a superblock
        bench.run(f"mkfs.ext4 -qF {made.target.volume}; udevadm settle")
    if made.claims:
        assert not_blank(made.claims, bench.facts(), "bl17")
    bench.take_down(made)
    assert_blank(bench.host, *(claim.node.removeprefix("/dev/") for claim in made.claims))
    assert not_blank(made.claims, bench.facts(), "bl17") == []
    assert bench.run("ls -d /mnt/benchlab/bl17 /var/tmp/benchlab/bl17 2>/dev/null || true") == ""
    bench.take_down(made)  # twice does no harm


def test_old_partitions_go_with_their_file_systems(bench):
    bench.run(
        "sgdisk -n 1:0:+200M -n 2:0:0 /dev/ubdc; udevadm settle;"
        "mkfs.ext4 -qF /dev/ubdc1; mkfs.btrfs -qf /dev/ubdc2; udevadm settle"
    )
    only = {d.identity: d for d in [bench.facts().device("ubdc")]}
    pool = [spare for identity, spare in bench.spares.items() if identity in only]
    made = stack.plan_stack((RAW,), "bl17", bench.facts(), pool)
    bench.build(made)
    assert_blank(bench.host, "ubdc")
    bench.run("sgdisk -n 1:0:+200M -n 2:0:0 /dev/ubdc; udevadm settle")
    assert bench.run("wipefs -n /dev/ubdc1; wipefs -n /dev/ubdc2") == ""
    bench.run("sgdisk -Z /dev/ubdc; udevadm settle; partprobe /dev/ubdc; udevadm settle")


def test_a_mount_that_fails_is_undone_and_the_disk_is_blank_again(bench):
    made = bench.plan(RAW, filesystem("ext4", mount_options=["data=no_such_mode"]))
    with pytest.raises(AgentError, match=r"mount .* ended with exit code 32") as raised:
        bench.build(made)
    assert raised.value.reason is Reason.COMMAND_FAILED
    assert_blank(bench.host, made.claims[0].node.removeprefix("/dev/"))
    assert [r.argv[0] for r in bench.records if r.undo and r.exit_code == 0][-2:] == ["rmdir", "wipefs"]  # fmt: skip


def test_a_busy_mount_makes_the_teardown_fail_loudly(bench):
    made = bench.plan(*STACKS["ext4"])
    bench.build(made)
    bench.run("nohup sleep 60 >/mnt/benchlab/bl17/held 2>&1 & echo $! >/tmp/sleeper")
    with pytest.raises(AgentError, match=r"umount .* busy"):
        bench.take_down(made)
    assert not_blank(made.claims, bench.facts(), "bl17")
    bench.run("kill $(cat /tmp/sleeper); sleep 0.2")
    bench.take_down(made)
    assert_blank(bench.host, made.claims[0].node.removeprefix("/dev/"))


def wipe(facts: HostFacts, name: str) -> Step:
    device = facts.find_device(name)
    assert device is not None
    return Step(("wipefs", "--all", "--force", device.path), "wipe", destroys=(claim(device),))


@pytest.mark.covering
@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_a_spare_disk_that_is_in_use_is_not_wiped(bench, use):
    assert_not_wiped(bench, use)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(use, marks=[pytest.mark.covering] if number in COVERING else [])
        for number, use in enumerate(KERNEL_USES)
    ],
    ids=lambda use: use.name,
)
def test_a_spare_disk_that_the_kernel_has_open_is_not_wiped(bench, use):
    assert_not_wiped(bench, use)


def assert_not_wiped(bench, use):
    before = wipe(bench.facts(), "ubdc")  # planned while the disk was free
    bench.run(use.make)
    try:
        # Not its bytes: a mounted file system writes to itself.
        signatures = "wipefs --no-act --noheadings /dev/ubdc"
        there = bench.run(signatures)
        with pytest.raises(GuardError, match=use.said):
            bench.apply([before])
        assert bench.run(signatures) == there
    finally:
        bench.run(use.unmake)


@pytest.mark.covering
def test_files_that_the_kernel_exports_or_stands_on_hold_no_spare_disk(bench):
    """Of another file system, one of them deleted since."""
    bench.run(
        TARGET + "truncate -s 64M /root/lun /root/a /root/b; losetup /dev/loop0 /root/a; losetup /dev/loop1 /root/b;"
        "rm /root/b;" + fileio("/root/lun", "67108864")
    )  # fmt: skip
    try:
        facts = bench.facts()
        assert {"loop0", "loop1"} <= {device.name for device in facts.devices}
        assert refusals(wipe(facts, "ubdc"), facts, bench.spares, LAYOUT) == []
    finally:
        bench.run("losetup -d /dev/loop0; losetup -d /dev/loop1; rm /root/a /root/lun;" + NO_TARGET)


def test_the_disk_of_the_running_system_is_refused_even_if_marked_spare(bench):
    facts = bench.facts()
    root = facts.device("ubda")
    bench.spares[root.identity] = Spare(root.identity, root.size, root.model, "ssd")
    try:
        with pytest.raises(GuardError, match="the running system is on it"):
            bench.apply([wipe(facts, "ubda")])
    finally:
        del bench.spares[root.identity]


def test_a_disk_nobody_marked_spare_is_refused(bench):
    step = wipe(bench.facts(), "ubdc")
    kept, bench.spares = bench.spares, {}
    try:
        with pytest.raises(GuardError, match="not marked spare"):
            bench.apply([step])
    finally:
        bench.spares = kept


def test_a_user_without_sudo_reads_facts_that_allow_nothing(rig_host, bench: Bench):
    facts = reading.read_facts(shell_on(rig_host, "nosudo"))
    assert not facts.root and facts.devices and any("root" in what for what in facts.unknown)
