"""The guard on a real kernel: whatever old lives and other people left on a spare disk, nothing unconfirmed is written.

Each refusal is proven by the test's own sums of the disk's ends. The ways a disk can be in use now: in_use.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.contracts import AgentError, GuardError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.safety.guard import Spare, refusals
from tests.rig.bench import LAYOUT, Bench, filesystem
from tests.rig.leftovers import MAY_GO, MAY_NOT, Left
from tests.rig.test_layers import wipe

DISKS = ("ubdc", "ubdd", "ubde")  # those with serials
MIB = 1 << 20


@pytest.fixture(autouse=True)
def clean(bench) -> Iterator[None]:
    """Whatever a failed test left must not fail the next one."""
    bench.quick = True
    yield
    bench.run(
        "set +e; exec 2>/dev/null; rm -rf /etc/lvm/lvmlocal.conf /etc/lvm/devices"
        " /etc/lvm/archive/* /etc/lvm/backup/*; umount -q /mnt/x /mnt/benchlab/bl17;"
        " for i in 1 2; do dmsetup ls | grep -o '^[^[:space:]]*-[^[:space:]]*' | xargs -r dmsetup remove --retry; done;"
        " for s in /sys/fs/bcache/*-*/stop /sys/block/bcache*/bcache/stop; do [ ! -e $s ] || echo 1 >$s; done;"
        " mdadm --stop --scan; for d in b c d e; do wipefs -qa /dev/ubd$d;"
        " dd if=/dev/zero of=/dev/ubd$d bs=1M count=2; dd if=/dev/zero of=/dev/ubd$d bs=1M seek=511;"
        " done; udevadm settle; for d in b c d e; do blockdev --rereadpt /dev/ubd$d; done; udevadm settle; sync"
    )


def lvm(count: int, **options: object) -> LayerSpec:
    return LayerSpec("lvm", options, (DiskRequest("data", "ssd", count),))


def ends(bench: Bench, *names: str) -> str:
    """Sums of the first and last MiB, read from the disk itself."""
    each = "for n in head tail; do $n -c 1M /dev/{0} | sha256sum; done;"
    return bench.run("sync;" + "".join(each.format(name) for name in names or DISKS))


def refused(bench: Bench, made: stack.StackPlan) -> str:
    """Refusal of the plan's first step by the executor; the disks are as they were."""
    before = ends(bench)
    with pytest.raises(GuardError) as raised:
        bench.apply(made.steps)
    assert ends(bench) == before
    return str(raised.value)


def leave(bench: Bench, lefts: tuple[Left, ...]) -> None:
    for name, left in zip(DISKS, lefts, strict=True):
        bench.run(f"(d=/dev/{name}; {left.make}) >/dev/null 2>&1; udevadm settle")


def names(lefts: tuple[Left, ...]) -> str:
    return ", ".join(left.name for left in lefts)


@pytest.mark.parametrize("lefts", MAY_GO, ids=names)
def test_old_file_systems_and_tables_go_when_a_person_confirmed_the_disks(bench, lefts):
    leave(bench, lefts)
    facts = bench.facts()
    blank = [name for name, left in zip(DISKS, lefts, strict=True) if left.make == ":"]
    assert [name for name in DISKS if not facts.device(name).signatures] == blank
    made = bench.plan(lvm(3, stripe_size=4096), filesystem("ext4"))
    bench.build(made)
    bench.assert_taken_down(made)


@pytest.mark.parametrize("lefts", MAY_NOT, ids=names)
def test_traces_of_membership_are_refused_until_the_cure_that_is_said_was_taken(bench, lefts):
    leave(bench, lefts)
    made = bench.plan(lvm(3, stripe_size=4096))
    said = refused(bench, made)
    for name, left in zip(DISKS, lefts, strict=True):
        node = f"/dev/{name}"
        for cure in (one.format(d=node) for one in left.cures):
            facts = bench.facts()
            why = "; ".join(refusals(wipe(facts, name), facts, bench.spares, LAYOUT))
            assert cure in why and node in why, (left.name, why)
            assert left.said in why or cure != left.cures[0].format(d=node)
            bench.run(f"{cure}; udevadm settle")
    assert f"/dev/{DISKS[0]}" in said
    bench.build(made)
    bench.assert_taken_down(made)


