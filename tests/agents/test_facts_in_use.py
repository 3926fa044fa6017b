"""Users of a device, as facts tell them: mounts, swap, arrays, pools, loops. What no host at hand prints is made up."""

from __future__ import annotations

import pytest

from agents.contracts import AgentError
from agents.facts import reading, volumes
from agents.facts.model import Signature
from tests.agents.linux_host import device, extra, output
from tests.agents.test_freebsd_signatures import btrfs_superblock


def test_a_mount_point_with_spaces_newlines_and_backslashes():
    line = "/proc/self/mountinfo:30 27 8:0 / /a\\040b\\012c\\134d rw - xfs /dev/sda rw"
    assert device("sda", files="+" + line).mounts == ("/a b\nc\\d",)


@pytest.mark.parametrize(
    "line",
    [
        "30 27 0:40 / /x rw - btrfs /dev/sda rw,space_cache",
        "30 27 8:99 / /x rw - xfs /dev/sdz rw,logdev=/dev/sda",
        "30 27 8:0 / /x rw - xfs /dev/root rw",
        "30 27 0:40 / /x rw - bcachefs /dev/sdy:/dev/sda:/dev/sdz rw",
    ],
)
def test_every_way_to_be_mounted_counts(line):
    assert device("sda", files="+/proc/self/mountinfo:" + line).mounts == ("/x",)


def test_a_loop_over_a_disk_stands_on_it():
    """The kernel names neither as the other's holder, and lets wipefs open the disk for itself alone."""
    over = extra("loop0", "7:0", {"TYPE": "loop"}, **{"loop/backing_file": "/dev/sda"})
    facts = reading.parse_linux_facts(output(**over))
    assert facts.find_device("loop0").parents == ("sda",) and facts.find_device("sda").holders == (
        "loop0",
    )
    file = extra("loop0", "7:0", {"TYPE": "loop"}, **{"loop/backing_file": "/var/sda"})
    assert device("loop0", **file).parents == ()


def test_a_mount_in_a_container_counts():
    line = "/proc/77/mountinfo:9 1 8:0 / /data rw - ext4 /dev/sda rw"
    assert device("sda", picked="+" + line).mounts == ("/data",)


@pytest.mark.parametrize(
    ("code", "known"), [(0, True), (1, True), (2, True), (126, False), (137, False)]
)
def test_where_nobody_read_what_containers_mounted_it_is_unknown(code, known):
    """So many processes that their files are no command line any more; one that is gone meanwhile is no failure."""
    said = ("/proc/meminfo:MemTotal: 1 kB", code, "sh: 1: grep: Argument list too long")
    unknown = reading.parse_linux_facts(output(picked=said)).unknown
    assert unknown == (() if known else (f"picked ended with exit code {code}: {said[2]}",))


def test_all_members_of_a_mounted_btrfs_are_mounted():
    tree = "+/sys/fs/btrfs/u-1/devices/sda\n/sys/fs/btrfs/u-1/devices/sda2"
    assert device("sda", tree=tree).mounts == ("/",)
    assert device("sda", tree="+/sys/fs/btrfs/u-1/devices/sda").mounts == ("btrfs u-1",)


@pytest.mark.parametrize("below", [True, False])
def test_a_mapping_over_a_path_that_is_no_device_here_is_unknown(below):
    """Unless the kernel names what is below it, as it does for all targets of its own."""
    mapping = extra("dm-0", "253:0", {"TYPE": "dm", "NAME": "home"}, **{"dm/name": "home"})
    tree = "+/sys/class/block/dm-0/slaves/sda" if below else ""
    sections = mapping | {"dmsetup": "home: 0 8 user /dev/zz 0\nhome: 8 8 user /dev/sda 0"}
    unknown = reading.parse_linux_facts(
        output(**sections, **({"tree": tree} if below else {}))
    ).unknown
    lost = ("device-mapper home uses /dev/zz, which is not a device of this host",)
    assert unknown == (() if below else lost)


LS = "brw-rw----    1 0        6        {} Nov 22 10:00 {}"


def test_programs_that_have_it_open_for_writing():
    """`ls -lnL` of GNU and of busybox; one program may have it open twice, and may have gone by then."""
    said = "/proc/12/fd/3 qemu-system-x86\n/proc/12/fd/4 qemu-system-x86\n/proc/9/fd/0 a [b] c\n/proc/7/fd/1 x"
    nodes = ["8,   0", "8, 0", "8,   2"]
    places = ["/proc/12/fd/3", "/proc/12/fd/4", "/proc/9/fd/0"]
    opened = "\n".join(LS.format(node, place) for node, place in zip(nodes, places, strict=True))
    facts = reading.parse_linux_facts(
        output(openers=said, opened=(opened, 2, "ls: /proc/7/fd/1: No such file"))
    )
    assert [d.writers for d in facts.devices] == [("qemu-system-x86[12]",), ("a [b] c[9]",)]
    assert facts.unknown == ()


def test_openers_that_cannot_be_told_are_unknown():
    facts = reading.parse_linux_facts(
        output(openers="/proc/12/fd/3 x", opened=("", 127, "ls: not found"))
    )
    assert facts.unknown == ("opened ended with exit code 127: ls: not found",)
    with pytest.raises(AgentError, match="openers, line 1"):
        reading.parse_linux_facts(output(openers="what", opened=""))
    with pytest.raises(AgentError, match="opened, line 1"):
        reading.parse_linux_facts(output(openers="/proc/12/fd/3 x", opened="what"))


