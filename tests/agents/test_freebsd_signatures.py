"""Signatures on a disk of FreeBSD, by the bytes of both its ends: proven blank, known, or not known."""

from __future__ import annotations

import pytest

from agents.facts import magic
from agents.facts.model import Signature
from tests.agents import freebsd_host as fb
from tests.agents.freebsd_host import disk, ends, read, why

NOT_RECOGNIZED = ("", 1, "fstyp: /dev/x: filesystem not recognized")
UBERBLOCK = b"\x0c\xb1\xba\0\0\0\0\0"


def at(offset: int, *said: bytes) -> bytes:
    return b"\0" * offset + b"".join(said)


def zfs_label(name: bytes) -> bytes:
    said = at(
        20, b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0", bytes([len(name)]), name, b"..pool_guid"
    )
    return at(16384, said.ljust(114688, b"\0"), at(1024, UBERBLOCK)).ljust(262144, b"\0")


KNOWN = [
    (at(0x438, b"\x53\xef"), b"", [("ext4", "")]),
    (at(65536 + 0x55C, b"\x19\x01\x54\x19"), b"", [("ufs", "")]),
    (at(512, b"EFI PART".ljust(72, b"\0"), b"\2".ljust(8, b"\0")), b"", [("gpt", "")]),
    (at(446, b"\x80\0\0\0\xa5").ljust(510, b"\0") + b"\x55\xaa", b"", [("dos", "")]),
    (at(446, b"\0\0\0\0\xee").ljust(510, b"\0") + b"\x55\xaa", b"", [("PMBR", "")]),
    (zfs_label(b"tank"), b"", [("zfs_member", "tank")]),
    (b"", zfs_label(b"tank"), [("zfs_member", "tank")]),
    (b"", at(131072, UBERBLOCK).ljust(262144, b"\0"), [("zfs_member", "")]),
    (b"", b"GEOM::MIRROR".ljust(512, b"\0"), [("geom", "GEOM::MIRROR")]),
    (at(4096, b"\xfc\x4e\x2b\xa9"), b"", [("linux_raid_member", "")]),
    (b"", b"\xfc\x4e\x2b\xa9".ljust(8192, b"\0"), [("linux_raid_member", "")]),
    (b"", b"\xfc\x4e\x2b\xa9".ljust(65536, b"\0"), [("linux_raid_member", "")]),
    (at(512, b"LABELONE"), b"", [("LVM2_member", "")]),
    (at(4086, b"SWAPSPACE2"), b"", [("swap", "")]),
]


@pytest.mark.parametrize(("head", "tail", "kinds"), KNOWN)
def test_signatures_at_either_end(head, tail, kinds):
    first, last = ends(head, tail)
    facts = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=NOT_RECOGNIZED)
    found = facts.find_device("ada1")
    assert found.signatures_known and [(s.type, s.label) for s in found.signatures] == kinds
    assert bool(why(facts, "ada1")) == (kinds[0][0] not in ("ext4", "ufs", "gpt", "dos", "PMBR"))


def btrfs_superblock(devices: int, flags: int = 1) -> bytes:
    """Its first 144 bytes, as a device has them from 64 KiB on."""
    fields = at(
        0x20, bytes(range(16)), b"\0\0\1\0\0\0\0\0", flags.to_bytes(8, "little"), b"_BHRfS_M"
    )
    return fields.ljust(0x88, b"\0") + devices.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("devices", "flags", "count"),
    [(1, 1, 1), (2, 1, 2), (12, 1, 12), (1, 1 << 32 | 1, 2), (0, 1 << 32, 0)],
)
def test_the_devices_of_a_btrfs_are_counted(devices, flags, count):
    first, last = ends(at(65536, btrfs_superblock(devices, flags)))
    facts = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=NOT_RECOGNIZED)
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert facts.find_device("ada1").signatures == (Signature("btrfs", 65600, "", uuid, count),)
    assert bool(why(facts, "ada1")) == (count != 1)


@pytest.mark.parametrize("copy", ["copy64M", "copy256G"])
def test_a_btrfs_of_which_only_a_copy_is_left(copy):
    first, last = ends()
    place = magic.BTRFS_COPIES[copy]
    block = bytearray(btrfs_superblock(2))
    block[0x30:0x38] = place.to_bytes(8, "little")
    given = {"head__ada1": first, "tail__ada1": last}
    facts = read(disk(), **given, **{f"{copy}__ada1": bytes(block).ljust(512, b"\0")})
    assert "btrfs file system that needs 2 devices" in why(facts, "ada1")
    unread = read(disk(), **given, **{f"{copy}__ada1": ("", 1, "dd: error")})
    assert not unread.find_device("ada1").signatures_known


