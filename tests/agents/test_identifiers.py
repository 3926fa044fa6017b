"""All identifiers of a disk: two paths to one disk are recognised, and disks that merely have one maker are not.

The pages are those of Linux 6.1's scsi_debug with two hosts that show one logical unit (add_host=2 vpd_use_hostno=0).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.facts import identifiers, reading
from agents.facts.model import HostFacts
from agents.safety.guard import refusals
from tests.agents.linux_host import extra, output
from tests.agents.made_up import LAYOUT, disk, host, spare, wiping

PAGE_80 = b"\0\x80\0\x042000"
# The unit's T10 name and NAA; names of its port and of its target, which are no names of a disk.
PAGE_83 = (
    b"\0\x83\0p\x02\x01\0\x1cLinux   scsi_debug      2000\x01\x03\0\x083330\0\0\x07\xd0a\x94\0\x04\0\0\0\x01"
    b'a\x93\0\x082""\x20\0\0\x07\xcea\x95\0\x04\0\0\x01\0a\xa3\0\x082""\x20\0\0\x07\xcdc\xa8\0\x18naa.32222220000007CD\0\0\0\0'
)
NAA = "33333330000007d0"


def page(*listed: tuple[int, int, bytes]) -> bytes:
    """Page 83h of (association, type, value)."""
    body = b"".join(bytes([1, association << 4 | kind, 0, len(value)]) + value
                    for association, kind, value in listed)  # fmt: skip
    return b"\0\x83" + len(body).to_bytes(2, "big") + body


def facts(*disks: dict[str, str], addresses: tuple[str, ...] = ()) -> HostFacts:
    """A host with disks sdb, sdc, … that show these attributes; WWN and SERIAL are lsblk's columns."""
    parts: dict[str, list[str]] = {"files": [], "lsblk": []}
    for number, shown in enumerate(disks, 1):
        name = shown.get("name", f"sd{chr(97 + number)}")
        columns = {key: value for key, value in shown.items() if key.isupper()}
        values = {key: value for key, value in shown.items() if key.islower() and key != "name"}
        for key, text in extra(name, f"8:{16 * number}", columns, **values).items():
            parts[key].append(text[1:])
    tree = "\n".join(f"/sys/class/block/sd{chr(98 + n)}/device/scsi_device/{at}"
                     for n, at in enumerate(addresses))  # fmt: skip
    changed = {key: "+" + "\n".join(texts) for key, texts in parts.items()}
    signatures = "sda,0x1fe,,,PMBR\nsda2,0x438,u-1,,ext4"
    return reading.parse_linux_facts(output(**changed, signatures=signatures, tree="+" + tree))


def refused(found: HostFacts) -> list[bool]:
    """Of each of the host's spare disks in turn: is it refused, as one that cannot be distinguished?"""
    disks = [d for d in found.devices if not d.name.startswith("sda")]
    reasons = [
        "; ".join(refusals(wiping(d), found, spare(*disks, boot=found.boot_id), LAYOUT))
        for d in disks
    ]
    return ["they cannot be told apart" in reason for reason in reasons]


def decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


FULL = {
    "WWN": f"0x{NAA}",
    "SERIAL": "2000",
    "device/wwid": f"naa.{NAA}",
    "device/vpd_pg80": decoded(PAGE_80),
    "device/vpd_pg83": decoded(PAGE_83),
}
NVME = {"name": "nvme0n1", "wwid": "eui.0025385b71b00001", "device/serial": "S4EVNX0M"}


@pytest.mark.parametrize(
    "second",
    [
        FULL,
        {"SERIAL": "2000"},
        {"SERIAL": NAA},  # udev's short serial of a SCSI disk is its NAA
        {"WWN": f"0x{NAA}"},
        {"WWN": f"0x{NAA.upper()}", "SERIAL": "another"},
        {"device/wwid": f"naa.{NAA}"},
        {"device/wwid": "t10.Linux   scsi_debug      2000", "SERIAL": "x"},
        {"SERIAL": "x", "device/vpd_pg80": decoded(PAGE_80)},
        {"SERIAL": "x", "device/vpd_pg83": decoded(PAGE_83)},
    ],
)
def test_two_paths_are_one_disk_by_any_identifier_that_both_show(second):
    found = facts(FULL, second)
    assert refused(found) == [True, True]
    assert refused(facts(second, FULL)) == [True, True]


