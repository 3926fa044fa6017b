# SPDX-License-Identifier: Apache-2.0
"""Parts shared by the layers on OpenZFS: packages, a dataset's properties and their checks, and the space of a pool.

Sizes are in bytes, by OpenZFS's own arithmetic. Sources: zfsprops(7), zfs-create(8), module/zfs/{vdev.c, vdev_raidz.c,
spa_misc.c} and lib/libzfs (zvol_volsize_to_reservation) of OpenZFS 2.1; tests/rig/layers/test_zfs.py holds the sizes
against what a kernel says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.contracts import Claim, Need, PlanError, Step, Target, claims_of
from agents.facts.model import Dataset, HostFacts, Zpool
from agents.options import option

PACKAGES = {
    "debian": "zfsutils-linux",
    "rhel": "zfs",
    "suse": "zfs",
    "arch": "zfs-utils",
    "alpine": "zfs",
}
MODULES = {
    "debian": "zfs-dkms and linux-headers-{kernel}",
    "rhel": "zfs and kernel-devel-{kernel}",
    "suse": "zfs-kmp-default",
    "arch": "zfs-dkms and linux-headers",
    "alpine": "zfs-lts",
}
ZPOOL = Need("zpool", PACKAGES, ("zpool", "version"))
ZFS = Need("zfs", PACKAGES, ("zfs", "version"))
# Properties whose source ZFS does not tell: set when the volume was made.
NO_SOURCE = ("volsize", "volblocksize")


def compression() -> str:
    choices = ("off", "on", "lz4", "zstd", "zle", "gzip", "lzjb")
    return option("off", "Compression", choices=choices)


def sync() -> str:
    help_text = "When a synchronous write is acknowledged; disabled: before it is on stable storage"
    choices = ("standard", "always", "disabled")
    return option("standard", help_text, choices=choices)


def logbias() -> str:
    help_text = "throughput bypasses the log device"
    return option("latency", help_text, choices=("latency", "throughput"))


def cached(what: str) -> str:
    choices = ("all", "metadata", "none")
    return option("all", f"What {what} may cache", choices=choices)


def is_power_of_two(number: int, least: int, most: int) -> bool:
    return least <= number <= most and number & (number - 1) == 0


def on_or_off(flag: bool) -> str:
    return "on" if flag else "off"


def property_arguments(flag: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments of a command: -o sync=disabled …"""
    return tuple(w for name, value in properties.items() for w in (flag, f"{name}={value}"))


def settled(steps: Iterable[Step], facts: HostFacts) -> tuple[Step, ...]:
    """The steps without those that wait for udev, where there is none."""
    return tuple(s for s in steps if facts.os_family != "freebsd" or s.argv[0] != "udevadm")


def check_module(facts: HostFacts) -> None:
    """Raise PlanError if the tools are installed but the kernel has no ZFS, before anything is touched."""
    if facts.os_family == "freebsd" or facts.zfs_module or "zpool" not in facts.tools:
        # FreeBSD has its own; or all of ZFS is missing, which is reported elsewhere.
        return
    packages = MODULES.get(facts.os_family, "OpenZFS's kernel module").format(kernel=facts.kernel)
    raise PlanError(
        f"the kernel {facts.kernel} has no module zfs: install {packages}, then run modprobe zfs"
    )


def pool_of(target: Target) -> tuple[str, tuple[Claim, ...]]:
    """The pool below and the disks that it lies on. Raises PlanError."""
    if not target.pool:
        raise PlanError("there is no zpool below: add a layer below that provides one")
    if not (claims := claims_of(target)):
        raise PlanError(f"the disks under {target.pool} are unknown")
    return target.pool, claims


def cache_notes(target: Target, name: str, primarycache: str) -> tuple[str, ...]:
    """Notes of the target, with one for every figure: memory's part in it."""
    return (*target.notes, f"the ARC caches {primarycache} of {name}, also across runs")


def imported(name: str, facts: HostFacts) -> Zpool | None:
    return next((pool for pool in facts.zpools if pool.name == name), None)


def dataset(name: str, facts: HostFacts) -> Dataset | None:
    return next((row for row in facts.datasets if row.name == name), None)


