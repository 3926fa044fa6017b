"""A host's disks as small blocks, each with its state in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchlab.hosts.models import Device
from benchlab.web.units import size


@dataclass(frozen=True, slots=True)
class Mark:
    """`css`: classes beside "disk" (static/benchlab.css)."""

    css: str
    words: str


def marks(devices: Iterable[Device]) -> list[Mark]:
    """Those that are there, and spare ones that are missing."""
    return [_mark(one) for one in devices if one.present or one.spare]


def _mark(device: Device) -> Mark:
    css, state = _state(device)
    wide = " ssd" if device.rotational is False else ""
    return Mark(f"{css}{wide}".strip(), f"{device.name}, {size(device.size)}, {state}")


def _state(device: Device) -> tuple[str, str]:
    if not device.present:
        return "fail", "spare, but gone"
    if device.spare:
        return ("use", "spare, in use now") if device.in_use else ("spare", "spare")
    return ("sys", f"not ours: {device.in_use}") if device.in_use else ("", "not spare")
