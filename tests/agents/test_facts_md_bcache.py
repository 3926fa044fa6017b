"""Arrays and bcache devices as Linux 6.1 showed them on a practice host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.contracts import AgentError, Need
from agents.facts import reading, sections, volumes
from agents.facts.device_uses import reasons_in_use
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, MdArray, MdMember, Signature
from agents.facts.sections import Section
from agents.uuids import uuid_of
from tests.agents import made_up
from tests.agents.linux_host import output

RESHAPE = """Personalities : [raid6] [raid5] [raid4]
md127 : active raid5 ubde[4] ubdd[3](S) ubdc[1](W)(F) ubdb[0]
      1046528 blocks super 1.2 level 5, 64k chunk, algorithm 2 [4/3] [UU_U]
      [>....................]  reshape =  0.7% (4224/523264) finish=2.0min speed=4224K/sec
      bitmap: 1/1 pages [4KB], 65536KB chunk

unused devices: <none>"""
OTHERS = """Personalities : [raid0] [raid1] [raid10]
md0 : active raid0 ubdc[1] ubdb[0]
      1046528 blocks super 1.2 64k chunks

md1 : active (auto-read-only) raid1 sdb[1] sda[0]
      523264 blocks super 1.2 [2/2] [UU]
      \tresync=PENDING
md2 : active raid10 sdf[3] sde[2] sdd[1] sdc[0]
      1046528 blocks super 1.2 64K chunks 2 offset-copies [4/4] [UUUU]
md3 : inactive sdh[3](S) sdg[1](S)
      1046528 blocks super 1.2

unused devices: <none>"""


def section(said: str) -> Section:
    return Section("mdstat", 0, said.encode(), "")


def test_an_array_in_the_middle_of_a_reshape():
    members = (
        MdMember("ubde", 4),
        MdMember("ubdd", 3, "S"),
        MdMember("ubdc", 1, "WF"),
        MdMember("ubdb", 0),
    )
    assert volumes.parse_mdstat(section(RESHAPE)) == (
        MdArray("md127", "active", "raid5", members, 65536, "", 4, 3, True, "reshape", 0.007, 120.0),
    )  # fmt: skip


def test_other_levels_and_states():
    zero, one, ten, lost = volumes.parse_mdstat(section(OTHERS))
    assert (zero.level, zero.chunk, zero.slots, zero.bitmap) == ("raid0", 65536, 0, False)
    assert (one.level, one.chunk, one.slots, one.action, one.finish_s) == ("raid1", 0, 2, "resync", None)  # fmt: skip
    assert (ten.layout, ten.chunk) == ("o2", 65536)
    assert (lost.state, lost.level, lost.members[0].flags) == ("inactive", "", "S")


def test_what_is_no_line_of_mdstat_is_said():
    with pytest.raises(AgentError, match="mdstat"):
        volumes.parse_mdstat(section("md0 is strange"))


def disks(*names: str, extra: str = "") -> dict[str, str]:
    """A reading's sections with disks of 512 MiB."""
    lines = [
        f"/sys/class/block/{name}/{key}:{value}"
        for number, name in enumerate(names, start=1)
        for key, value in (("dev", f"98:{16 * number}"), ("size", "1048576"))
    ]
    return {"files": "+" + "\n".join([*lines, extra])}


def test_an_array_that_could_not_start_is_named_by_its_superblocks():
    """It has no size, no link in /dev/md and no UUID of its own; it still holds the disk."""
    shown = OTHERS.replace("sdg", "sdb").replace("sdh", "sdc").splitlines()[-4:-1]
    lines = "\n".join(f"/proc/mdstat:{line}" for line in shown)
    holder = "/sys/class/block/md3/dev:9:3\n/sys/class/block/md3/size:0\n"
    sections = disks("sdb", "sdc", extra=holder + lines)
    raid = "0x1000,u,any:bl17,linux_raid_member"
    facts = reading.parse_linux_facts(
        output(
            **sections,
            tree="+/sys/class/block/md3/slaves/sdb\n/sys/class/block/md3/slaves/sdc",
            signatures=f"+sdb,{raid}\nsdc,{raid}",
        )
    )
    assert facts.members["sdb"] == facts.members["sdc"] == "md bl17"
    graph = Graph(facts)
    assert graph.is_ours("md3", "bl17") and not graph.is_ours("md3", "bl1")
    disk = graph.devices["sdb"]
    assert [
        said for name in graph.stack_on("sdb") for said in reasons_in_use(disk, name, graph, "bl17")
    ] == []
    assert [
        said for name in graph.stack_on("sdb") for said in reasons_in_use(disk, name, graph, "bl2")
    ]


