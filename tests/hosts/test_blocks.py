"""A host's devices as what they are stacked into."""

from __future__ import annotations

import pytest

from agents.facts.model import Bcache, Signature
from agents.uuids import uuid_of
from benchlab.hosts import blocks
from tests.hosts.conftest import disk, facts

LV = disk(
    "dm-0", path="/dev/mapper/bl17-data", type="lvm", serial="", model="", majmin="254:0",
    parents=("sdb", "sdc"), mounts=("/mnt/benchlab/bl17",),
)  # fmt: skip
STRIPE = facts(
    disk("sdb", holders=("dm-0",), signatures=(Signature("LVM2_member"),)),
    disk("sdc", holders=("dm-0",)),
    LV,
    members={"sdb": "lvm bl17", "sdc": "lvm bl17"},
)


def drawn(forest: list[blocks.Block]) -> list[tuple[str, list[str]]]:
    return [(root.device.name, [child.device.name for child in root.children]) for root in forest]


def test_each_disk_carries_what_stands_on_it():
    expected = [("sda", ["sda1"]), ("sdb", ["dm-0"]), ("sdc", ["dm-0"])]
    assert drawn(blocks.device_trees(STRIPE)) == expected


def test_a_volume_over_two_disks_is_drawn_once_in_full():
    first, second = (
        b for b in blocks.walk_blocks(blocks.device_trees(STRIPE)) if b.device.name == "dm-0"
    )
    assert (first.repeated, second.repeated) == (False, True)


def names(holding=(), past=(), tag="abc") -> blocks.LayoutNames:
    return blocks.LayoutNames(frozenset(holding), frozenset(past), tag)


def test_ours_foreign_and_orphans_are_told_apart():
    by_name = {
        b.device.name: b for b in blocks.walk_blocks(blocks.device_trees(STRIPE, names(["bl17"])))
    }
    assert (by_name["dm-0"].layout, by_name["dm-0"].whose) == ("bl17", "ours")
    assert by_name["sdb"].member == "lvm bl17" and by_name["sdb"].ours
    assert by_name["sda1"].whose == ""
    left = [
        b
        for b in blocks.walk_blocks(blocks.device_trees(STRIPE, names(["bl18"], ["bl17"])))
        if b.orphan
    ]
    assert {b.device.name for b in left} == {"sdb", "sdc", "dm-0"}


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("blabc5", "ours"),
        ("blabc4", "orphan"),
        ("blabc99", "orphan"),  # this installation's, of a layout that is gone
        ("blxyz5", "other"),
        ("bl5", "other"),  # of a BenchLab before there were tags, and not of this one
        ("bl3", "orphan"),
        ("blabcd5", ""),
        ("blue", ""),
        ("bl5x", ""),
    ],
)
def test_a_name_is_ours_only_when_it_is_exactly_ours(name, whose):
    known = names(["blabc5"], ["blabc4", "bl3"])
    told = blocks.device_trees(
        facts(disk("dm-0", path=f"/dev/mapper/{name}-data", type="lvm")), known
    )
    assert told[-1].whose == whose


def test_an_md_member_is_known_by_its_superblock():
    member = disk("sdb", signatures=(Signature("linux_raid_member", label="lab1:blabc4"),))
    assert blocks.device_trees(facts(member), names([], ["blabc4"]))[1].orphan


def test_a_bcache_device_without_a_label_is_known_by_its_set():
    found = facts(disk("sdb"), disk("sdc"), bcache={
        "sdb": Bcache(set_uuid=uuid_of("blabc4", "set")), "sdc": Bcache(set_uuid="0" * 32),
    })  # fmt: skip
    told = blocks.device_trees(found, names([], ["blabc3", "blabc4"]))
    assert [block.layout for block in told] == ["", "blabc4", ""]


def test_a_name_that_only_looks_like_ours_is_foreign():
    for path in ("/dev/mapper/bl17x-data", "/dev/mapper/foreign_bl17", "/dev/mapper/blue"):
        foreign = facts(disk("dm-0", path=path, type="lvm"))
        assert all(b.layout == "" for b in blocks.walk_blocks(blocks.device_trees(foreign)))


def test_empty_slots_are_left_out_and_used_ones_stay():
    loops = facts(
        disk("loop0", type="loop", majmin="7:0"),
        disk("loop1", type="loop", majmin="7:1", mounts=("/snap",)),
        disk("zram0", majmin="252:0", swap=True),
        disk("sr0", type="rom", size=0, majmin="11:0"),
    )
    assert [b.device.name for b in blocks.device_trees(loops)] == ["sda", "loop1", "zram0"]


def test_disks_are_in_natural_order():
    many = facts(*(disk(f"nvme0n{n}", majmin=f"259:{n}") for n in (10, 2, 1)))
    assert [b.device.name for b in blocks.device_trees(many)] == [
        "nvme0n1",
        "nvme0n2",
        "nvme0n10",
        "sda",
    ]


def test_a_ring_of_holders_ends():
    ring = facts(disk("sdb", holders=("dm-0",)), disk("dm-0", holders=("dm-1",), parents=("dm-1",)),
                 disk("dm-1", parents=("dm-0",), holders=("dm-0",)))  # fmt: skip
    assert blocks.device_trees(ring)


def test_what_is_a_whole_disk():
    assert blocks.is_whole(disk("nbd0"))
    assert blocks.is_whole(disk("ubda"))
    assert not blocks.is_whole(disk("sda1", type="part"))
    assert not blocks.is_whole(disk("zram0"))
    assert not blocks.is_whole(disk("nbd1", size=0))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bl17", "bl17"),
        ("bl17-data", "bl17"),
        ("blabc17-data", "blabc17"),
        ("/mnt/benchlab/bl17", "bl17"),
        ("bl17_0", "bl17"),
        ("bl17--old-data", ""),
        ("bl17-data:old", ""),
        ("bl17.bak", ""),
        ("bl17_old", ""),
        ("x bl17-data", ""),
        ("bl17x", ""),
    ],
)
def test_a_name_that_only_begins_like_ours_is_a_strangers(text, name):
    assert blocks.first_layout_name([text]) == name