def test_swap_is_found_by_any_path():
    heading = "/proc/swaps:Filename\t\t\tType\t\tSize"
    udev = "+/run/udev/data/b8:0:S:disk/by-id/x"
    row = "/proc/swaps:/dev/disk/by-id/x       partition 1 0 -2"
    assert device("sda", picked=udev, files=f"+{heading}\n{row}").swap


def test_swap_on_a_device_nobody_knows_is_unknown():
    facts = reading.parse_linux_facts(output(files="+/proc/swaps:/dev/zz partition 1 0 -2"))
    assert facts.unknown == ("swap on /dev/zz, which is not a device of this host",)


MDSTAT = """Personalities : [raid6] [raid5] [raid4]
md0 : active (auto-read-only) raid5 sda2[3](S) sda[0](F)
      2095104 blocks super 1.2 level 5 [3/3] [UUU]
      [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min speed=33440K/sec

md1 : inactive nvme0n1p3[1](S)
unused devices: <none>"""


def test_members_of_arrays():
    lines = "\n".join("/proc/mdstat:" + line for line in MDSTAT.split("\n"))
    facts = reading.parse_linux_facts(output(files="+" + lines))
    assert facts.md_members == ("nvme0n1p3", "sda", "sda2")
    assert facts.members["sda"] == "md md0"


ZPOOL = """  pool: tank
 state: DEGRADED
config:
\tNAME                      STATE     READ WRITE CKSUM
\ttank                      DEGRADED     0     0     0
\t  mirror-0                DEGRADED     0     0     0
\t    /dev/disk/by-id/a     ONLINE       0     0     0
\t    1234567890            UNAVAIL      0     0     0  was /dev/sdq1
"""


def test_members_of_pools_and_what_is_missing():
    facts = reading.parse_linux_facts(
        output(zpool=ZPOOL, picked="+/run/udev/data/b8:0:S:disk/by-id/a")
    )
    assert facts.zpool_members == ("sda",) and facts.members["sda"] == "zpool tank"
    assert facts.unknown == ()  # what is not open is nobody's
    hidden = reading.parse_linux_facts(output(zpool=ZPOOL))
    assert hidden.unknown == (volumes.missing_device_message("tank", "/dev/disk/by-id/a"),)
    again = reading.parse_linux_facts(output(zpool=ZPOOL, picked="+/run/udev/data/b8:0:S:sdq1"))
    assert again.members["sda"] == "zpool tank"


def test_what_uses_a_link_of_two_devices_uses_both():
    """The kernel's own number says it too where the file system has one; a btrfs has none."""
    mount = "/proc/self/mountinfo:30 27 0:40 / /x rw - btrfs /dev/disk/by-uuid/u rw"
    links = "+/run/udev/data/b8:0:S:disk/by-uuid/u\n/run/udev/data/b8:2:S:disk/by-uuid/u"
    facts = reading.parse_linux_facts(output(files="+" + mount, picked=links))
    assert [d.mounts for d in facts.devices] == [("/x",), ("/", "/x")]
    pvs = reading.parse_linux_facts(output(pvs="/dev/disk/by-uuid/u|bl17", picked=links))
    assert pvs.unknown == ("lvm bl17 has /dev/disk/by-uuid/u, which is not a device of this host",)


def superblock(devices: int) -> str:
    """As `od -An -v -tx1` prints it."""
    return "\n".join(f" {line.hex(' ')}" for line in chunked(btrfs_superblock(devices)))


def chunked(data: bytes) -> list[bytes]:
    return [data[start : start + 16] for start in range(0, len(data), 16)]


@pytest.mark.parametrize(
    ("printed", "devices"),
    [
        (superblock(1), 1),
        (superblock(2), 2),
        ((superblock(2), 1, "od: /dev/sda: Input/output error"), 0),
        (superblock(2).replace("5f", "00"), 0),
        (superblock(2)[:-3], 0),
        ("od: what", 0),
        (None, 0),
    ],
)
def test_the_devices_of_a_btrfs_are_counted(printed, devices):
    given = {"signatures": "sda,0x10040,u-1,,btrfs", "btrfs__sda": printed}
    assert device("sda", **given).signatures == (Signature("btrfs", 65600, "", "u-1", devices),)


def copy(devices: int, at: int = 1 << 26) -> str:
    block = bytearray(btrfs_superblock(devices))
    block[0x30:0x38] = at.to_bytes(8, "little")
    return bytes(block).ljust(512, b"\0").decode("utf-8", "surrogateescape")


UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    ("sections", "copies"),
    [
        ({"copy64M__sda": copy(2)}, (Signature("btrfs", (1 << 26) + 64, "", UUID, 2),)),
        ({"copy256G__sda": copy(3, 1 << 38)}, (Signature("btrfs", (1 << 38) + 64, "", UUID, 3),)),
        ({"copy64M__sda": copy(2), "copy256G__sda": copy(3, 1 << 38)},
         (Signature("btrfs", (1 << 26) + 64, "", UUID, 2),)),
        ({"copy64M__sda": copy(1)}, ()),  # what wipefs leaves of a file system that was here alone
        ({"copy64M__sda": copy(2, 65536)}, ()),  # the first superblock of something inside, as of a virtual disk
        ({"copy64M__sda": "x" * 512}, ()),
        ({"copy64M__sda": ""}, ()),
    ],
)  # fmt: skip
def test_a_btrfs_whose_first_superblock_is_overwritten(sections, copies):
    found = device("sda", signatures="sda,0x1fe,,,PMBR", **sections)
    assert found.signatures[1:] == copies and found.signatures_known


def test_a_copy_that_cannot_be_read_is_not_known():
    assert not device("sda", copy64M__sda=("", 1, "dd: Input/output error")).signatures_known