HIDDEN = {
    "a global filter": """printf 'devices { global_filter=["r|/dev/ubd.*|"] }\\n' >/etc/lvm/lvmlocal.conf""",
    "a devices file": "printf 'devices { use_devicesfile=1 }\\n' >/etc/lvm/lvmlocal.conf;"
    "mkdir -p /etc/lvm/devices; touch /etc/lvm/devices/system.devices",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_a_group_that_lvm_hides_is_refused_and_the_layer_works_once_it_is_gone(bench, how):
    bench.run("vgcreate -qy vg0 /dev/ubdc")
    bench.run(HIDDEN[how])
    assert bench.run("pvs --noheadings") == ""
    made = bench.plan(lvm(3))
    assert "LVM2_member" in refused(bench, made)
    bench.run("wipefs -qa /dev/ubdc; udevadm settle")
    bench.build(made)
    assert bench.run("pvs --noheadings") == ""
    bench.assert_taken_down(made)


def test_two_disks_with_the_same_volume_are_both_refused(bench):
    copy = "dd if=/dev/ubdc of=/dev/ubdd bs=1M count=2 2>/dev/null; udevadm settle"
    bench.run(f"vgcreate -qy vg0 /dev/ubdc; {copy}")
    made = bench.plan(lvm(3))
    assert "/dev/ubdc" in refused(bench, made)
    facts = bench.facts()
    for name in ("ubdc", "ubdd"):
        assert refusals(wipe(facts, name), facts, bench.spares, LAYOUT), name


@pytest.mark.quick
def test_a_disk_mounted_between_plan_and_apply_keeps_the_whole_stack_away(bench):
    made = bench.plan(lvm(3), filesystem("xfs"))
    bench.run("mkfs.ext4 -qF /dev/ubde; mkdir -p /mnt/x; mount /dev/ubde /mnt/x")
    bench.run("echo precious >/mnt/x/f; sync")
    said = "; ".join(
        text for step in made.steps for text in refusals(step, bench.facts(), bench.spares, LAYOUT)
    )
    assert "/dev/ubde: is mounted at /mnt/x" in said
    bench.quick = False  # the disks before it in the plan are free: they are blank, and blank they become again
    with pytest.raises(GuardError, match="ubde: is mounted at /mnt/x"):
        bench.apply(made.steps)
    assert bench.run("cat /mnt/x/f") == "precious\n"
    assert bench.run("pvs --noheadings; wipefs -n /dev/ubdc /dev/ubdd") == ""


@pytest.mark.covering  # a regression here wiped a disk, and was drawn one time in eight
def test_a_volume_made_by_hand_in_our_group_stays_until_a_person_removed_it(bench):
    """The group is the layout's, that volume is none that it made: the teardown ends, and loudly."""
    made = bench.plan(lvm(3, size=128 * MIB, type="linear"))
    bench.build(made)
    bench.run("lvcreate -qy -L 64M -n other bl17; mkfs.ext4 -qF /dev/bl17/other; mkdir -p /mnt/x")
    bench.run("mount /dev/bl17/other /mnt/x; echo precious >/mnt/x/f; sync")
    before = ends(bench)
    with pytest.raises(GuardError, match="is mounted at /mnt/x"):
        bench.take_down(made)
    bench.run("umount /mnt/x")
    with pytest.raises(AgentError, match=r"wipefs --all /dev/ubd. .*busy"):
        bench.take_down(made)
    assert ends(bench) == before
    assert bench.run("mount -r /dev/bl17/other /mnt/x; cat /mnt/x/f; umount /mnt/x") == "precious\n"
    bench.run("lvremove -qy bl17/other")
    bench.assert_taken_down(made)


@pytest.mark.quick
@pytest.mark.parametrize("foreign", ["blzzz17", "bl170", "bl1", "xbl17"])
def test_another_installations_group_is_foreign(bench, foreign):
    made = bench.plan(lvm(3))
    bench.run(f"vgcreate -qy {foreign} /dev/ubdc; lvcreate -qy -L 64M -n data {foreign}")
    said = refused(bench, made)
    assert f"belongs to lvm {foreign}" in said
    assert (
        "of layout blzzz17 of BenchLab" if foreign == "blzzz17" else "not made by this layout"
    ) in said
    bench.run(f"vgremove -qy {foreign}; pvremove -qy /dev/ubdc")


def test_a_group_cannot_be_larger_than_its_disks(bench):
    before = ends(bench)
    with pytest.raises(AgentError, match=r"\d+ (MiB|B|extents)") as raised:
        bench.plan(lvm(3, size=1 << 40))
    assert "layer 1 (lvm)" in str(raised.value) and ends(bench) == before


def test_an_own_name_does_not_excuse_a_disk_nobody_confirmed(bench):
    facts = bench.facts()
    made = bench.plan(lvm(1))
    kept, bench.spares = bench.spares, {}
    try:
        assert "not marked spare" in refused(bench, made)
    finally:
        bench.spares = kept
    device = facts.device("ubdb")
    assert device.weak and Spare(device.identity, device.size, device.model).identity not in bench.spares  # fmt: skip
