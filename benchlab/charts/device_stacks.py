# SPDX-License-Identifier: Apache-2.0
"""The stack of devices on a host: their order in drawings, what a layout claims, and the disks that its layers use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import AgentError
from agents.plans import applied_part, chain
from agents.plans.chain import LayerSpec
from agents.plans.stack import BELOW, Placed
from benchlab.analysis.evidence import Layer
from benchlab.runs.attempt_meta import DISKS
from benchlab.runs.models import Attempt
from benchlab.topologies import moments
from benchlab.web.units import format_size

# FactSnapshot.facts: {"devices": [{"name", "parents", "holders", "path", "type", "model"}]}
Facts = Mapping[str, Any]
# members that a cell names
MAX_NAMES = 3
# classes of vdevs, which are parts of their names
VDEV_CLASSES = ("logs", "cache", "special", "dedup")
# in place of an unknown layer
IMPORTED = "imported"
# uses of disks that hold nothing for the layers above
NON_DATA_USES = ("cache", "log", "spare")
# a use of disks that carry nothing while all is well
SPARE = "spare"


@dataclass(frozen=True, slots=True)
class StackedDevice:
    """A device in the drawing order; `depth` 0 is the top of a stack."""

    # kernel name, as in the series
    name: str
    depth: int
    label: str

    @property
    def indented(self) -> str:
        """Label for legends and tables: no-break spaces survive in SVG text."""
        return "\u00a0\u00a0" * (self.depth - 1) + "└ " + self.label if self.depth else self.label


def attempt_facts(attempt: Attempt) -> Facts:
    """Return the host's facts before the attempt; {} if there are none."""
    return attempt.facts.facts if attempt.facts else {}


def devices_by_name(facts: Facts) -> dict[str, Facts]:
    return {device["name"]: device for device in facts.get("devices", ())}


def order_devices(names: Collection[str], facts: Facts) -> list[StackedDevice]:
    """Every one of `names`, tops first, each followed by what it stands on. Unknown ones come last.

    Depth counts only devices that are drawn: an idle one in the middle leaves no gap.
    """
    devices = devices_by_name(facts)
    placed: dict[str, StackedDevice] = {}

    def place(name: str, depth: int) -> None:
        if name in placed or name not in devices:
            return
        if name in names:
            placed[name] = StackedDevice(name, depth, _device_label(name, devices[name]))
            depth += 1
        # sda … sdz, then sdaa
        for parent in sorted(devices[name].get("parents", ()), key=lambda name: (len(name), name)):
            place(parent, depth)

    tops = [name for name, device in devices.items() if not device.get("holders")]
    for top in sorted(tops, key=lambda name: (not devices[name].get("parents"), name)):
        place(top, 0)
    for name in sorted(names):
        placed.setdefault(name, StackedDevice(name, 0, _device_label(name, devices.get(name, {}))))
    return list(placed.values())


def _device_label(name: str, device: Facts) -> str:
    """ "bl17-data (dm-3, lvm)", "sdb (INTEL SSDSC2BB48)", "sdb"."""
    alias = str(device.get("path", "")).rpartition("/")[2]
    model = str(device.get("model", "")).strip()
    if alias and alias != name:
        return f"{alias} ({name}, {device.get('type', '')})"
    return f"{name} ({model})" if model else name


def order_with_pools(names: Collection[str], facts: Facts) -> list[StackedDevice]:
    """Order block devices as everywhere else, and pools with their vdevs below them; "" is the host."""
    pools = {name.partition("/")[0] for name in names if "/" in name}
    blocks = {name for name in names if name and "/" not in name and name not in pools}
    vdevs = sorted(
        set(names) - blocks,
        key=lambda name: [(part in VDEV_CLASSES, part) for part in name.split("/")],
    )
    return [*order_devices(blocks, facts), *map(_stacked_vdev, vdevs)]


def _stacked_vdev(name: str) -> StackedDevice:
    """ "bl17/logs/sdb" is "sdb (logs)" below "bl17": its class is no row of its own."""
    *above, last = name.split("/")
    if len(above) > 1 and above[1] in VDEV_CLASSES:
        return StackedDevice(name, len(above) - 1, f"{last} ({above[1]})")
    return StackedDevice(name, len(above), last or "whole host")


def devices_above(nodes: Collection[str], facts: Facts) -> set[str]:
    """Kernel names of the devices at these nodes, and of all that stands on them."""
    devices = devices_by_name(facts)
    above: set[str] = set()
    more = {name for name, device in devices.items() if device.get("path") in nodes}
    while more:
        above |= more
        more = {n for n, d in devices.items() if above & set(d.get("parents", ()))} - above
    return above


