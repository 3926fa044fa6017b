"""Groups of disks: each kind of group with state, members and whose it is."""

from __future__ import annotations

from typing import Any

from agents.facts.model import (
    Bcache,
    BlockDevice,
    Dataset,
    HostFacts,
    MdArray,
    MdMember,
    Signature,
    Vdev,
    Zpool,
)
from agents.uuids import lvm_uuid_of, uuid_of
from benchlab.hosts import blocks
from benchlab.pages.hosts import groups
from tests.hosts.conftest import disk, facts
from tests.hosts.test_blocks import names


def told(
    found: HostFacts, known: blocks.LayoutNames
) -> list[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]]:
    return [
        (g.kind, g.name, g.state, g.members, g.gives, g.whose)
        for g in groups.disk_groups(found, known)
    ]


def volume(name: str, **fields: Any) -> BlockDevice:
    return disk(name, **{"type": "lvm", "serial": "", "model": "", **fields})


CACHED = facts(
    disk("sdb", holders=("dm-1",)), disk("sdc", holders=("dm-1",)), disk("sdd", holders=("dm-2",)),
    volume("dm-1", path="/dev/mapper/blabc5-data_corig", parents=("sdb", "sdc"), holders=("dm-0",)),
    volume("dm-2", path="/dev/mapper/blabc5-fast_cpool_cdata", parents=("sdd",), holders=("dm-0",)),
    volume("dm-0", path="/dev/mapper/blabc5-data", parents=("dm-1", "dm-2"), mounts=("/mnt/benchlab/blabc5",)),
    members={"sdb": "lvm blabc5", "sdc": "lvm blabc5", "sdd": "lvm blabc5"},
)  # fmt: skip


def test_an_lvm_cache_over_a_stripe():
    known = names(["blabc5"])
    assert told(CACHED, known) == [(
        "LVM", "blabc5", "3 physical volumes", ("sdb", "sdc", "sdd"),
        ("/dev/mapper/blabc5-data", "/dev/mapper/blabc5-data_corig", "/dev/mapper/blabc5-fast_cpool_cdata"),
        "ours",
    )]  # fmt: skip
    walked = list(blocks.walk_blocks(blocks.device_trees(CACHED, known)))
    assert [b.device.name for b in walked if not b.repeated] == [
        "sda", "sda1", "sdb", "dm-1", "dm-0", "sdc", "sdd", "dm-2",
    ]  # fmt: skip
    assert {b.whose for b in walked if b.device.name not in ("sda", "sda1")} == {"ours"}


def test_bcache_on_md5():
    members = tuple(MdMember(f"sd{letter}", n) for n, letter in enumerate("bcd"))
    array = MdArray("md127", "active", "raid5", members, slots=3, up=3, action="resync", done=0.4)
    own = uuid_of("blabc5", "set")
    found = facts(
        *(disk(f"sd{letter}", holders=("md127",)) for letter in "bcd"),
        disk("sde", holders=("bcache0",)),
        disk("md127", type="raid5", links=("/dev/md/blabc5",), parents=("sdb", "sdc", "sdd"), holders=("bcache0",)),
        disk("bcache0", type="disk", parents=("md127", "sde")),
        md_arrays=(array,),
        members={**{f"sd{letter}": "md any:blabc5" for letter in "bcd"}, "md127": "bcache", "sde": "bcache"},
        bcache={
            "md127": Bcache(own, "", True, {"cache_mode": "writethrough [writeback] none"}),
            "sde": Bcache(own, "", True, {"cache_replacement_policy": "[lru]"}),
        },
    )  # fmt: skip
    assert told(found, names([], ["blabc5"])) == [
        ("md", "blabc5", "raid5, 3 of 3 up, resync 40%", ("sdb", "sdc", "sdd"), ("/dev/md127",), "orphan"),
        ("bcache", own, "writeback", ("md127 (backing)", "sde (cache)"), ("bcache0",), "orphan"),
    ]  # fmt: skip


def test_a_zpool_with_a_log_and_a_zvol():
    pool = Zpool("blxyz5", "ONLINE", (
        Vdev("/dev/sdb1", "data", "mirror-0", "ONLINE"), Vdev("/dev/sdc1", "data", "mirror-0", "DEGRADED"),
        Vdev("/dev/sdd1", "log", "", "ONLINE"), Vdev("/dev/gone", "cache", "", "UNAVAIL"),
    ))  # fmt: skip
    found = facts(
        *(disk(f"sd{letter}", holders=(f"sd{letter}1",)) for letter in "bcd"),
        *(disk(f"sd{letter}1", type="part", parents=(f"sd{letter}",), holders=("zd0",)) for letter in "bcd"),
        disk("zd0", links=("/dev/zvol/blxyz5/vol",), parents=("sdb1", "sdc1", "sdd1")),
        zpools=(pool,), datasets=(Dataset("blxyz5/vol"), Dataset("blxyz5/data"), Dataset("blxyz5")),
        members={f"sd{letter}1": "zpool blxyz5" for letter in "bcd"},
    )  # fmt: skip
    assert told(found, names(["blabc5"])) == [(
        "zpool", "blxyz5", "online",
        ("sdb1 (mirror-0)", "sdc1 (mirror-0, degraded)", "sdd1 (log)", "/dev/gone (cache, unavail)"),
        ("/dev/zd0", "blxyz5/vol", "blxyz5/data"), "other",
    )]  # fmt: skip
    zvol = next(
        b for b in blocks.walk_blocks(blocks.device_trees(found, names())) if b.device.name == "zd0"
    )
    assert (zvol.layout, zvol.whose) == ("blxyz5", "other")


def test_a_backing_device_in_no_set_stands_alone():
    found = facts(disk("sdb"), bcache={"sdb": Bcache("0" * 32, "home", False)})
    expected = ("bcache", "none: sdb", "no mode known", ("sdb (not registered)",), (), "")
    assert told(found, names()) == [expected]


def test_an_array_that_is_not_started():
    found = facts(
        disk("sdb"), md_arrays=(MdArray("md5", "inactive", "", (MdMember("sdb", 0, "S"),)),)
    )
    assert told(found, names()) == [("md", "md5", "not started", ("sdb (spare)",), (), "")]


def test_a_physical_volume_without_a_group_is_known_by_its_uuid():
    ours = Signature("LVM2_member", uuid=lvm_uuid_of("blabc4", "pv", "data", "/dev/sdb"))
    foreign = Signature("LVM2_member", uuid="aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg")
    found = facts(disk("sdb", signatures=(ours,)), disk("sdc", signatures=(foreign,)))
    assert [b.whose for b in blocks.device_trees(found, names([], ["blabc4"]))] == [
        "",
        "orphan",
        "",
    ]
