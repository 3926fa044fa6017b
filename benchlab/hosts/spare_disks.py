# SPDX-License-Identifier: Apache-2.0
"""Spare disks: they may be wiped. Only a person marks one, by typing the serial, and only of a disk nothing uses.

Pages draw a host's disks as small marks, each saying whether it is spare, in use, gone, or nobody's to touch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from agents.safety.guard import Spare
from benchlab.hosts import discovery
from benchlab.hosts.models import Device, Host, HostsError
from benchlab.web.texts import natural_key
from benchlab.web.units import format_size

ROLE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
SPARE_FIELDS = ("spare", "role", "spare_by", "spare_at", "spare_size", "spare_model", "spare_boot")
# older facts are read again before a disk is given away
FACTS_MAX_AGE = timedelta(minutes=5)


def host_spares(host: Host) -> dict[str, Spare]:
    """The host's spare devices by identity, as the person confirmed them."""
    return spares_among(host.devices.filter(spare=True))


def spares_among(devices: Iterable[Device]) -> dict[str, Spare]:
    """Spare devices among those of one host, by identity, as the person confirmed them."""
    return {
        device.identity: Spare(
            identity=device.identity,
            role=device.role,
            size=device.spare_size or 0,
            model=device.spare_model,
            boot=device.spare_boot,
        )
        for device in devices
        if device.spare
    }


def mark_spare(
    device: Device, user: AbstractBaseUser | AnonymousUser, typed: str, role: str
) -> Device:
    """Mark a disk spare: it may be wiped. Raises HostsError when it is not what was typed or is in use.

    Raises AgentError when the host has to be asked again and does not answer.
    """
    role = role.strip().lower()
    if not ROLE.fullmatch(role):
        raise HostsError(
            f"Role {role!r}: give a short word such as hdd, ssd or nvme "
            "(lower-case letters, digits, - and _; it starts with a letter)."
        )
    if typed.strip() != device.confirmation:
        raise HostsError(
            f"{typed.strip()!r} does not match {device.name}; type {device.confirmation!r} exactly. "
            "Nothing was changed."
        )
    _refresh(device)
    with transaction.atomic():
        fresh = Device.objects.select_for_update().get(pk=device.pk)
        _check_spare(fresh, typed.strip())
        fresh.spare, fresh.role, fresh.spare_by_id, fresh.spare_at = (
            True,
            role,
            user.pk,
            timezone.now(),
        )
        fresh.spare_size, fresh.spare_model = fresh.size, fresh.model
        latest = fresh.host.snapshots.values_list("boot_id", flat=True)
        fresh.spare_boot = latest.first() or ""
        fresh.save(update_fields=SPARE_FIELDS)
    return fresh


def unmark_spare(device: Device) -> None:
    """Mark a disk as no longer spare. Raises HostsError while a layout stands on it."""
    with transaction.atomic():
        fresh = Device.objects.select_for_update().get(pk=device.pk)
        for layout in fresh.host.layouts.holding():
            if _mentions(layout.plan, fresh.identity):
                raise HostsError(
                    f"{fresh.name} carries layout {layout.name}; it can be taken back once that is taken down."
                )
        fresh.spare = False
        fresh.save(update_fields=["spare"])


def _refresh(device: Device) -> None:
    latest = device.host.snapshots.defer("facts").first()
    if latest is None or timezone.now() - latest.read_at > FACTS_MAX_AGE:
        discovery.read_facts(device.host)


def _check_spare(device: Device, typed: str) -> None:
    if not device.present:
        raise HostsError(f"{device.name} ({device.identity}) is no longer in {device.host}.")
    if typed != device.confirmation:
        raise HostsError(f"{device.identity} is another disk now; read the page again.")
    if device.in_use:
        raise HostsError(f"{device.name} is in use and stays untouched: {device.in_use}.")


def _mentions(plan: Any, identity: str) -> bool:
    """True when a stored plan names that device anywhere."""
    if isinstance(plan, dict):
        return any(_mentions(value, identity) for value in plan.values())
    if isinstance(plan, list):
        return any(_mentions(value, identity) for value in plan)
    return bool(plan == identity)


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