@pytest.mark.parametrize(
    ("members", "hollow"), [((), False), (("sdb", "gone"), False), (("gone", "lost"), True)]
)
def test_an_array_is_hollow_when_all_of_its_members_are_gone(members, hollow):
    """Only then may it be stopped without a claim on a disk."""
    parts = tuple(MdMember(name, number) for number, name in enumerate(members))
    arrays = (MdArray("md3", "inactive", members=parts),)
    facts = replace(made_up.host(made_up.disk("sdb"), made_up.disk("md3", 2)), md_arrays=arrays)
    assert ("md3" in Graph(facts).hollow) is hollow


def superblock(uuid: str, label: str = "") -> str:
    """As `od -An -v -tx1` prints set UUID and label."""
    digits = uuid.replace("-", "") + label.encode().ljust(32, b"\0").hex()
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    return "\n".join(" " + " ".join(pairs[at : at + 16]) for at in range(0, 48, 16))


def test_a_bcache_superblock_that_is_not_registered_is_ours_by_its_set():
    for owner, allowed in (("bl17", True), ("bl18", False)):
        sections = {
            **disks("sdb"),
            "signatures": "+sdb,0x1018,19d892a5-dc19-4132-a17d-9606f3b27305,,bcache",
            "bcache__sdb": superblock(uuid_of(owner, "bcache"), "x"),
        }
        facts = reading.parse_linux_facts(output(**sections))
        assert facts.bcache["sdb"].set_uuid == uuid_of(owner, "bcache")
        assert facts.bcache["sdb"].label == "x" and not facts.bcache["sdb"].registered
        graph = Graph(facts)
        assert (list(reasons_in_use(graph.devices["sdb"], "sdb", graph, "bl17")) == []) is allowed


def test_a_bcache_superblock_that_cannot_be_read_is_said():
    with pytest.raises(AgentError, match="48 bytes"):
        reading.parse_linux_facts(output(**disks("sdb"), bcache__sdb=" 11 22"))
    unread = reading.parse_linux_facts(output(**disks("sdb"), bcache__sdb=("", 1, "od: I/O error")))
    assert "sdb" not in unread.bcache


@pytest.mark.parametrize(
    ("said", "about"),
    [("4.0M", 4 << 20), ("512.0k", 512 << 10), ("0.5k", 512), ("0.0k", 0), ("0", 0), ("1.0T", 1 << 40)],
)  # fmt: skip
def test_sizes_of_sysfs(said, about):
    value, tolerance = volumes.parse_sysfs_size(said)
    assert abs(value - about) <= tolerance


def test_what_is_no_size():
    assert volumes.parse_sysfs_size("much") == (-1.0, 0.0)


def test_a_module_is_a_tool_only_if_modinfo_knows_it():
    need = Need("flashcache", {}, ("modinfo", "-F", "version", "flashcache"))
    assert sections.version_commands([need, Need("fio")]) == (
        "flashcache=modinfo -F version flashcache",
        "fio --version",
    )
    found = {"answer flashcache": Section("answer flashcache", 0, b"3.1.1\n", "")}
    assert sections.parse_tool_versions(found) == {"flashcache": "3.1.1"}
    missing = Section("answer flashcache", 1, b"", "modinfo: ERROR: Module flashcache not found.")
    assert sections.parse_tool_versions({"answer flashcache": missing}) == {}


def disk(name: str, label: str) -> BlockDevice:
    signed = (Signature("linux_raid_member", 4096, label, "u"),) if label else ()
    return BlockDevice(name, f"/dev/{name}", "disk", 1 << 30, "8:0", signatures=signed)


BROKEN = MdArray("md127", "broken", "raid0", (MdMember("sdb", 1), MdMember("sda", 0)))


@pytest.mark.parametrize(
    ("disks", "owner"),
    [
        # Linux 6.1: sdb was pulled, and came back as sdc; udev took the array's link away.
        ({"sda": "any:bl17", "sdc": "any:bl17"}, "md bl17"),
        ({"sda": "any:bl17", "sdb": "any:bl17"}, "md bl17"),
        # Another disk has the name now, or one of ours says nothing any more: nobody knows whose array it is.
        ({"sda": "any:bl17", "sdb": "other:data"}, "md md127"),
        ({"sda": "any:bl17", "sdb": ""}, "md md127"),
        ({}, "md md127"),
    ],
)
def test_whose_a_broken_array_is_its_members_say_that_are_there(disks, owner):
    there = {name: disk(name, label) for name, label in disks.items()}
    assert volumes.array_members([BROKEN], there, {}) == {"sda": owner, "sdb": owner}
