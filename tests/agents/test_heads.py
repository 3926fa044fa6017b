"""Beginnings of a Linux host's devices: traces of membership that its libblkid does not know, and how they are read.

The bytes are those that mkfs.xfs 6.1, mkfs.f2fs 1.15, mke2fs 1.47, drbdmeta 9.22 and sgdisk 1.0.9 wrote.
"""

from __future__ import annotations

import gzip
from uuid import UUID

import pytest

from agents.facts import block, magic, reading
from agents.facts.sections import Section
from agents.safety.guard import refusals
from tests.agents.linux_host import extra, output
from tests.agents.made_up import LAYOUT, disk, spare, wiping
from tests.agents.test_freebsd_signatures import at

LDM = UUID("af9b60a0-1431-4f62-bc68-3311714a69ad")
SPACES = UUID("e75caf8f-f680-4cee-afa3-b001e56efc2d")
LINUX = UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")


def table(sector: int, *types: UUID) -> bytes:
    """A GPT in sectors of that size."""
    header = at(sector, b"EFI PART".ljust(72, b"\0"), (2).to_bytes(8, "little"))
    entries = b"".join(kind.bytes_le.ljust(128, b"\1") for kind in types)
    return header.ljust(2 * sector, b"\0") + entries


def mbr(kind: int, code: bytes = b"") -> bytes:
    entry = bytes([0x80, 0, 0, 0, kind]).ljust(16, b"\1")
    return (code.ljust(446, b"\0") + entry).ljust(510, b"\0") + b"\x55\xaa"


def xfs(realtime_blocks: int = 0, log_start: int = 65548) -> bytes:
    counted = b"XFSB\0\0\x10\0" + at(8, realtime_blocks.to_bytes(8, "big"))
    return counted.ljust(48, b"\0") + log_start.to_bytes(8, "big")


def ext(features: int, journal: int) -> bytes:
    fields = at(1024 + 0x38, b"\x53\xef").ljust(1024 + 0x5C, b"\0") + features.to_bytes(4, "little")
    return fields.ljust(1024 + 0xE0, b"\0") + journal.to_bytes(4, "little")


def f2fs(*paths: bytes) -> bytes:
    devices = b"".join(path.ljust(64, b"\0") + b"\x2b\1\0\0" for path in paths)
    return at(1024, b"\x10\x20\xf5\xf2").ljust(1024 + 2201, b"\0") + devices


def printed(*contents: tuple[str, bytes]) -> bytes:
    """As `head -v` prints them."""
    return b"\n".join(b"==> /dev/%s <==\n%s" % (node.encode(), data) for node, data in contents)


def whole(data: bytes = b"") -> bytes:
    return data.ljust(block.HEAD, b"\0")


def host(data: bytes, signatures: str = "") -> reading.HostFacts:
    """A host with sdb, which begins with these bytes and has what `wipefs` printed of it."""
    raw = printed(("sda", whole()), ("sda2", whole()), ("sdb", whole(data)))
    more = extra("sdb", "8:16", {"SERIAL": "S1"})
    return reading.parse_linux_facts(output(
        **more, heads=raw.decode("utf-8", "surrogateescape"),
        signatures=f"sda,0x1fe,,,PMBR\nsda2,0x438,u-1,,ext4\n{signatures}",
    ))  # fmt: skip


def why(facts: reading.HostFacts) -> str:
    device = facts.find_device("sdb")
    spares = spare(device, boot=facts.boot_id)
    return "; ".join(refusals(wiping(device), facts, spares, LAYOUT))


