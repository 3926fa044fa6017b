"""Disks that change names, or are changed for others, while the power is off; and disks too small for anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.contracts import AgentError, GuardError, PlanError
from agents.facts import reading
from agents.plans import stack
from agents.plans.blank import not_blank
from agents.plans.chain import DiskRequest, LayerSpec
from agents.plans.layout_faults import relocated
from agents.safety.guard import Spare, refusals
from benchlab.practice import DiskSpec
from benchlab.testing import profiles
from tests.rig.bench import LAYOUT, Bench, filesystem, shell_on
from tests.rig.blank import assert_blank
from tests.rig.test_layers import wipe

SERIALS = ("", "", "MOVED-1", "MOVED-2", "TINY-1A", "TINY-1B", "TINY-8A", "TINY-8B")
SIZES = (64, 64, 512, 512, 1, 1, 8, 8)
WEAK_A, WEAK_B, ONE, TWO = range(4)  # /dev/ubdb to /dev/ubde


@pytest.fixture(scope="module")
def bench(make_rig_host) -> Bench:
    return Bench(
        make_rig_host(
            [DiskSpec(size, serial or None) for size, serial in zip(SIZES, SERIALS, strict=True)]
        )
    )


def exchange(bench: Bench, a: int, b: int) -> None:
    """Power off, put the one disk where the other was, power on."""
    _off(bench)
    record, directory = bench.host.record, bench.host.directory
    one, two = directory / f"disk{a + 1}.img", directory / f"disk{b + 1}.img"
    one.rename(directory / "x")
    two.rename(one)
    (directory / "x").rename(two)
    disks = list(record.disks)
    disks[a], disks[b] = disks[b], disks[a]
    replace(record, disks=tuple(disks)).save(directory)
    _on(bench)


def _off(bench: Bench) -> None:
    bench.run("sync")
    bench.host.kill()


def _on(bench: Bench) -> None:
    bench.host.restart()
    bench.shell = shell_on(bench.host)


def marked(bench: Bench, *serials: str) -> None:
    """These are spare, and no other."""
    facts = bench.facts()
    bench.spares = {
        d.identity: Spare(d.identity, d.size, d.model, "ssd", facts.boot_id) for d in facts.devices
        if (d.serial in serials and d.serial) or d.name in serials
    }  # fmt: skip


def sums(bench: Bench, *names: str) -> str:
    return bench.run("sync;" + "".join(f"head -c 1M /dev/{n} | sha256sum;" for n in names))


def disks(count: int = 1, use: str = "data") -> tuple[DiskRequest, ...]:
    return (DiskRequest(use, "ssd", count),)


STACKS = {
    "raw": (LayerSpec("raw", {}, disks()), filesystem("ext4")),
    "lvm": (LayerSpec("lvm", {}, disks()), filesystem("ext4")),
    "partition": (LayerSpec("partition", {}, disks()), LayerSpec("raw"), filesystem("ext4")),
}


@pytest.mark.parametrize("name", STACKS)
def test_disks_that_swapped_names(bench, name):
    marked(bench, "MOVED-1")
    made = bench.plan(*STACKS[name])
    there = made.claims[0].node
    other = next(n for n in ("/dev/ubdd", "/dev/ubde") if n != there)
    bench.build(made)
    bench.run(f"mkfs.ext4 -qF {other}; mount {other} /mnt; echo precious >/mnt/f; umount /mnt")
    exchange(bench, ONE, TWO)
    before = sums(bench, "ubdd", "ubde")

    facts = bench.facts()
    assert facts.device(other).serial == "MOVED-1"
    with pytest.raises(GuardError, match=rf"{there} is serial:MOVED-2.*serial:MOVED-1 is {other} now"):  # fmt: skip
        bench.apply(made.steps)
    for step in stack.teardown_stack(made, facts):  # by the old names nothing can be harmed
        if step.destroys:
            assert refusals(step, facts, bench.spares, LAYOUT)
    assert sums(bench, "ubdd", "ubde") == before

    moved = relocated(made, facts)
    assert [claim.node for claim in moved.claims] == [other]
    bench.apply(stack.teardown_stack(moved, facts), undo=False)
    assert not_blank(made.claims, bench.facts(), LAYOUT) == []
    assert_blank(bench.host, other.removeprefix("/dev/"))
    assert bench.run(f"mount -r {there} /mnt; cat /mnt/f; umount /mnt") == "precious\n"

    again = bench.plan(*STACKS[name])
    assert [(c.identity, c.node) for c in again.claims] == [("serial:MOVED-1", other)]
    bench.build(again)
    bench.assert_taken_down(again)
    assert bench.run(f"mount -r {there} /mnt; cat /mnt/f; umount /mnt") == "precious\n"
    bench.run(f"wipefs -qa {there}; udevadm settle")


def test_a_spare_disk_replaced_by_one_like_it_is_no_spare(bench):
    marked(bench, "MOVED-1")
    made = bench.plan(*STACKS["lvm"])
    node = made.claims[0].node
    at = ONE if node == "/dev/ubdd" else TWO
    _off(bench)
    record = bench.host.record
    new = [replace(d, serial="NEW-1") if i == at else d for i, d in enumerate(record.disks)]
    replace(record, disks=tuple(new)).save(bench.host.directory)
    _on(bench)
    before = sums(bench, "ubdd", "ubde")
    try:
        with pytest.raises(GuardError, match=rf"{node} is serial:NEW-1, but planned was serial:MOVED-1"):  # fmt: skip
            bench.apply(made.steps)
        with pytest.raises(PlanError, match="has 0 spare"):
            bench.plan(*STACKS["lvm"])
        assert relocated(made, bench.facts()) is made
        assert sums(bench, "ubdd", "ubde") == before
    finally:
        _off(bench)
        record.save(bench.host.directory)
        _on(bench)


def test_what_can_be_noticed_of_disks_without_serials_that_swapped(bench):
    """Their identity is name and size: of two alike only what is on them tells them apart, so a boot ends the mark.

    Marked again, traces of membership are refused as everywhere. A plain file system makes the plan another one than
    the person confirmed (stale). Two blank ones cannot be told apart, and nothing is lost.
    """
    marked(bench, "ubdb")
    blank = bench.plan(*STACKS["raw"])
    bench.run("mkfs.ext4 -qF -L others /dev/ubdc; udevadm settle")
    exchange(bench, WEAK_A, WEAK_B)
    now = bench.plan(*STACKS["raw"])
    assert now.claims == blank.claims and now.fingerprint != blank.fingerprint
    with pytest.raises(GuardError, match="was booted since it was marked spare"):
        bench.apply(now.steps)
    assert 'LABEL="others"' in bench.run("blkid -o full /dev/ubdb")
    bench.confirm()
    bench.run("wipefs -qa /dev/ubdb; vgcreate -qy vg0 /dev/ubdb")
    before = sums(bench, "ubdb", "ubdc")
    with pytest.raises(GuardError, match="belongs to lvm vg0"):
        bench.apply(now.steps)
    assert sums(bench, "ubdb", "ubdc") == before
    bench.run("vgremove -qy vg0; pvremove -qy /dev/ubdb; udevadm settle")
    assert bench.plan(*STACKS["raw"]).fingerprint == blank.fingerprint


# One memory behind two hosts, and one name for it on both, as a disk with two ports has.
TWO_PATHS = "modprobe scsi_debug add_host=2 vpd_use_hostno=0 dev_size_mb=96 delay=0; udevadm settle"
WWN_OF_SDB = rb'(?m)^(NAME="sdb".*) WWN="[^"]*"|^/sys/class/block/sdb/device/wwid:.*\n'


def test_two_paths_to_one_disk_are_refused_also_where_one_shows_no_wwn(bench):
    bench.run(TWO_PATHS)
    try:
        printed = bench.shell.run(reading.linux_command((), "n0"), root=True).stdout
        bench.run("echo same | dd of=/dev/sda conv=fsync,notrunc 2>/dev/null")
        assert bench.run("blockdev --flushbufs /dev/sdb; head -c 4 /dev/sdb") == "same"
        for facts in (
            reading.parse_linux_facts(printed),
            reading.parse_linux_facts(re.sub(WWN_OF_SDB, rb"\1", printed)),
        ):
            devices = [facts.find_device(name) for name in ("sda", "sdb")]
            spares = {d.identity: Spare(d.identity, d.size, d.model) for d in devices}
            for name in ("sda", "sdb"):
                why = "; ".join(refusals(wipe(facts, name), facts, spares, LAYOUT))
                assert "two paths to one disk" in why
        assert [d.identity for d in devices] == ["wwn:0x33333330000007d0", "serial:2000"]
    finally:
        bench.run("udevadm settle; modprobe -r scsi_debug; udevadm settle")


def tiny(*specs: LayerSpec) -> Sequence[LayerSpec]:
    return specs


TINY = {
    **{f"{kind} on raw": tiny(LayerSpec("raw", {}, disks()), filesystem(kind))
       for kind in ("ext4", "xfs", "btrfs")},
    "partition": tiny(LayerSpec("partition", {}, disks()), LayerSpec("raw")),
    "lvm": tiny(LayerSpec("lvm", {}, disks(2))),
    "lvm, small extents": tiny(LayerSpec("lvm", {"extent_size": 65536, "stripe_size": 4096}, disks(2))),
    "lvm_cache": tiny(LayerSpec("lvm", {}, disks()), LayerSpec("lvm_cache", {}, disks(1, "cache"))),
    "md 0": tiny(LayerSpec("md", {"level": 0}, disks(2))),
    "md 1": tiny(LayerSpec("md", {"level": 1}, disks(2))),
    "bcache": tiny(LayerSpec("bcache", {}, (*disks(1, "backing"), *disks(1, "cache")))),
}  # fmt: skip


SMALL = profiles.drawn(
    "small disks", [(name, size) for size in (1, 8) for name in TINY], quick=2, more=2, proves=tuple
)


@pytest.mark.covering
@pytest.mark.parametrize(("name", "size"), SMALL)
def test_disks_too_small_are_said_so_and_nothing_stays_behind(bench, name, size):
    """Either it stands and is as large as was promised, or a plan is refused with numbers, or all is undone."""
    marked(bench, f"TINY-{size}A", f"TINY-{size}B")
    bench.quick = True
    here = [d.name for d in bench.facts().devices if d.identity in bench.spares]
    assert len(here) == 2
    try:
        made = bench.plan(*TINY[name])
    except PlanError as error:
        said = str(error)
        assert "layer " in said and any(letter.isdigit() for letter in said.partition(":")[2]), said
    else:
        try:
            bench.build(made)
        except AgentError as error:
            pytest.fail(f"a plan that cannot be built should be refused: {error}")
        finally:
            bench.take_down(made)
    assert_blank(bench.host, *here)
