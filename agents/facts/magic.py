# SPDX-License-Identifier: Apache-2.0
"""Signatures in the first and last 512 KiB of a device, for hosts without wipefs, and what wipefs does not tell. Pure.

The places and bytes are those of the formats themselves, named as libblkid names them. It knows no more than this
table: `agents.facts.freebsd` asks `fstyp` for a second opinion before it calls a device known.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from uuid import UUID

from agents.facts.model import Signature
from agents.facts.sections import decode_text

# bytes from either end
END_BYTES = 524288
# bytes of one of ZFS's four labels, two at either end
ZFS_LABEL_BYTES = 262144
# where the first copy begins
BTRFS_SUPERBLOCK = 65536
# bytes; in sections of the reading
BTRFS_COPIES = {"copy64M": 1 << 26, "copy256G": 1 << 38}
# a flag of a superblock: other file systems build on this one
BTRFS_SEEDING = 1 << 32
# in s_feature_incompat at byte 1120: nothing but another one's journal
EXT_JOURNAL_DEVICE = 8
F2FS_MAGIC = b"\x10\x20\xf5\xf2"
PAGES = (4096, 8192, 16384, 32768, 65536)

# offset, bytes, type
HEAD_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"XFSB", "xfs"),
    (0, b"\xfe\xed\xba\xbe", "xfs_external_log"),
    (0x438, b"\x53\xef", "ext4"),
    (0x10040, b"_BHRfS_M", "btrfs"),
    *[
        (at + 0x55C, magic, "ufs")
        for at in (0, 8192, 65536, 262144)
        for magic in (b"\x54\x19\x01\0", b"\0\x01\x19\x54", b"\x19\x01\x54\x19")
    ],
    *[(sector * 512, b"LABELONE", "LVM2_member") for sector in range(4)],
    *[
        (at, magic, "linux_raid_member")
        for at in (0, 4096)
        for magic in (b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc")
    ],
    (4120, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"), "bcache"),
    (4120, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef"), "bcachefs"),
    (0, b"LUKS\xba\xbe", "crypto_LUKS"),
    *[(1 << power, b"SKUL\xba\xbe", "crypto_LUKS") for power in range(14, 19)],
    *[
        (page - 10, magic, "swap")
        for page in PAGES
        for magic in (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND")
    ],
    *[
        (at, magic, kind)
        for at in (32769, 34817)
        for magic, kind in ((b"CD001", "iso9660"), (b"BEA01", "udf"), (b"NSR0", "udf"))
    ],
    (3, b"NTFS    ", "ntfs"),
    (3, b"EXFAT   ", "exfat"),
    (54, b"FAT1", "vfat"),
    (82, b"FAT32", "vfat"),
    (1024, b"BD", "hfs"),
    (1024, b"H+\0", "hfsplus"),
    (1024, b"HX\0", "hfsplus"),
    (1024, F2FS_MAGIC, "f2fs"),
    (1024, b"\xe2\xe1\xf5\xe0", "erofs"),
    (1030, b"\x34\x34", "nilfs2"),
    (32768, b"JFS1", "jfs"),
    *[(at + 0x34, b"ReIsEr", "reiserfs") for at in (8192, 65536)],
    (65536, b"ReIsEr4", "reiser4"),
    (65536, b"\x01\x16\x19\x70", "gfs2"),
    *[(at, b"OCFSV2", "ocfs2") for at in (1024, 2048, 4096, 8192)],
    (0, b"bluestore block device", "ceph_bluestore"),
    *[(at, b"!Stra0tis\x86\xff\x02^Arh", "stratis") for at in (516, 4612)],
    (0, b"dmvdo001", "vdo"),
    (4096, b"\x21\x43\x65\x87", "jfs_log"),
    # DRBD's metadata on a device of its own; on the data's device they are at the end.
    *[
        (60, magic, "drbd")
        for magic in (b"\x83\x74\x02\x6a", b"\x83\x74\x02\x6b", b"\x83\x74\x02\x6d")
    ],
    (32, b"NXSB", "apfs"),
    (32, b"ORCLDISK", "oracleasm"),
    (0, b"hsqs", "squashfs"),
    *[(at, b"EFI PART", "gpt") for at in (512, 4096)],
    *[(at, b"\x57\x45\x56\x82", "bsd") for at in (64, 512)],
    (508, b"\xda\xbe", "sun"),
    (0, b"\x0b\xe5\xa9\x41", "sgi"),
    (0, b"ER\x02\0", "mac"),
    (512, b"PM\0\0", "mac"),
    *[(4640, magic, "hpt_raid_member") for magic in (b"\xf0\x16\x78\x5a", b"\xfd\x16\x78\x5a")],
    # Windows' dynamic disk, in a DOS table; another copy is in the last sector.
    (3072, b"PRIVHEAD", "ldm"),
    *[(4096, magic, "vinum") for magic in (b"IN VINO\0", b"\0ONIV NI")],
    (0, b"HM\x01\0", "LVM1_member"),
    (0, b"HM\x02\0", "LVM1_member"),
    (0, b"SnAp", "DM_snapshot_cow"),
    (0, b"verity\0\0", "DM_verity_hash"),
    (0, b"integrt\0", "DM_integrity"),
    (3, b"ReFS\0", "ReFS"),
    (3, b"-FVE-FS-", "BitLocker"),
    (8192, b"OracleCFS", "ocfs"),
    (8192, b"\x49\xe8\x95\xf9", "hpfs"),
    (1024, b"\xf5\xfc\x01\xa5", "vxfs"),
    (65536, b"\x8b\x42\x3c\x10", "scoutfs"),
    (4096, b"SPB5", "nss"),
    (0, b"$DRBDmgr=q", "drbdmanage_control_volume"),
    (0, b"DRBDdlh*", "drbdproxy_datalog"),
)
# bytes before the end, bytes, type
TAIL_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    *[(sector, b"EFI PART", "gpt") for sector in (512, 4096)],
    *[(sector, b"GEOM::", "geom") for sector in (512, 1024, 2048, 4096, 8192)],
    (1024, b"Intel Raid ISM Cfg Sig. ", "isw_raid_member"),
    *[
        (at, magic, "ddf_raid_member")
        for at in (512, 131584)
        for magic in (b"\xde\x11\xde\x11", b"\x11\xde\x11\xde")
    ],
    (1024, b"NVIDIA", "nvidia_raid_member"),
    (512, b"\x37\xfc\x4d\x1e", "adaptec_raid_member"),
    (512, b"$XIDE$", "lsi_mega_raid_member"),
    *[(5632, magic, "hpt_raid_member") for magic in (b"\xf3\x16\x78\x5a", b"\xfd\x16\x78\x5a")],
    (512, b"PRIVHEAD", "ldm"),
    (416, b"\0\0\0\x2f", "silicon_medley_raid_member"),
    *[
        (sector * 512, b"Promise Technology, Inc.", "promise_fasttrack_raid_member")
        for sector in (63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991)
    ],
    *[(4036, magic, "drbd") for magic in (b"\x83\x74\x02\x6b", b"\x83\x74\x02\x6d")],
)
# Traces of membership that some or all versions of libblkid do not know.
UNKNOWN_TO_LIBBLKID = {
    "bcache",
    "bcachefs",
    "ceph_bluestore",
    "drbd",
    "geom",
    "jfs_log",
    "oracleasm",
    "stratis",
    "vdo",
    "vinum",
}
# Partitions whose contents no superblock explains: a part of what spans several disks. By type in a GPT.
SPANNING = {
    UUID("5808c8aa-7e8f-42e0-85d2-e1e90434cfb3"): "ldm",
    UUID("af9b60a0-1431-4f62-bc68-3311714a69ad"): "ldm",
    UUID("e75caf8f-f680-4cee-afa3-b001e56efc2d"): "storage_spaces",
    UUID("53746f72-6167-11aa-aa11-00306543ecac"): "core_storage",
    UUID("52414944-0000-11aa-aa11-00306543ecac"): "apple_raid",
    UUID("52414944-5f4f-11aa-aa11-00306543ecac"): "apple_raid",
    UUID("381cfccc-7288-11e0-92ee-000c2911d0b2"): "vmware_vsan",
    UUID("37affc90-ef7d-4e96-91c3-2d7ae055b174"): "gpfs",
    UUID("aa31e02a-400f-11db-9590-000c2911d1b8"): "VMFS",
}
# the same by type in a DOS table
MBR_SPANNING = {0x42: "ldm", 0xFB: "VMFS"}
# What no wipefs clears, or not every one.
CLEARED_BY_HAND = {"ldm", *UNKNOWN_TO_LIBBLKID, *SPANNING.values()} - {"VMFS"}
# bytes of a partition's entry in a GPT
ENTRY = 128
# of its name in it
NAME = slice(56, 128)
# of a GPT, as every program makes it
ENTRIES = 128
# Type of a signature: partitions of a GPT that the kernel does not go by; the label has their names, a line each.
HIDDEN = "hidden_partitions"
# where the second superblock's block begins, which wipefs does not touch
F2FS_COPY = 4096


def find_signatures(head: bytes, tail: bytes, size: int) -> tuple[Signature, ...]:
    """Signatures that are there, each type once, at its first place. `head` and `tail`: min(KEPT, size) bytes each."""
    by_type: dict[str, Signature] = {}
    for signature in (
        *_known_magic(head, tail, size),
        *_dos_table(head),
        *_spanning_partitions(head, tail, size),
        *_f2fs_copy(head),
        *_weak_raid(tail, size),
        *_md_members(tail, size),
        *_zfs_labels(head, 0),
        *_zfs_labels(tail, size - len(tail)),
    ):
        by_type.setdefault(signature.type, signature)
    if "btrfs" in by_type:
        by_type["btrfs"] = _btrfs_signature(BTRFS_SUPERBLOCK, head[BTRFS_SUPERBLOCK:])
    return tuple(
        replace(s, devices=count_devices(s.type, head) or s.devices) for s in by_type.values()
    )


def membership_traces(head: bytes, tail: bytes, size: int) -> Iterator[Signature]:
    """Signatures of membership at the ends of a device, as far as libblkid may not know them, each once."""
    ends = (*_known_magic(head, tail, size), *_spanning_partitions(head, tail, size))
    by_type = {trace.type: trace for trace in reversed(ends)}
    yield from (t for t in by_type.values() if t.type in CLEARED_BY_HAND)
    yield from _f2fs_copy(head)


def hidden_partitions(
    head: bytes, tail: bytes, size: int, tables: Container[int]
) -> Iterator[Signature]:
    """Partitions of a GPT with its header at one of the bytes `tables`, of a device without partitions in the kernel.

    Linux goes by no copy of a table: after the first sectors are lost, volumes and pools are there and cannot be seen.
    """
    for at, entries in _partition_tables(head, tail, size):
        if at in tables and (names := [name for _, _, name in entries]):
            yield Signature(HIDDEN, at, "\n".join(names))
            return


def count_devices(kind: str, head: bytes) -> int:
    """Devices that share a file system of ext, xfs or f2fs, where its superblock names more than one; else 0.

    Sources: Linux, fs/xfs/libxfs/xfs_format.h (sb_rblocks, sb_logstart), fs/ext4/ext4.h (s_journal_inum),
    include/linux/f2fs_fs.h (devs).
    """
    if kind == "xfs" and len(head) >= 56:
        realtime, internal_log = any(head[16:24]), any(head[48:56])
        return 1 + realtime + (not internal_log) if realtime or not internal_log else 0
    if kind in ("ext3", "ext4") and len(head) >= 2048:
        journal, inode = head[1024 + 0x5C] & 4, any(head[1024 + 0xE0 : 1024 + 0xE4])
        return 2 if journal and not inode else 0
    if kind == "f2fs" and len(head) >= 4096:
        return _f2fs_devices(head)
    return 0


def _f2fs_devices(block: bytes) -> int:
    """Count the devices listed in the superblock at byte 1024 of the block; 0 for a single device."""
    paths = [block[at : at + 64] for at in range(1024 + 2201, 1024 + 2201 + 8 * 68, 68)]
    count = sum(any(path) for path in paths)
    return count if count > 1 else 0


def _f2fs_copy(head: bytes) -> Iterator[Signature]:
    """The second superblock, by which the kernel mounts too, if its file system has several devices."""
    block = head[F2FS_COPY:]
    if block.startswith(F2FS_MAGIC, 1024) and (devices := _f2fs_devices(block)):
        yield Signature("f2fs", F2FS_COPY + 1024, devices=devices)


def _spanning_partitions(head: bytes, tail: bytes, size: int) -> Iterator[Signature]:
    """Partition tables that name a part of what spans several disks."""
    # A boot sector of FAT or NTFS ends in the same two bytes and has code where a table has its entries.
    table = head[510:512] == b"\x55\xaa" and {head[at] for at in range(446, 510, 16)} <= {0, 0x80}
    for kind in sorted({head[at] for at in range(450, 510, 16)} if table else ()):
        if kind in MBR_SPANNING:
            yield Signature(MBR_SPANNING[kind], 510)
    for _, entries in _partition_tables(head, tail, size):
        for at, partition, _ in entries:
            if partition in SPANNING:
                yield Signature(SPANNING[partition], at)


def _partition_tables(
    head: bytes, tail: bytes, size: int
) -> Iterator[tuple[int, list[tuple[int, UUID | None, str]]]]:
    """Each GPT, the copy at the end too: the byte of its header; of each partition the byte, the type and the name.

    Of a copy whose entries are not in `tail` one partition of no type: what it lists is unknown.
    """
    after = size - len(tail)
    for sector in (512, 4096):
        for part, start, at in ((head, 0, sector), (tail, after, size - sector)):
            header = part[at - start :] if at >= start else b""
            if not header.startswith(b"EFI PART"):
                continue
            first = int.from_bytes(header[72:80], "little") * sector
            last = min(first + ENTRIES * ENTRY, start + len(part)) - ENTRY
            entries = [
                _entry(part[place - start :][:ENTRY], place)
                for place in range(first, last + 1, ENTRY)
                if any(part[place - start :][:16])
            ]
            yield at, entries if start <= first <= last else [(at, None, "")]


def _entry(entry: bytes, at: int) -> tuple[int, UUID | None, str]:
    name = entry[NAME].decode("utf-16-le", "replace").partition("\0")[0]
    return at, UUID(bytes_le=entry[:16]), decode_text(name.encode("utf-8", "replace"))


def _btrfs_signature(at: int, superblock: bytes) -> Signature:
    uuid = str(UUID(bytes=superblock[0x20:0x30]))
    return Signature("btrfs", at + 0x40, "", uuid, btrfs_devices(superblock))


def btrfs_copy(at: int, superblock: bytes) -> Signature | None:
    """The signature in a copy of a superblock at that byte, if its file system has several devices.

    A copy outlives `wipefs`; of a file system that was on this device alone it means nothing.
    """
    if btrfs_devices(superblock) < 2 or int.from_bytes(superblock[0x30:0x38], "little") != at:
        return None
    return _btrfs_signature(at, superblock)


def btrfs_devices(superblock: bytes) -> int:
    """Devices that share a btrfs, by the first 144 bytes of a superblock of it; 0: they cannot be read.

    A seed counts as two, for the file systems that were added to it need it and stand on other devices.
    Source: Linux, include/uapi/linux/btrfs_tree.h, struct btrfs_super_block.
    """
    if len(superblock) < 0x90 or superblock[0x40:0x48] != b"_BHRfS_M":
        return 0
    flags = int.from_bytes(superblock[0x38:0x40], "little")
    devices = int.from_bytes(superblock[0x88:0x90], "little")
    return max(devices, 2) if devices and flags & BTRFS_SEEDING else devices


def _known_magic(head: bytes, tail: bytes, size: int) -> Iterator[Signature]:
    for at, magic, kind in HEAD_MAGIC:
        if head.startswith(magic, at):
            journal = kind == "ext4" and any(byte & EXT_JOURNAL_DEVICE for byte in head[1120:1121])
            yield Signature("jbd" if journal else kind, at)
    for back, magic, kind in TAIL_MAGIC:
        if back <= len(tail) and tail.startswith(magic, len(tail) - back):
            label = tail[len(tail) - back :][:16].rstrip(b"\0") if kind == "geom" else b""
            yield Signature(kind, size - back, decode_text(label))


def _dos_table(head: bytes) -> Iterator[Signature]:
    """A table in the first sector. The same two bytes end a boot sector, which has no entry with a type."""
    types = {head[at] for at in (450, 466, 482, 498) if len(head) > at} - {0}
    if head[510:512] == b"\x55\xaa" and types:
        yield Signature("PMBR" if types == {0xEE} else "dos", 510)


def _md_members(tail: bytes, size: int) -> Iterator[Signature]:
    """Linux md 0.90 and 1.0 count from the end, in steps of 64 and 4 KiB."""
    start = size - len(tail)
    for at in (size // 65536 * 65536 - 65536, (size // 512 - 16) // 8 * 8 * 512):
        if at >= start and tail[at - start :][:4] in (b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc"):
            yield Signature("linux_raid_member", at)


def _weak_raid(tail: bytes, size: int) -> Iterator[Signature]:
    """Sectors of RAID adapters that begin with two plain bytes and have a sum."""
    last = tail[-512:]
    words = sum(int.from_bytes(last[at : at + 2], "little") for at in range(0, 128, 2))
    if last[:2] == b"JM" and words & 0xFFFF in (0, 1):
        yield Signature("jmicron_raid_member", size - 512)
    if last[:2] == b"\x55\xaa" and last[2] <= 2 and sum(last[:50]) & 0xFF == last[50]:
        yield Signature("via_raid_member", size - 512)


def _zfs_labels(part: bytes, start: int) -> Iterator[Signature]:
    """Any label: its name list, or one uberblock. ZFS counts from the end in whole labels."""
    first = -start % ZFS_LABEL_BYTES if start else 0
    for at in range(first, len(part) - ZFS_LABEL_BYTES + 1, ZFS_LABEL_BYTES):
        names = part[at + 16384 : at + 131072]
        ring = part[at + 131072 : at + ZFS_LABEL_BYTES]
        uber = any(
            ring.startswith(magic, block)
            for block in range(0, len(ring), 1024)
            for magic in (b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c")
        )
        if uber or b"pool_guid" in names:
            called = re.search(rb"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0([\x01-\xff])", names)
            label = names[called.end() :][: called[1][0]] if called else b""
            yield Signature("zfs_member", start + at, decode_text(label))