@pytest.mark.parametrize(
    ("data", "listed", "reason"),
    [
        (at(4120, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")), "", "bcache signature"),
        (at(4120, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")), "", "bcachefs signature"),
        (b"bluestore block device", "", "ceph_bluestore signature"),
        (at(516, b"!Stra0tis\x86\xff\x02^Arh"), "", "stratis signature"),
        (at(4612, b"!Stra0tis\x86\xff\x02^Arh"), "", "stratis signature"),
        (b"dmvdo001", "", "vdo signature"),
        (at(32, b"ORCLDISK"), "", "oracleasm signature"),
        (at(60, b"\x83\x74\x02\x6b"), "", "drbd signature"),
        (at(60, b"\x83\x74\x02\x6d"), "", "drbd signature"),
        (at(4096, b"\x21\x43\x65\x87"), "", "jfs_log signature"),
        (mbr(0x42), "sdb,0x1fe,,,dos", "ldm signature"),
        (table(512, LINUX, LDM), "sdb,0x200,,,gpt", "ldm signature"),
        (table(4096, LINUX, LDM), "sdb,0x1000,,,gpt", "ldm signature"),
        (table(512, SPACES), "sdb,0x200,,,gpt", "storage_spaces signature"),
        (xfs(log_start=0), "sdb,0x0,u-9,,xfs", "xfs file system that needs 2 devices"),
        (xfs(153600), "sdb,0x0,u-9,,xfs", "xfs file system that needs 2 devices"),
        (xfs(153600, 0), "sdb,0x0,u-9,,xfs", "xfs file system that needs 3 devices"),
        (ext(0x3C, 0), "sdb,0x438,u-9,,ext4", "ext4 file system that needs 2 devices"),
        (ext(0, 0)[:1120] + b"\x08", "sdb,0x438,u-9,,jbd", "jbd signature"),
        (b"\xfe\xed\xba\xbe", "sdb,0x0,,,xfs_external_log", "xfs_external_log signature"),
        (f2fs(b"/dev/sdb", b"/dev/sdc"), "sdb,0x400,u-9,,f2fs", "f2fs file system that needs 2"),
        (at(4096, f2fs(b"/dev/sdb", b"/dev/sdc")), "", "f2fs file system that needs 2"),
        (at(3072, b"PRIVHEAD"), "", "ldm signature"),
        (at(4096, b"IN VINO\0"), "", "vinum signature"),
    ],
)
def test_a_part_of_something_is_refused(data, listed, reason):
    assert reason in why(host(data, listed))
    tail = b"\0" * magic.END_BYTES
    by_freebsd = magic.find_signatures(data.ljust(magic.END_BYTES, b"\0"), tail, 1 << 30)
    kinds = {s.type for s in by_freebsd} | {
        f"{s.type} file system" for s in by_freebsd if s.devices > 1
    }
    assert any(reason.startswith(kind) for kind in kinds)


@pytest.mark.parametrize(
    ("data", "listed"),
    [
        (b"", ""),
        (b"random bytes " * 900, ""),
        (mbr(0x83), "sdb,0x1fe,,,dos"),
        (mbr(0x42, b"\xeb\x3c\x90").replace(b"\x80\0\0\0\x42", b"\x31\xc0\x8e\xd8\x42"), "sdb,0x1fe,,,vfat"),
        (table(512, LINUX), "sdb,0x200,,,gpt"),
        (table(512, LDM).replace(b"EFI PART", b"\0" * 8), ""),  # wiped
        (xfs(), "sdb,0x0,u-9,,xfs"),
        (ext(0x3C, 8), "sdb,0x438,u-9,,ext4"),
        (ext(0, 0), "sdb,0x438,u-9,,ext2"),
        (f2fs(b"/dev/sdb"), "sdb,0x400,u-9,,f2fs"),
        (f2fs(), "sdb,0x400,u-9,,f2fs"),
        (at(4096, f2fs(b"/dev/sdb")), ""),
    ],
)  # fmt: skip
def test_a_file_system_or_table_of_one_disk_may_go(data, listed):
    assert why(host(data, listed)) == ""


def at_end(data: bytes) -> reading.HostFacts:
    """A host with sdb of 1 GiB, which ends with these bytes; wipefs names the table that is there."""
    ends = {"sda": b"", "sda2": b"", "sdb": data}
    tails = printed(*((n, d.rjust(block.TAIL, b"\0")) for n, d in ends.items()))
    raw = printed(*((name, whole()) for name in ends))
    back = "sdb,0x3ffffe00,,,gpt" if b"EFI PART" in data else ""
    return reading.parse_linux_facts(output(
        **extra("sdb", "8:16", {"SERIAL": "S1"}),
        heads=raw.decode("utf-8", "surrogateescape"), tails=tails.decode("utf-8", "surrogateescape"),
        signatures=f"sda,0x1fe,,,PMBR\nsda2,0x438,u-1,,ext4\n{back}",
    ))  # fmt: skip


def backup(*names: str, kind: UUID = LINUX, first: int = (1 << 21) - 33) -> bytes:
    """The last 33 sectors of a disk of 1 GiB: the copy of a GPT with partitions of these names."""
    entries = b"".join(
        (kind.bytes_le.ljust(56, b"\1") + name.encode("utf-16-le")).ljust(128, b"\0")
        for name in names
    )
    header = b"EFI PART".ljust(72, b"\0") + first.to_bytes(8, "little")
    return entries.ljust(32 * 512, b"\0") + header.ljust(512, b"\0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (backup("data"), "lists 1 partition which the kernel does not show"),
        (backup("", f"{LAYOUT}-data-1"), "lists 2 partitions which the kernel does not show"),
        (backup(kind=LDM, first=7), "lists 1 partition which"),  # entries that were not read
        (backup("data", kind=LDM), "ldm signature"),
        (backup("data", kind=SPACES), "storage_spaces signature"),
        (b"PRIVHEAD".ljust(512, b"\0"), "ldm signature"),
        (b"PRIVHEAD".ljust(512, b"\0"), "dd if=/dev/zero of=/dev/sdb bs=4096 count=1 seek=262143"),
        (b"GEOM::ELI".ljust(512, b"\0"), "geom signature (GEOM::ELI)"),
        (b"\x83\x74\x02\x6d".ljust(4036, b"\0"), "drbd signature"),
        (backup(), ""),
        (backup(f"{LAYOUT}-data-1", f"{LAYOUT}-data-2"), ""),  # a teardown that was interrupted
        (b"random bytes " * 900, ""),
    ],
)
def test_what_is_at_the_end_only_is_seen(data, reason):
    assert reason in why(at_end(data)) and bool(reason) == bool(why(at_end(data)))


def test_an_end_that_was_not_read_is_not_known():
    tails = printed(("sda", b""), ("sda2", b"\0" * block.TAIL)).decode()
    both = printed(("sda", whole()), ("sda2", whole())).decode()
    facts = reading.parse_linux_facts(output(heads=both, tails=tails))
    assert [d.signatures_known for d in facts.devices] == [False, True]


def read(raw: bytes, *names: str, size: int = 1 << 30) -> dict[str, bytes]:
    devices = [disk(name, number, size=size) for number, name in enumerate(names)]
    return block.parse_device_ends(Section("heads", 0, raw, ""), devices)


def test_beginnings_are_read_by_name_packed_or_not():
    nodes = {
        "sdb": whole(b"one"),
        "cciss/c0d0": whole(b"\n==> /dev/sdb <==\n"),
        "sdc": whole(b"\n"),
    }
    raw = printed(*nodes.items())
    wanted = {node.replace("/", "!"): data for node, data in nodes.items()}
    for text in (raw, gzip.compress(raw)):
        assert read(text, *wanted) == wanted
    assert read(printed(("sdb", b"x" * 512)), "sdb", size=512) == {"sdb": b"x" * 512}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_disk_that_cannot_be_read_does_not_hide_the_others(place):
    names = ["sdb", "sdc", "sdd"]
    parts = [(name, b"" if number == place else whole(b"x")) for number, name in enumerate(names)]
    assert set(read(printed(*parts), *names)) == set(names) - {names[place]}
    facts = reading.parse_linux_facts(
        output(heads=printed(("sda", b""), ("sda2", whole())).decode())
    )
    assert [d.signatures_known for d in facts.devices] == [False, True]


@pytest.mark.parametrize(
    "raw", [b"", b"head: not found", b"\x1f\x8bno gzip", printed(("sdb", b"short"))]
)
def test_what_was_not_read_is_not_known(raw):
    assert read(raw, "sdb") == {}
