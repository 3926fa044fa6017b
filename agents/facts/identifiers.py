# SPDX-License-Identifier: Apache-2.0
"""Identifiers of a disk: everything by which its hardware calls itself, in one spelling. Pure.

Two paths to one disk need not show the same identity: one may show a serial number only, the other a WWN too. They
share an identifier all the same. Sources: SPC-5 (vital product data pages 80h and 83h), NVM Express (EUI64, NGUID,
UUID).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from agents.facts.model import BlockDevice
from agents.facts.sections import decode_text

# Attributes below /sys/class/block/X that name the disk and nothing larger. The serial number of an NVMe controller is
# not among them: its namespaces are different disks.
IDENTITY_ATTRIBUTES = ("wwid", "eui", "nguid", "uuid", "device/wwid", "device/cid")
# bytes before a page's contents, and before each designator
HEADER = 4
# Association of a designator; others name a port, or the box with all of its units.
LOGICAL_UNIT = 0
# types of designators that are unique
T10, EUI64, NAA, NAME, UUID = 1, 2, 3, 8, 10


def meaningful_serial(value: str) -> str:
    """A serial number, or "" for what is none."""
    # What firmware and drivers print for "none"; equal on every disk, so no identity.
    none = re.fullmatch(r"0*|\(?_?null_?\)?|none|n/a|unknown", value, re.I)
    return "" if none else value


def normalize_identifier(value: str) -> str:
    """One spelling of an identifier, whether udev, the kernel or a page has it; "" for what identifies nothing.

    >>> spelling("naa.5000C500A1B2C3D4") == spelling("0x5000c500a1b2c3d4") == "5000c500a1b2c3d4"
    True
    >>> spelling("0x0000000000000000")
    ''
    """
    bare = re.sub(r"^(?:0x|naa\.|eui\.|uuid\.|t10\.)", "", value.strip(" \t\n\0").lower())
    return meaningful_serial(re.sub(r"[\s_-]+|\\x00", "", bare))


def collect_identifiers(
    attributes: Mapping[str, str], pages: Mapping[str, bytes], *names: str
) -> tuple[str, ...]:
    """Identifiers of a whole disk, sorted: of its attributes, its pages and `names`, its WWN and serial number."""
    values = [*names, *(attributes.get(attribute, "") for attribute in IDENTITY_ATTRIBUTES)]
    values += unit_serial(pages.get("vpd_pg80", b""))
    values += parse_designators(pages.get("vpd_pg83", b""))
    return tuple(sorted({normalize_identifier(value) for value in values} - {""}))


def all_identifiers(device: BlockDevice) -> frozenset[str]:
    """Identifiers of a device; where nothing listed them, its WWN and serial number."""
    listed = device.identifiers or (
        normalize_identifier(device.wwn),
        normalize_identifier(device.serial),
    )
    return frozenset(listed) - {""}


def unit_serial(page: bytes) -> Iterator[str]:
    """Serial number in vital product data page 80h, where there is one."""
    if page[1:2] == b"\x80":
        yield decode_text(_contents(page)).strip()


def parse_designators(page: bytes) -> Iterator[str]:
    """Names of the logical unit itself in vital product data page 83h."""
    rest = _contents(page) if page[1:2] == b"\x83" else b""
    while len(rest) >= HEADER:
        association, kind = rest[1] >> 4 & 3, rest[1] & 15
        value, rest = rest[HEADER : HEADER + rest[3]], rest[HEADER + rest[3] :]
        if association != LOGICAL_UNIT:
            continue
        if kind in (EUI64, NAA):
            yield value.hex()
        elif kind == UUID:
            yield value[2:].hex()
        elif kind in (T10, NAME):
            yield decode_text(value.rstrip(b"\0 "))


def _contents(page: bytes) -> bytes:
    return page[HEADER : HEADER + int.from_bytes(page[2:4], "big")]


def without_shared_serials(
    devices: Iterable[BlockDevice], addresses: Mapping[str, str]
) -> list[BlockDevice]:
    """Devices; the units of one SCSI target do not count a serial number that they all show, and nobody else does.

    Both halves of a disk with two actuators, and all volumes of some RAID controllers, show one serial number. They are
    different disks if each has a name of its own too. Behind another target the same number may be another path.
    """
    listed = list(devices)
    targets: dict[str, list[BlockDevice]] = {}
    for device in listed:
        if address := addresses.get(device.name, ""):
            targets.setdefault(address.rpartition(":")[0], []).append(device)
    changed: dict[str, BlockDevice] = {}
    for units in targets.values():
        names = {unit.name for unit in units}
        others = {value for d in listed if d.name not in names for value in d.identifiers}
        changed |= {unit.name: unit for unit in _without_shared_serial(units, others)}
    return [changed.get(device.name, device) for device in listed]


def _without_shared_serial(
    units: Sequence[BlockDevice], others: Collection[str]
) -> Sequence[BlockDevice]:
    """The units of one target without the serial number that all share, where each has another identifier."""
    if len(units) == 1:
        return units
    shared = set.intersection(*({normalize_identifier(unit.serial), ""} for unit in units)) - {
        "",
        *others,
    }
    own = [tuple(v for v in unit.identifiers if v not in shared) for unit in units]
    if not shared or not all(own):
        return units
    return [replace(unit, identifiers=values) for unit, values in zip(units, own, strict=True)]
