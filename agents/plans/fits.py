# SPDX-License-Identifier: Apache-2.0
"""Checks that a run fits what it works on: room for its blocks, and blocks that hold something. Pure.

Sizes are estimated on an example host, which has disks as requested and all programs that a layer may need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import PlanError, Target
from agents.drivers import registry
from agents.facts.model import BlockDevice, HostFacts
from agents.plans.chain import LayerSpec, gives
from agents.safety.guard import Spare

SINCE = "write all of it first, by a workload before this one that writes the whole size"
SPARSE = "ZFS serves reads of never-written zvol blocks without disk I/O"
DISCARDED = (
    "the disk was discarded, and an SSD serves reads of discarded blocks without reading its flash"
)
BLANK = "an SSD serves reads of never-written or discarded blocks without reading its flash"


def too_large(specs: Sequence[LayerSpec], kind: str, built: Any, target: Target) -> str:
    """Reason why a tool has no room on a target, with the numbers; "" where it has, or the size is not known."""
    room = registry.required_bytes(kind, built, target)
    if not target.size or room <= target.size or any(map(_packs, specs)):
        return ""
    where = "file system" if target.mount else "volume"
    return (
        f"{kind} needs {room:,} B ({room / 2**30:,.1f} GiB) of a {where} of {target.size:,} B"
        f" ({target.size / 2**30:,.1f} GiB): give it a smaller size, or larger disks"
    )


def check_size(specs: Sequence[LayerSpec], kind: str, built: Any, target: Target) -> None:
    """Raise PlanError for a size that is too large."""
    if problem := too_large(specs, kind, built, target):
        raise PlanError(problem)


def _packs(spec: LayerSpec) -> bool:
    """True when more may be written than there is room for: the layer compresses, or promises what it has not."""
    options = spec.options
    packed = any(word.startswith("compress") for word in options.get("mount_options", ()))
    return bool(options.get("compression", "off") != "off" or options.get("sparse") or packed)


def unwritten(specs: Sequence[LayerSpec], kind: str, built: Any) -> str:
    """Warning that a tool may read blocks which were never written, so no disk works; "" otherwise."""
    if gives(spec.kind for spec in specs) == "mount" or not registry.reads_existing(kind, built):
        return ""
    if any(spec.kind == "zvol" for spec in specs):
        return f"it reads a volume on which nothing was written: {SPARSE}; {SINCE}"
    discarded = any(spec.kind == "raw" and spec.options.get("discard") for spec in specs)
    return f"it reads a volume on which nothing was written: {DISCARDED if discarded else BLANK}; {SINCE}"


SECTOR = 4096
SCHEDULERS = "[none] mq-deadline kyber bfq deadline noop cfq"
QUEUE = {
    "scheduler": SCHEDULERS,
    "nr_requests": "256",
    "read_ahead_kb": "128",
    "nomerges": "0",
    "rq_affinity": "1",
}
GOVERNORS = ("performance", "powersave", "ondemand", "conservative", "schedutil", "userspace")
SYSCTLS = (
    *("vm.dirty_ratio", "vm.dirty_background_ratio", "vm.dirty_expire_centisecs"),
    *("vm.dirty_writeback_centisecs", "vm.dirtytime_expire_seconds", "vm.swappiness"),
    *("vm.vfs_cache_pressure", "vm.min_free_kbytes", "vm.page-cluster", "vm.zone_reclaim_mode"),
    *("vm.laptop_mode", "vm.watermark_scale_factor", "vm.watermark_boost_factor"),
    *("vm.nr_hugepages", "vm.dirty_bytes", "vm.dirty_background_bytes", "fs.aio-max-nr"),
    *("fs.file-max", "fs.xfs.xfssyncd_centisecs", "fs.xfs.age_buffer_centisecs"),
)


@dataclass(frozen=True, slots=True)
class Disk:
    """One that is asked for. `name`: what to call it, and no other has it."""

    name: str
    role: str
    size: int
    # physical
    sector: int = SECTOR


def example(disks: Sequence[Disk]) -> tuple[HostFacts, list[Spare]]:
    """The host, and its disks as spare ones, which are taken in their order."""
    devices = tuple(_example_device(number, disk) for number, disk in enumerate(disks))
    spares = [
        Spare(device.identity, device.size, device.model, disk.role)
        for device, disk in zip(devices, disks, strict=True)
    ]
    return _example_facts(devices), spares


def _example_device(number: int, disk: Disk) -> BlockDevice:
    return BlockDevice(
        name=disk.name,
        path=f"/dev/{disk.name}",
        type="disk",
        size=disk.size,
        majmin=f"8:{number}",
        model="example",
        # disks are taken in the order of their identities
        serial=f"{number:06}",
        physical_sector=disk.sector,
        queue=QUEUE,
        signatures_known=True,
    )


def _example_facts(devices: Iterable[BlockDevice]) -> HostFacts:
    programs = {need.program for driver in registry.all_layers().values() for need in driver.NEEDS}
    return HostFacts(
        hostname="example",
        os_family="debian",
        os_name="",
        kernel="6.12",
        arch="x86_64",
        boot_id="",
        cpu_model="",
        cpus=1,
        memory=1 << 30,
        root=True,
        sudo=True,
        devices=tuple(devices),
        zfs_module="2.2.0",
        tools=dict.fromkeys(programs, "99.0.0"),
        sysctls=dict.fromkeys(SYSCTLS, "1"),
        governors={"policy0": GOVERNORS[0]},
        governor_choices=GOVERNORS,
    )