def destroying(name: str, claims: tuple[Claim, ...]) -> Step:
    """The step that destroys a dataset; a busy one stays, and the step reports that."""
    return Step(("zfs", "destroy", "-r", name), f"Destroy {name}", destroys=claims)


def property_differences(name: str, expected: Mapping[str, str], facts: HostFacts) -> list[str]:
    """Properties of a dataset that differ from the requested ones, or were not set on the dataset itself."""
    existing = dataset(name, facts)
    if existing is None:
        return [f"there is no dataset {name}"]
    wrong = []
    for key, value in expected.items():
        now = existing.properties.get(key, "unknown")
        if now != value:
            wrong.append(f"{name}: {key} is {now}, not {value}")
        elif key not in (*existing.local, *NO_SOURCE):
            wrong.append(f"{name}: {key} is {value} by default, the setting was not applied")
    return wrong


MIB = 1 << 20
# SPA_MINDEVSIZE
LEAST = 64 * MIB
LABEL = 256 << 10
# two labels and the space for a boot loader
FRONT = 2 * LABEL + (7 << 19)
BACK = 2 * LABEL
# what raidz's space is reckoned in
OLD_BLOCK = 128 << 10
# block pointers in an indirect block
POINTERS = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """Geometry by which a group of disks stores a block. A disk alone and a mirror: width 1, no parity."""

    width: int = 1
    parity: int = 0
    sector: int = 4096

    def allocated_bytes(self, block: int) -> int:
        """Bytes that a block takes, parity and padding included."""
        sectors = -(-block // self.sector)
        if self.parity:
            sectors += self.parity * -(-sectors // (self.width - self.parity))
            sectors = -(-sectors // (self.parity + 1)) * (self.parity + 1)
        return sectors * self.sector

    def deflated(self, space: int) -> int:
        """Bytes that a raidz's raw space is worth, reckoned in blocks of 128 KiB."""
        return space // 512 * (OLD_BLOCK // (self.allocated_bytes(OLD_BLOCK) // 512))


def partition(size: int) -> int:
    """Bytes of the first partition that OpenZFS on Linux makes of a disk: without the last 8 MiB and both tables."""
    return max((size - 34 * 4096 - 8 * MIB - MIB) // MIB * MIB, 0)


def group_bytes(sizes: Iterable[int], shape: Shape) -> int:
    """Raw space of one group of devices of these sizes: whole metaslabs, without one for its own intent log."""
    least = min(sizes) // LABEL * LABEL - FRONT - BACK
    space = least * shape.width
    metaslab = _metaslab(space)
    count = space // metaslab
    return (count - (count > 64)) * metaslab


def _metaslab(space: int) -> int:
    if space >> 29 < 16:
        shift = (space // 16).bit_length()
    elif space >> 29 > 200:
        shift = (space // 200).bit_length()
    else:
        shift = 29
    return int(1 << min(max(shift, 24), 34))


def usable(spaces: Iterable[int], shape: Shape) -> int:
    """Bytes that the pool's datasets may hold: less what ZFS keeps for itself, and a MiB for what it writes first."""
    whole = sum(shape.deflated(space) for space in spaces)
    slop = max(min(whole >> 5, 128 << 30), min(whole >> 1, 128 * MIB))
    return max(whole - slop - MIB, 0)


def reservation(size: int, block: int, shape: Shape) -> int:
    """Bytes that a volume, not sparse, takes from the pool: its data as raidz stores it, and its block pointers."""
    blocks = size // block
    data = blocks * block
    if shape.parity:
        data = blocks * shape.allocated_bytes(block) * OLD_BLOCK // shape.allocated_bytes(OLD_BLOCK)
    indirect = 7
    while blocks > 1:
        blocks = -(-blocks // POINTERS)
        indirect += blocks
    return data + 2 * indirect * OLD_BLOCK


def largest(space: int, block: int, shape: Shape) -> int:
    """The largest volume, in whole MiB, whose reservation fits into a space."""
    low, high = 0, space // MIB
    while low < high:
        middle = (low + high + 1) // 2
        if reservation(middle * MIB, block, shape) <= space:
            low = middle
        else:
            high = middle - 1
    return low * MIB