def test_identities_that_people_confirmed_stay_as_they_were():
    found = facts(FULL, {"SERIAL": "2000"})
    assert [d.identity for d in found.devices[2:]] == [f"wwn:0x{NAA}", "serial:2000"]
    assert found.find_device("sdb").identifiers == ("2000", NAA, "linuxscsidebug2000")


@pytest.mark.parametrize(
    "disks",
    [
        ({}, {}),  # virtio and ubd without serial numbers
        ({"SERIAL": "0000000000"}, {"SERIAL": "0000000000"}),
        ({"SERIAL": "none"}, {"SERIAL": "none"}),
        ({"device/vpd_pg83": decoded(page((1, 3, b"\x51234567")))},) * 2,  # a port's name
        ({"device/vpd_pg83": decoded(page((0, 0, b"vendor's own")))},) * 2,
        ({"device/vpd_pg80": "\0\x01\0\x04abcd"},) * 2,  # another page
        # Namespaces of one controller.
        (NVME, {**NVME, "name": "nvme0n2", "wwid": "eui.0025385b71b00002"}),
    ],
)  # fmt: skip
def test_different_disks_stay_different(disks):
    assert refused(facts(*disks))[1:] == [False] * (len(disks) - 1)


def test_a_disk_with_two_actuators_is_two_disks_unless_a_second_path_leads_to_it():
    halves = [{"WWN": f"0x5000c500a1b2000{n}", "SERIAL": "ZAA1"} for n in (1, 2)]
    assert refused(facts(*halves, addresses=("0:0:4:0", "0:0:4:1"))) == [False, False]
    assert refused(facts(*halves, addresses=("0:0:4:0", "0:0:5:0"))) == [True, True]
    # Behind another host adapter: both halves may be the second path.
    third = {"SERIAL": "ZAA1"}
    assert refused(facts(*halves, third, addresses=("0:0:4:0", "0:0:4:1", "1:0:4:0"))) == [True] * 3
    # No other name that tells them apart.
    assert refused(facts(third, third, addresses=("0:0:4:0", "0:0:4:1"))) == [True, True]


@pytest.mark.parametrize("second", [{"wwid": "eui.0025385b71b00001"}, {"eui": "00 25 38 5b 71 b0 00 01"},
                                    {"nguid": "0025385b-71b0-0001-0000-000000000000", "uuid": "u1"}])  # fmt: skip
def test_a_namespace_has_several_names(second):
    first = {"name": "nvme0n1", "wwid": "eui.0025385b71b00001",
             "nguid": "0025385b-71b0-0001-0000-000000000000"}  # fmt: skip
    assert refused(facts(first, {"name": "nvme1n1", **second})) == [True, True]


def test_every_kind_of_designator():
    names = [
        (0, 2, b"\0\x11"),
        (0, 10, b"\x10\0\xab\xcd"),
        (0, 8, b"eui.AB-1\0"),
        (0, 1, b"ACME disk 7 "),
    ]
    assert list(identifiers.parse_designators(page(*names))) == [
        "0011",
        "abcd",
        "eui.AB-1",
        "ACME disk 7",
    ]


@pytest.mark.parametrize("raw", [PAGE_83[:n] for n in range(0, len(PAGE_83), 7)] + [b"\xff" * 9])
def test_a_damaged_page_is_read_as_far_as_it_goes(raw):
    whole = set(identifiers.parse_designators(PAGE_83))
    assert len(list(identifiers.parse_designators(raw))) <= len(whole)
    assert list(identifiers.unit_serial(raw)) == []


def test_a_page_with_a_newline_in_it_is_whole():
    cut = page((0, 1, b"a\nb"), (0, 3, b"\x0a\x0a"))
    lines = "\n".join(
        f"/sys/class/block/sdb/device/vpd_pg83:{line}" for line in decoded(cut).split("\n")
    )
    more = extra("sdb", "8:16")
    found = reading.parse_linux_facts(output(**{**more, "files": f"{more['files']}\n{lines}"}))
    assert found.find_device("sdb").identifiers == ("0a0a", "ab")


def test_devices_without_a_list_are_compared_by_wwn_and_serial():
    """As facts of FreeBSD and of tests may be."""
    one, other = disk("sdb", serial="X"), disk("sdc", 2, serial="X", wwn="0xY")
    for device in (one, other):
        found = refusals(wiping(device), host(one, other), spare(device), LAYOUT)
        assert any("they cannot be told apart" in reason for reason in found)
    assert refusals(wiping(one), host(one, replace(other, serial="Z")), spare(one), LAYOUT) == []
