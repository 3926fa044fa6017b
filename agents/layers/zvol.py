# SPDX-License-Identifier: Apache-2.0
"""A volume of the zpool below: /dev/zvol/<layout>/vol. Sources: zfs-create(8), zfsprops(7), article 003."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Claim, Need, OptionsError, Plan, PlanError, Step, Target, Use
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.layers import _zfs
from agents.layers._zfs import MIB, Shape, largest, reservation
from agents.options import option
from agents.steps import scripts
from agents.steps.common import piece_there, settle

LABEL = "ZFS volume"
NEEDS = (_zfs.ZFS,)
USES: dict[str, Use] = {}
REQUIRES = "pool"
PROVIDES = "volume"


@dataclass(frozen=True, slots=True)
class Options:
    size: int = option(0, "Size; 0: four fifths of the pool", unit="B", minimum=0)
    volblocksize: int = option(
        8192, "Block size: a power of two", unit="B", minimum=512, grain=True
    )
    sparse: bool = option(False, "Thin provisioned: reserve nothing; the pool may run full")
    compression: str = _zfs.compression()
    sync: str = _zfs.sync()
    logbias: str = _zfs.logbias()
    primarycache: str = _zfs.cached("memory (the ARC)")
    secondarycache: str = _zfs.cached("the cache device (L2ARC)")
    volmode: str = option(
        "default", "dev: partitions on it stay hidden", choices=("default", "full", "dev")
    )

    def __post_init__(self) -> None:
        if not _zfs.is_power_of_two(self.volblocksize, 512, 128 << 10):
            raise OptionsError("volblocksize: must be a power of two from 512 B to 128 KiB")
        if self.size % max(self.volblocksize, MIB):
            raise OptionsError("size: must be a multiple of 1 MiB")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the volume. Raises PlanError if the pool is too small."""
    pool, claims = _zfs.pool_of(target)
    size = _volume_size(options, target)
    name, node = f"{pool}/vol", _node(target)
    sparse = ("-s",) if options.sparse else ()
    steps = (
        Step(
            (
                "zfs",
                "create",
                *sparse,
                "-V",
                str(size),
                *_zfs.property_arguments("-o", _properties(options)),
                name,
            ),
            f"Make the volume {name} of {size // MIB} MiB",
            destroys=claims,
            undo=tuple(_down(name, claims, facts)),
        ),
        settle(),
        Step(
            ("sh", "-c", scripts.ZVOL_WAIT, "wait", node),
            f"Wait for {node}",
            destroys=claims,
            timeout_s=60,
        ),
    )
    gives = replace(target, volume=node, size=size, stripe_unit=0, stripe_count=0, parity=0)
    notes = _zfs.cache_notes(target, name, options.primarycache)
    return Plan(_zfs.settled(steps, facts), replace(gives, notes=notes))


def _node(target: Target) -> str:
    return f"/dev/zvol/{target.pool}/vol"


def _shape(target: Target) -> Shape:
    return Shape(target.stripe_count + target.parity, target.parity, target.stripe_unit or 4096)


def _volume_size(options: Options, target: Target) -> int:
    shape = _shape(target)
    space = target.size if options.size else target.size // 5 * 4
    most = largest(space, options.volblocksize, shape)
    if not options.size and most:
        return most
    takes = reservation(options.size, options.volblocksize, shape)
    if not most or (takes > target.size and not options.sparse):
        raise PlanError(
            f"a volume of {options.size // MIB} MiB in blocks of {options.volblocksize} B takes"
            f" {takes // MIB} MiB of the pool, which has {target.size // MIB} MiB:"
            f" {most // MIB} MiB is the most that fits; or make it sparse"
        )
    return int(options.size)


def _properties(options: Options) -> dict[str, str]:
    properties = {
        "volblocksize": str(options.volblocksize),
        "compression": options.compression,
        "sync": options.sync,
        "logbias": options.logbias,
        "primarycache": options.primarycache,
        "secondarycache": options.secondarycache,
    }
    return properties | ({} if options.volmode == "default" else {"volmode": options.volmode})


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    pool, claims = _zfs.pool_of(target)
    return _down(f"{pool}/vol", claims, facts) if _zfs.dataset(f"{pool}/vol", facts) else []


def _down(name: str, claims: tuple[Claim, ...], facts: HostFacts) -> list[Step]:
    """udev first: while it looks at the volume, that is busy."""
    return list(_zfs.settled((settle(), _zfs.destroying(name, claims)), facts))


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """The volume with every property, and its node with that size, on these disks."""
    pool, claims = _zfs.pool_of(target)
    name, size = f"{pool}/vol", _volume_size(options, target)
    expected = {"volsize": str(size), **_properties(options)}
    wrong = _zfs.property_differences(name, expected, facts)
    existing = _zfs.dataset(name, facts)
    reserved = existing.properties.get("refreservation", "") if existing else ""
    if existing and options.sparse != (reserved in ("none", "0")):
        wrong.append(f"{name}: refreservation is {reserved}")
    return wrong + _node_differences(_node(target), size, claims, facts)


def _node_differences(
    node: str, size: int, claims: tuple[Claim, ...], facts: HostFacts
) -> list[str]:
    device = Graph(facts).find_device(node)
    if device is None:
        return [f"there is no {node}"]
    if piece_there(node, claims, facts) is None:
        return [f"{node} is not only on the disks of this layout"]
    return [] if device.size == size else [f"{node} has {device.size} B, not {size}"]
