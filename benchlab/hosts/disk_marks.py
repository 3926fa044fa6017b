# SPDX-License-Identifier: Apache-2.0
"""A host's disks as small blocks, each saying whether it is spare, in use, gone, or nobody's to touch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from benchlab.hosts.models import Device
from benchlab.web.natural import natural_key
from benchlab.web.units import format_size

FAST = ("ssd", "nvme")
SPARE, USE, GONE, SYSTEM, UNMARKED = "spare", "use", "fail", "sys", ""
WORDS = {
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


def marks(disks: Iterable[Device], held: Collection[str] = ()) -> list[Mark]:
    """Of those that are there, and of spare ones that are not, in the order in which they are drawn.

    `held`: identities of the disks of the layout that holds the host.
    """
    drawn = [disk for disk in disks if disk.present or disk.spare]
    return [mark(disk, held) for disk in sorted(drawn, key=lambda disk: place(disk, held))]


def mark(disk: Device, held: Collection[str]) -> Mark:
    its = state(disk, held)
    css = " ".join(filter(None, (its, "ssd" * is_fast(disk))))
    what = filter(None, (disk.name, format_size(disk.size), disk.role, WORDS[its]))
    return Mark(css, ", ".join(what))


def place(disk: Device, held: Collection[str]) -> tuple[Any, ...]:
    """The system's last; of the others disks that turn first, as they are most."""
    return state(disk, held) == SYSTEM, is_fast(disk), natural_key(disk.name)


def is_fast(disk: Device) -> bool:
    return disk.role in FAST or (not disk.role and disk.rotational is False)


def state(disk: Device, held: Collection[str]) -> str:
    if not disk.present:
        return GONE
    if disk.identity in held:
        return USE
    if disk.spare:
        return SPARE
    return SYSTEM if disk.in_use else UNMARKED
