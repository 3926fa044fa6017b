# SPDX-License-Identifier: Apache-2.0
"""A file system of the zpool below, mounted at /mnt/benchlab/<layout>. Sources: zfs-create(8), zfsprops(7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts
from agents.layers import _zfs
from agents.options import option
from agents.steps import scripts
from agents.steps.common import mount_point

LABEL = "ZFS file system"
NEEDS = (_zfs.ZFS,)
USES: dict[str, Use] = {}
REQUIRES = "pool"
PROVIDES = "mount"


@dataclass(frozen=True, slots=True)
class Options:
    recordsize: int = option(
        131072, "Largest block of a file: a power of two", unit="B", minimum=512, grain=True
    )
    compression: str = _zfs.compression()
    sync: str = _zfs.sync()
    logbias: str = _zfs.logbias()
    primarycache: str = _zfs.cached("memory (the ARC)")
    secondarycache: str = _zfs.cached("the cache device (L2ARC)")
    atime: bool = option(False, "Record access times of files")

    def __post_init__(self) -> None:
        if not _zfs.is_power_of_two(self.recordsize, 512, 1 << 20):
            raise OptionsError("recordsize: must be a power of two from 512 B to 1 MiB")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """zfs mounts it by itself, and makes the directory."""
    pool, claims = _zfs.pool_of(target)
    name, mount = f"{pool}/data", mount_point(target)
    create = Step(
        ("zfs", "create", *_zfs.property_arguments("-o", _properties(options, mount)), name),
        f"Make the file system {name} and mount it at {mount}",
        destroys=claims,
        undo=(
            _zfs.destroying(name, claims),
            _remove_step(mount),
        ),
    )
    gives = replace(target, mount=mount, stripe_unit=0, stripe_count=0, parity=0)
    return Plan(
        (create,), replace(gives, notes=_zfs.cache_notes(target, name, options.primarycache))
    )


def _properties(options: Options, mount: str) -> dict[str, str]:
    return {
        "mountpoint": mount,
        "recordsize": str(options.recordsize),
        "compression": options.compression,
        "sync": options.sync,
        "logbias": options.logbias,
        "primarycache": options.primarycache,
        "secondarycache": options.secondarycache,
        "atime": _zfs.on_or_off(options.atime),
    }


def _remove_step(mount: str) -> Step:
    return Step(("sh", "-c", scripts.REMOVE_EMPTY, "remove", mount), f"Remove {mount}")


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Unmount (never by force: that would hide who still writes), destroy, remove the mount point."""
    pool, claims = _zfs.pool_of(target)
    mount = mount_point(target)
    steps = [Step(("umount", mount), f"Unmount {mount}")] * sum(
        m.target == mount for m in facts.mounts
    )
    if _zfs.dataset(f"{pool}/data", facts):
        steps.append(_zfs.destroying(f"{pool}/data", claims))
    return [*steps, _remove_step(mount)]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Mounted there and once, with every property that was asked for."""
    name, mount = f"{target.pool}/data", mount_point(target)
    wrong = _zfs.property_differences(name, _properties(options, mount), facts)
    mounts = [m for m in facts.mounts if m.target == mount]
    if len(mounts) != 1:
        return [*wrong, f"{mount} is mounted {len(mounts)} times, not once"]
    if (mounts[0].fstype, mounts[0].source) != ("zfs", name):
        wrong.append(f"{mount} is {mounts[0].source} ({mounts[0].fstype}), not {name}")
    return wrong
