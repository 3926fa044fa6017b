# SPDX-License-Identifier: Apache-2.0
"""Stack of devices on a host, from a fact snapshot: each volume above the devices it stands on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StackedDevice:
    """A device in the drawing order; `depth` 0 is the top of a stack."""

    # kernel name, as in the series
    name: str
    depth: int
    label: str

    @property
    def indented(self) -> str:
        """For legends and tables: no-break spaces survive in SVG text."""
        return "\u00a0\u00a0" * (self.depth - 1) + "└ " + self.label if self.depth else self.label


def order_devices(names: Collection[str], facts: Mapping[str, Any]) -> list[StackedDevice]:
    """Every one of `names`, tops first, each followed by what it stands on. Unknown ones come last.

    `facts` is FactSnapshot.facts: {"devices": [{"name", "parents", "holders", "path", "type", "model"}]}.
    """
    devices = {d["name"]: d for d in facts.get("devices", ())}
    placed: dict[str, StackedDevice] = {}
    tops = [name for name, d in devices.items() if not d.get("holders")]
    for top in sorted(tops, key=lambda name: (not devices[name].get("parents"), name)):
        _place_device(top, 0, devices, set(names), placed)
    for name in sorted(names):
        placed.setdefault(name, StackedDevice(name, 0, _device_label(name, devices.get(name, {}))))
    return list(placed.values())


def devices_above(nodes: Collection[str], facts: Mapping[str, Any]) -> set[str]:
    """Kernel names of the devices at these nodes, and of all that stands on them."""
    devices = {d["name"]: d for d in facts.get("devices", ())}
    above: set[str] = set()
    more = {name for name, d in devices.items() if d.get("path") in nodes}
    while more:
        above |= more
        more = {n for n, d in devices.items() if above & set(d.get("parents", ()))} - above
    return above


def _place_device(
    name: str,
    depth: int,
    devices: Mapping[str, Mapping[str, Any]],
    names: set[str],
    placed: dict[str, StackedDevice],
) -> None:
    """Depth counts only devices that are drawn: an idle one in the middle leaves no gap."""
    if name in placed or name not in devices:
        return
    device = devices[name]
    if name in names:
        placed[name] = StackedDevice(name, depth, _device_label(name, device))
        depth += 1
    for parent in _sorted_names(device.get("parents", ())):
        _place_device(parent, depth, devices, names, placed)


def _sorted_names(names: Sequence[str]) -> list[str]:
    """sda … sdz, then sdaa: shorter names first."""
    return sorted(names, key=lambda name: (len(name), name))


def _device_label(name: str, device: Mapping[str, Any]) -> str:
    """ "bl17-data (dm-3, lvm)", "sdb (INTEL SSDSC2BB48)", "sdb"."""
    alias = str(device.get("path", "")).rpartition("/")[2]
    kind = str(device.get("type", ""))
    model = str(device.get("model", "")).strip()
    if alias and alias != name:
        return f"{alias} ({name}, {kind})"
    return f"{name} ({model})" if model else name
