# SPDX-License-Identifier: Apache-2.0
"""Parts shared by the layers on OpenZFS: packages, a dataset's properties, and their checks. Sources:
zfsprops(7), zfs-create(8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from agents.contracts import Claim, Need, PlanError, Step, Target, claims_of
from agents.facts.model import Dataset, HostFacts, Zpool

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
    return field(default="off", metadata={"help": "Compression", "choices": choices})


def sync() -> str:
    help_text = "When a synchronous write is acknowledged; disabled: before it is on stable storage"
    choices = ("standard", "always", "disabled")
    return field(default="standard", metadata={"help": help_text, "choices": choices})


def logbias() -> str:
    help_text = "throughput bypasses the log device"
    return field(
        default="latency", metadata={"help": help_text, "choices": ("latency", "throughput")}
    )


def cached(what: str) -> str:
    choices = ("all", "metadata", "none")
    return field(default="all", metadata={"help": f"What {what} may cache", "choices": choices})


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
    """Raises PlanError when the tools are there and the kernel has no ZFS: nothing has been touched yet."""
    if facts.os_family == "freebsd" or facts.zfs_module or "zpool" not in facts.tools:
        # FreeBSD's own; or all of it is missing, which is said elsewhere
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
    """A busy one stays, and the step says so."""
    return Step(("zfs", "destroy", "-r", name), f"Destroy {name}", destroys=claims)


def property_differences(name: str, expected: Mapping[str, str], facts: HostFacts) -> list[str]:
    """Properties of a dataset that are not as they were asked for, or were not set on itself."""
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
