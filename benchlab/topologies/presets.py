"""Topologies that are ready to use with one click, by role, so that they fit any host that has the disks.

The five studies that BenchLab starts from are all here. Sizes are "all that fits": disks differ more than set-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    group: str  # the heading it stands under
    name: str
    says: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def wants(self) -> dict[str, int]:
        """Role -> how many disks, those of the stages too."""
        counts: dict[str, int] = {}
        for entry in (*self.stack, *self.stages):
            for group in entry["devices"]:
                counts[group["role"]] = counts.get(group["role"], 0) + group["count"]
        return counts


def lacks(preset: Preset, spares: Mapping[str, int]) -> dict[str, int]:
    """Role -> how many spare disks are missing on a host that has `spares` of each role; {} when it fits."""
    short = {role: n - spares.get(role, 0) for role, n in preset.wants.items()}
    return {role: n for role, n in short.items() if n > 0}


def _layer(kind: str, options: dict[str, Any] | None = None, **devices: tuple[str, int]) -> Any:
    return {"kind": kind, "options": options or {}, "devices": _disks(devices)}


def _grow(number: int, during: bool = False, **devices: tuple[str, int]) -> dict[str, Any]:
    return {"layer": number, "options": {}, "devices": _disks(devices), "during": during}


def _disks(devices: Mapping[str, tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"use": use, "role": role, "count": n} for use, (role, n) in devices.items()]


def _fs(kind: str) -> Any:
    return _layer("filesystem", {"type": kind})


ONE = "One disk"
ARRAY = "Twelve disks and an SSD"
POOL = "ZFS"
CLOUD = "Cloud disks"
CACHED = "An SSD in front of a disk"
STRIPE = _layer("lvm", {"type": "striped", "stripe_size": 4096}, data=("hdd", 12))
TWELVE = _layer("zpool", {"ashift": 12}, data=("hdd", 12))


def _single() -> Iterable[Preset]:
    yield Preset(
        "directory", ONE, "Scratch directory",
        "A directory on the host's own file system: no disk is touched. Good for a first try.",
        [_layer("directory")],
    )  # fmt: skip
    for role, what in (("ssd", "SSD"), ("hdd", "hard disk")):
        yield Preset(
            f"raw-{role}", ONE, f"Raw {what}",
            f"A whole spare {what} without a file system: what the device itself can do.",
            [_layer("raw", data=(role, 1))],
        )  # fmt: skip
    for kind in ("xfs", "ext4", "btrfs"):
        yield Preset(
            kind, ONE, f"{kind} on one SSD", f"A whole spare SSD with {kind}.",
            [_layer("raw", data=("ssd", 1)), _fs(kind)],
        )  # fmt: skip


def _array() -> Iterable[Preset]:
    yield Preset(
        "stripe-12", ARRAY, "LVM stripe of 12, xfs",
        "A logical volume striped over twelve disks in 4 KiB pieces. Small fsyncs meet few of them.",
        [STRIPE, _fs("xfs")],
    )  # fmt: skip
    for mode in ("writeback", "writethrough"):
        yield Preset(
            f"lvm-cache-{mode}", ARRAY, f"LVM cache ({mode}) over a stripe of 12, xfs",
            f"The same stripe behind a dm-cache pool on one SSD, in {mode} mode.",
            [STRIPE, _layer("lvm_cache", {"mode": mode}, cache=("ssd", 1)), _fs("xfs")],
        )  # fmt: skip
    yield Preset(
        "flashcache", ARRAY, "flashcache over a stripe of 12, xfs",
        "The same stripe behind flashcache on one SSD; needs a kernel of its time with that module.",
        [STRIPE, _layer("flashcache", {"mode": "back"}, cache=("ssd", 1)), _fs("xfs")],
    )  # fmt: skip
    yield Preset(
        "bcache-stripe-12", ARRAY, "bcache over a stripe of 12, xfs",
        "The same stripe behind bcache on one SSD.",
        [STRIPE, _layer("bcache", {"cache_mode": "writeback"}, cache=("ssd", 1)), _fs("xfs")],
    )  # fmt: skip


def _pool() -> Iterable[Preset]:
    zfs = _layer("zfs", {"atime": False})
    yield Preset(
        "zpool-12", POOL, "zpool of 12",
        "A pool striped over twelve disks, ashift 12, atime off. Writes meet all disks evenly.",
        [TWELVE, zfs],
    )  # fmt: skip
    yield Preset(
        "zpool-12-slog", POOL, "zpool of 12 with SLOG",
        "The same with its intent log on a partition of an SSD.",
        [_layer("partition", {"use": "log"}, data=("ssd", 1)), TWELVE, zfs],
    )  # fmt: skip
    yield Preset(
        "zpool-12-sync-disabled", POOL, "zpool of 12, sync=disabled",
        "The same pool when it only says that data is safe: what honest fsyncs cost, as a difference.",
        [TWELVE, _layer("zfs", {"atime": False, "sync": "disabled"})],
    )  # fmt: skip
    one = _layer("zpool", {}, data=("hdd", 1))
    yield Preset(
        "zpool-1", POOL, "zpool of one disk", "The plain pool, to compare a zvol with.", [one, zfs]
    )
    zvol = [one, _layer("zvol", {"volblocksize": 8192}), _fs("ext4")]
    yield Preset(
        "zvol-ext4", POOL, "ext4 on a zvol", "A zvol with 8 KiB blocks on a pool of one disk.", zvol
    )
    for name in ("mq-deadline", "none", "bfq"):
        yield Preset(
            f"zvol-ext4-{name}", POOL, f"ext4 on a zvol, scheduler {name}",
            f"The same with the disk's I/O scheduler {name} (before Linux 5.0: deadline, noop, cfq).",
            [*zvol, _layer("tuning", {"scheduler": name})],
        )  # fmt: skip


HOST_CACHE = {"none": "None", "read": "Read-only", "read-write": "Read/write"}


def _cloud() -> Iterable[Preset]:
    for role in ("hdd", "ssd"):
        for slug, words in HOST_CACHE.items():
            person = {
                "instructions": f"In the cloud's console set the host cache of the disk with role {role} to "
                f"“{words}”, reboot the machine, then confirm.",
                "undo_instructions": "Set the host cache of that disk back to what it was.",
            }
            yield Preset(
                f"cloud-{role}-{slug}", CLOUD, f"Cloud {role.upper()}, host cache {words.lower()}",
                "A cloud disk with the host's cache set by a person; the campaign waits for it.",
                [_layer("manual", person), _layer("raw", data=(role, 1)), _fs("ext4")],
            )  # fmt: skip
    yield Preset(
        "stripe-2-to-4", CLOUD, "LVM stripe of 2, extended to 3 and 4",
        "Does extending a striped volume make it faster? What is written stays on the first two disks.",
        [_layer("lvm", {"type": "striped"}, data=("ssd", 2)), _fs("ext4")],
        [_grow(1, data=("ssd", 1)), _grow(1, data=("ssd", 1))],
    )  # fmt: skip
    yield Preset(
        "raid0-2", CLOUD, "md RAID 0 of 2", "Two disks as one array without redundancy.",
        [_layer("md", {"level": 0}, data=("ssd", 2)), _fs("ext4")],
    )  # fmt: skip
    yield Preset(
        "raid5-3-to-4", CLOUD, "md RAID 5 of 3, grown to 4",
        "Measured as built, while it is reshaped to four disks, and after.",
        [_layer("md", {"level": 5}, data=("ssd", 3)), _fs("ext4")],
        [_grow(1, during=True, data=("ssd", 1))],
    )  # fmt: skip


def _cached() -> Iterable[Preset]:
    yield Preset(
        "bcache", CACHED, "bcache, writeback", "One disk behind one SSD by bcache, no file system.",
        [_layer("bcache", {"cache_mode": "writeback"}, backing=("hdd", 1), cache=("ssd", 1))],
    )  # fmt: skip


ALL = (*_single(), *_array(), *_pool(), *_cloud(), *_cached())
PRESETS = {preset.slug: preset for preset in ALL}


def grouped() -> list[tuple[str, list[Preset]]]:
    """In the order of the page: (heading, presets)."""
    return [(name, list(found)) for name, found in groupby(ALL, key=lambda one: one.group)]