def test_partitions_of_a_table_that_geom_does_not_go_by():
    tail = b"EFI PART".ljust(72, b"\0") + (7).to_bytes(8, "little")
    first, last = ends(tail=tail.ljust(512, b"\0"))
    facts = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=NOT_RECOGNIZED)
    assert "which the kernel does not show" in why(facts, "ada1")


def test_a_boot_sector_without_entries_is_no_partition_table():
    first, last = ends(at(510, b"\x55\xaa"))
    found = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=NOT_RECOGNIZED)
    assert found.find_device("ada1").signatures == ()


@pytest.mark.parametrize(
    "fstyp",
    [
        None,  # FreeBSD 10 has none
        ("", 1, "fstyp: /dev/ada1: Operation not permitted"),
        ("", 0, ""),
        ("ufs", 1, ""),
        ("", 70, ""),
    ],
)
def test_bytes_that_mean_nothing_to_us_are_not_known_without_a_second_opinion(fstyp):
    first, last = ends(b"something")
    facts = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=fstyp)
    assert not facts.find_device("ada1").signatures_known
    assert "signatures could not be read" in why(facts, "ada1")


def test_the_second_opinion_counts():
    first, last = ends(b"something")
    given = {"head__ada1": first, "tail__ada1": last}
    seen = read(disk(), **given, fstyp__ada1="geli").find_device("ada1")
    assert seen.signatures_known and seen.signatures == (Signature("geli"),)
    assert read(disk(), **given, fstyp__ada1=NOT_RECOGNIZED).find_device("ada1").signatures == ()


@pytest.mark.parametrize("end", ["head", "tail"])
@pytest.mark.parametrize("damage", [None, b"", b"no gzip", ends(size=1024)[0], ends()[0][:-9]])
def test_an_end_that_was_not_read_whole_is_not_known(end, damage):
    assert not read(disk(), **{f"{end}__ada1": damage}).find_device("ada1").signatures_known


def test_a_small_device_is_read_whole():
    both = dict(zip(("head__da1", "tail__da1"), ends(size=65536), strict=True))
    assert read(fb.article_001(0).disk("da1", 65536), **both).find_device("da1").signatures_known