def iterate_claims(plan: object) -> Iterator[tuple[str, Facts]]:
    """Yield (identity, claim) of every device that a plan claims, however deep."""
    if isinstance(plan, Mapping):
        if "identity" in plan and "node" in plan:
            yield str(plan["identity"]), plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for value in plan:
            yield from iterate_claims(value)


def describe_claims(plan: object, facts: Facts) -> dict[str, dict[str, str]]:
    """{identity: the words for a claimed device} by the facts, else by the plan."""
    by_path: dict[str, Facts] = {}
    for device in facts.get("devices", ()):
        by_path.setdefault(device.get("path", ""), device)
    return {
        identity: _describe_device(by_path.get(str(claim["node"]), {}), claim)
        for identity, claim in iterate_claims(plan)
    }


def _describe_device(device: Facts, claim: Facts) -> dict[str, str]:
    sectors = [device.get(f"{name}_sector") for name in ("logical", "physical")]
    capacity = device.get("size") or claim.get("size")
    return {
        "name": str(claim["node"]).removeprefix("/dev/"),
        "model": str(device.get("model") or claim.get("model") or ""),
        "firmware": str(device.get("firmware") or ""),
        "size": format_size(capacity) if capacity else "",
        "scheduler": str(device.get("scheduler") or ""),
        "sectors": "/".join(map(str, sectors)) + " B" if all(sectors) else "",
    }


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Disks that do the same work in a layer."""

    # kind: "lvm"
    layer: str
    # "data"
    use: str
    # kernel names
    members: tuple[str, ...]

    @property
    def members_text(self) -> str:
        """ "sdb, sdc", "sdb, sdc, sdd and 9 more"."""
        return shorten_names(self.members)


def shorten_names(names: Sequence[str]) -> str:
    if len(names) <= MAX_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"


def read_placed_layers(attempt: Attempt) -> tuple[Placed, ...] | None:
    """Return the layers of its plan at its moment; None if there is no readable plan, as for imported results."""
    try:
        plan = applied_part.from_json(attempt.layout.plan or {})
    except AgentError:
        return None
    return tuple(plan.layers_after(moments.parse_moment(attempt.run.stage).stage))


def read_layers(attempt: Attempt) -> list[Layer]:
    """Return the layers of the plan, else those that the import names; empty if neither is known."""
    placed = read_placed_layers(attempt)
    if placed is not None:
        return plan_layers(placed)
    disks = attempt.meta.get(DISKS) or {}
    return imported_layers(chain.specs(attempt.layout.stack), disks) if disks else []


def read_disk_uses(attempt: Attempt) -> list[DiskUse]:
    return disk_uses(read_layers(attempt))


def read_layout_disks(attempt: Attempt) -> set[str]:
    """Kernel names of the disks that the attempt's layers use."""
    return {name for use in read_disk_uses(attempt) for name in use.members}


def plan_layers(layers: Sequence[Placed]) -> list[Layer]:
    """Layers as a plan has them; the disks below a layer are its use BELOW."""
    return [
        Layer(
            layer.spec.kind,
            uses={
                # The kernel writes cciss!c0d0 for /dev/cciss/c0d0.
                use: tuple(claim.node.removeprefix("/dev/").replace("/", "!") for claim in claims)
                for use, claims in layer.target.devices.items()
            },
        )
        for layer in layers
    ]


def imported_layers(specs: Sequence[LayerSpec], disks: Mapping[str, Sequence[str]]) -> list[Layer]:
    """Return the layers of an imported result on its source's `disks`, by role.

    Disks that no layer asks for are left out. If no layer asks for any, each role is a layer of its own use.
    """
    layers: list[Layer] = []
    holding: tuple[str, ...] = ()
    for spec, roles in zip(specs, chain.assign_source_disks(specs, disks), strict=True):
        below = {BELOW: holding} if holding else {}
        layers.append(Layer(spec.kind, uses={**roles, **below}))
        holding += tuple(
            n for use, names in roles.items() if use not in NON_DATA_USES for n in names
        )
    if any(disk_uses(layers)):
        return layers
    return [Layer(IMPORTED, uses={role: tuple(names)}) for role, names in disks.items()]


def disk_uses(layers: Sequence[Layer]) -> list[DiskUse]:
    """Uses of each layer that was given disks, bottom up; without spares."""
    return [
        DiskUse(layer.kind, use, names)
        for layer in layers
        for use, names in layer.uses.items()
        if use not in (BELOW, SPARE) and names
    ]
