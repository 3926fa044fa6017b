"""Signatures on a disk of FreeBSD, by the bytes of both its ends: proven blank, known, or not known."""

from __future__ import annotations

import pytest

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
    (at(512, b"EFI PART"), at(1, b"EFI PART").ljust(513, b"\0"), [("gpt", "")]),
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
    found = facts.device("ada1")
    assert found.signatures_known and [(s.type, s.label) for s in found.signatures] == kinds
    assert bool(why(facts, "ada1")) == (kinds[0][0] not in ("ext4", "ufs", "gpt", "dos", "PMBR"))


def test_a_boot_sector_without_entries_is_no_partition_table():
    first, last = ends(at(510, b"\x55\xaa"))
    found = read(disk(), head__ada1=first, tail__ada1=last, fstyp__ada1=NOT_RECOGNIZED)
    assert found.device("ada1").signatures == ()


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
    assert not facts.device("ada1").signatures_known
    assert "signatures could not be read" in why(facts, "ada1")


def test_the_second_opinion_counts():
    first, last = ends(b"something")
    given = {"head__ada1": first, "tail__ada1": last}
    seen = read(disk(), **given, fstyp__ada1="geli").device("ada1")
    assert seen.signatures_known and seen.signatures == (Signature("geli"),)
    assert read(disk(), **given, fstyp__ada1=NOT_RECOGNIZED).device("ada1").signatures == ()


@pytest.mark.parametrize("end", ["head", "tail"])
@pytest.mark.parametrize("damage", [None, b"", b"no gzip", ends(size=1024)[0], ends()[0][:-9]])
def test_an_end_that_was_not_read_whole_is_not_known(end, damage):
    assert not read(disk(), **{f"{end}__ada1": damage}).device("ada1").signatures_known


def test_a_small_device_is_read_whole():
    both = dict(zip(("head__da1", "tail__da1"), ends(size=65536), strict=True))
    assert read(fb.article_001(0).disk("da1", 65536), **both).device("da1").signatures_known
