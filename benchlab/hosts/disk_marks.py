# SPDX-License-Identifier: Apache-2.0
"""A host's disks as small blocks, each saying whether it is spare, in use, gone, or nobody's to touch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from benchlab.hosts.models import Device
from benchlab.web.texts import natural_key
from benchlab.web.units import format_size

FAST_ROLES = ("ssd", "nvme")
SPARE, USE, GONE, SYSTEM, UNMARKED = "spare", "use", "fail", "sys", ""
STATE_LABELS = {
    SPARE: "spare",
    USE: "in use",
    GONE: "gone since it was marked spare",
    SYSTEM: "used by the system, never touched",
    UNMARKED: "not marked spare",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """`css`: classes beside "disk" (static/benchlab.css)."""

    css: str
    says: str


def disk_marks(disks: Iterable[Device], held: Collection[str] = ()) -> list[Mark]:
    """Marks of the present disks, and of spare disks that are absent, in the order in which they are drawn.

    `held`: identities of the disks of the layout that holds the host.
    """
    drawn = [disk for disk in disks if disk.present or disk.spare]
    return [
        disk_mark(disk, held) for disk in sorted(drawn, key=lambda disk: mark_order(disk, held))
    ]


def disk_mark(disk: Device, held: Collection[str]) -> Mark:
    its = disk_state(disk, held)
    css = " ".join(filter(None, (its, "ssd" * is_fast(disk))))
    what = filter(None, (disk.name, format_size(disk.size), disk.role, STATE_LABELS[its]))
    return Mark(css, ", ".join(what))


def mark_order(disk: Device, held: Collection[str]) -> tuple[Any, ...]:
    """Key to sort disks by: the system's last; before it disks that turn first, as they are most."""
    return disk_state(disk, held) == SYSTEM, is_fast(disk), natural_key(disk.name)


def is_fast(disk: Device) -> bool:
    return disk.role in FAST_ROLES or (not disk.role and disk.rotational is False)


def disk_state(disk: Device, held: Collection[str]) -> str:
    if not disk.present:
        return GONE
    if disk.identity in held:
        return USE
    if disk.spare:
        return SPARE
    return SYSTEM if disk.in_use else UNMARKED