# As libblkid has them: type, offsets (from the end where they are negative), bytes.
FORMATS = [
    ("xfs", (0,), b"XFSB"),
    ("ext4", (0x438,), b"\x53\xef"),
    ("btrfs", (0x10040,), b"_BHRfS_M"),
    *[
        ("ufs", (1372, 9564, 66908, 263516), m)
        for m in (b"T\x19\x01\0", b"\0\x01\x19T", b"\x19\x01T\x19")
    ],
    ("LVM2_member", (0, 512, 1024, 1536), b"LABELONE"),
    *[("linux_raid_member", (0, 4096), m) for m in (b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc")],
    ("bcache", (4120,), bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")),
    ("bcachefs", (4120,), bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")),
    ("crypto_LUKS", (0,), b"LUKS\xba\xbe"),
    ("crypto_LUKS", (16384, 32768, 65536, 131072, 262144), b"SKUL\xba\xbe"),
    *[
        ("swap", (4086, 8182, 16374, 32758, 65526), m)
        for m in (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND")
    ],
    ("iso9660", (32769, 34817), b"CD001"),
    ("udf", (32769, 34817), b"BEA01"),
    ("udf", (32769, 34817), b"NSR0"),
    ("ntfs", (3,), b"NTFS    "),
    ("exfat", (3,), b"EXFAT   "),
    ("vfat", (54,), b"FAT16"),
    ("vfat", (82,), b"FAT32"),
    ("hfs", (1024,), b"BD"),
    ("hfsplus", (1024,), b"H+\0"),
    ("hfsplus", (1024,), b"HX\0"),
    ("f2fs", (1024,), b"\x10\x20\xf5\xf2"),
    ("erofs", (1024,), b"\xe2\xe1\xf5\xe0"),
    ("nilfs2", (1030,), b"\x34\x34"),
    ("jfs", (32768,), b"JFS1"),
    ("reiserfs", (8244, 65588), b"ReIsErFs"),
    ("reiser4", (65536,), b"ReIsEr4"),
    ("gfs2", (65536,), b"\x01\x16\x19\x70"),
    ("ocfs2", (1024, 2048, 4096, 8192), b"OCFSV2"),
    ("ceph_bluestore", (0,), b"bluestore block device"),
    ("stratis", (516, 4612), b"!Stra0tis\x86\xff\x02^Arh"),
    ("vdo", (0,), b"dmvdo001"),
    ("apfs", (32,), b"NXSB"),
    ("oracleasm", (32,), b"ORCLDISK"),
    ("squashfs", (0,), b"hsqs"),
    ("gpt", (512, 4096), b"EFI PART"),
    ("bsd", (64, 512), b"\x57\x45\x56\x82"),
    ("sun", (508,), b"\xda\xbe"),
    ("sgi", (0,), b"\x0b\xe5\xa9\x41"),
    ("mac", (0,), b"ER\x02\0"),
    ("mac", (512,), b"PM\0\0"),
    *[("hpt_raid_member", (4640,), m) for m in (b"\xf0\x16\x78\x5a", b"\xfd\x16\x78\x5a")],
    ("gpt", (-512, -4096), b"EFI PART"),
    ("geom", (-512, -1024, -2048, -4096, -8192), b"GEOM::"),
    ("isw_raid_member", (-1024,), b"Intel Raid ISM Cfg Sig. "),
    *[("ddf_raid_member", (-512, -131584), m) for m in (b"\xde\x11\xde\x11", b"\x11\xde\x11\xde")],
    ("nvidia_raid_member", (-1024,), b"NVIDIA"),
    ("adaptec_raid_member", (-512,), b"\x37\xfc\x4d\x1e"),
    ("lsi_mega_raid_member", (-512,), b"$XIDE$"),
    *[("hpt_raid_member", (-5632,), m) for m in (b"\xf3\x16\x78\x5a", b"\xfd\x16\x78\x5a")],
    ("ldm", (3072, -512), b"PRIVHEAD"),
    ("vinum", (4096,), b"IN VINO\0"),
    ("vinum", (4096,), b"\0ONIV NI"),
    ("LVM1_member", (0,), b"HM\x01\0"),
    ("LVM1_member", (0,), b"HM\x02\0"),
    ("DM_snapshot_cow", (0,), b"SnAp"),
    ("DM_verity_hash", (0,), b"verity\0\0"),
    ("DM_integrity", (0,), b"integrt\0"),
    ("ReFS", (3,), b"ReFS\0"),
    ("BitLocker", (3,), b"-FVE-FS-"),
    ("ocfs", (8192,), b"OracleCFS"),
    ("hpfs", (8192,), b"\x49\xe8\x95\xf9"),
    ("vxfs", (1024,), b"\xf5\xfc\x01\xa5"),
    ("scoutfs", (65536,), b"\x8b\x42\x3c\x10"),
    ("nss", (4096,), b"SPB5"),
    ("drbdmanage_control_volume", (0,), b"$DRBDmgr=q"),
    ("drbdproxy_datalog", (0,), b"DRBDdlh*"),
    ("jmicron_raid_member", (-512,), b"JM".ljust(64, b"\0") + b"\xb6\xb2"),
    ("via_raid_member", (-512,), b"\x55\xaa\1".ljust(50, b"\0") + b"\0"),
    ("silicon_medley_raid_member", (-416,), b"\0\0\0\x2f"),
    (
        "promise_fasttrack_raid_member",
        tuple(-512 * sector for sector in (16, 63, 255, 256, 399, 591, 675, 735, 911, 974, 991)),
        b"Promise Technology, Inc.",
    ),
    *[("drbd", (-4036,), m) for m in (b"\x83\x74\x02\x6b", b"\x83\x74\x02\x6d")],
]


@pytest.mark.parametrize(
    ("kind", "offset", "mark"),
    [(kind, at, mark) for kind, offsets, mark in FORMATS for at in offsets],
)
def test_each_format_is_recognized_at_each_of_its_places(kind, offset, mark):
    size, blank = 1 << 30, b"\0" * magic.END_BYTES
    place = offset % magic.END_BYTES
    marked = blank[:place] + mark + blank[place + len(mark) :]
    head, tail = (marked, blank) if offset >= 0 else (blank, marked)
    expected = (kind, offset if offset >= 0 else size + offset)
    assert [(s.type, s.offset) for s in magic.find_signatures(head, tail, size)] == [expected]
