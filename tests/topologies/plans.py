"""Plans of real drivers on disks that nobody has: a dozen slow ones and SSDs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.facts.model import HostFacts, Signature
from agents.plans import stack
from agents.plans.chain import specs, stage_specs
from agents.safety.guard import Spare
from tests.hosts.conftest import disk, facts

SLOW = [f"sd{letter}" for letter in "bcdefghijklmnopq"]
FAST = ["nvme0n1", "nvme1n1"]
TOOLS = {
    **dict.fromkeys(("wipefs", "dmsetup", "cache_check", "mdadm", "sgdisk", "dd"), "1"),
    **dict.fromkeys(("mkfs.xfs", "mkfs.ext4", "mkfs.btrfs"), "1"),
    "lvm": "LVM version: 2.03.16",
    "fio": "fio-3.33",
}
OLD = (Signature("ext4", 1080, "home"),)


def many_disks(**fields: Any) -> HostFacts:
    """Sixteen slow disks, of which the first has a file system, and two SSDs."""
    disks = [
        disk(name, majmin=f"8:{16 * n}", serial=f"WD-{n:02}", signatures=OLD if n == 1 else ())
        for n, name in enumerate(SLOW, start=1)
    ]
    disks += [
        disk(name, majmin=f"259:{n}", model="SSD", serial=f"NV-{n}") for n, name in enumerate(FAST)
    ]
    return facts(*disks, **{"tools": TOOLS, **fields})


def spares_of(found: HostFacts) -> list[Spare]:
    return [
        Spare(d.identity, d.size, d.model, "hdd" if d.name in SLOW else "ssd")
        for d in found.devices
        if d.name in SLOW or d.name in FAST
    ]


def layer(
    kind: str, options: Mapping[str, Any] | None = None, **disks: tuple[str, int]
) -> dict[str, Any]:
    groups = [{"use": use, "role": role, "count": count} for use, (role, count) in disks.items()]
    return {"kind": kind, "options": dict(options or {}), "devices": groups}


def cached(disks: int = 12) -> list[dict[str, Any]]:
    """LVM cache over a stripe of slow disks, xfs on top."""
    return [
        layer("lvm", {"type": "striped", "stripe_size": 4096}, data=("hdd", disks)),
        layer("lvm_cache", cache=("ssd", 1)),
        layer("filesystem", {"type": "xfs"}),
    ]


def made(
    layers: Sequence[Mapping[str, Any]],
    found: HostFacts,
    stages: Sequence[Mapping[str, Any]] = (),
    schedulers: Sequence[str] = (),
) -> stack.StackPlan:
    spares = spares_of(found)
    return stack.plan_stack(specs(layers), "blabc7", found, spares, stage_specs(stages), schedulers)
