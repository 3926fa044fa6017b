# SPDX-License-Identifier: Apache-2.0
"""Ready-made topologies by role (presets.json), and those sized to one host's spare disks, with what they lack. Pure.

The studies that BenchLab starts from are all among the presets, of as many disks as they had; those that stretch take a
host's number instead. Sizes are "all that fits": disks differ more than set-ups. The sized ones are their shapes: a
stripe, an SSD before it, a zpool with and without SLOG, md RAID.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchlab.topologies.models import MAX_DEVICES, required_disks

# roles that can stand before slower disks, the fastest first
FAST_ROLES = ("nvme", "ssd")
STRIPE = 64 << 10
XFS = {"kind": "filesystem", "options": {"type": "xfs"}, "devices": []}
ZFS = {"kind": "zfs", "options": {"atime": False}, "devices": []}
# so many are chosen at first
CHOSEN_AT_FIRST = 2


@dataclass(frozen=True, slots=True)
class HostShape:
    """`lacks`: why this host cannot have it, with the remedy; "" where its disks suffice."""

    slug: str
    name: str
    says: str
    stack: list[dict[str, Any]] = field(default_factory=list)
    lacks: str = ""

    @property
    def wants(self) -> dict[str, int]:
        """Number of disks by role."""
        return required_disks(self.stack)


@dataclass(frozen=True, slots=True)
class SpareRoles:
    """`main`: the disks there are most of. `base` are put behind one of `cache`; both "" where there is no pair."""

    main: str
    base: str
    cache: str


def spare_roles(spares: Mapping[str, int]) -> SpareRoles:
    """Roles to use on a host with these numbers of spare disks by role; there is at least one disk in all."""
    counts = {role: n for role, n in spares.items() if n > 0}
    main = max(counts, key=lambda role: (counts[role], role not in FAST_ROLES, role))
    slow = sorted(
        (r for r in counts if r not in FAST_ROLES), key=lambda role: (-counts[role], role)
    )
    cache = next((role for role in FAST_ROLES if role in counts), "")
    if not slow and cache == FAST_ROLES[0] and FAST_ROLES[1] in counts:
        # an NVMe disk before SATA SSDs
        slow = [FAST_ROLES[1]]
    return SpareRoles(main, slow[0], cache) if slow and cache else SpareRoles(main, "", "")


def host_shapes(
    spares: Mapping[str, int], like: Mapping[str, int] | None = None
) -> list[HostShape]:
    """All shapes, those that fit first; [] where no disk is spare.

    `like`: the disks that several hosts have in common; they decide which role is which.
    """
    if not any(n > 0 for n in spares.values()):
        return []
    shapes = list(_all_shapes(spares, spare_roles(like or spares)))
    return sorted(shapes, key=lambda shape: bool(shape.lacks))


def _all_shapes(spares: Mapping[str, int], chosen: SpareRoles) -> Iterator[HostShape]:
    main, n = chosen.main, spares[chosen.main]
    yield _stripe(main, n)
    yield from _cached(chosen, spares)
    yield _zpool(main, n)
    yield from _slog(chosen, spares)
    for role in sorted({main, chosen.cache} - {""}, key=lambda role: role == main):
        if role != main or n > 1:
            yield _single_disk(role)
    yield _mirrors(main, n)
    yield _raid5(main, n)
    yield _raidz2(main, n)
    if chosen.cache and chosen.cache != main:
        yield _mirrors(chosen.cache, spares[chosen.cache])


def _layer(kind: str, options: Mapping[str, Any], use: str, role: str, n: int) -> dict[str, Any]:
    devices = [{"use": use, "role": role, "count": n}]
    return {"kind": kind, "options": dict(options), "devices": devices}


def _volume(role: str, n: int) -> dict[str, Any]:
    """LVM over all disks of a role."""
    kind = {"type": "striped", "stripe_size": STRIPE} if n > 1 else {"type": "linear"}
    return _layer("lvm", kind, "data", role, n)


def _stripe(role: str, n: int) -> HostShape:
    if n == 1:
        return _single_disk(role)
    text = f"all {n} disks, 64 KiB pieces; no disk may fail"
    return HostShape("stripe", f"Stripe of {n} {role}, xfs", text, [_volume(role, n), XFS])


def _single_disk(role: str) -> HostShape:
    stack = [_layer("raw", {}, "data", role, 1), XFS]
    return HostShape(f"alone-{role}", f"One {role}, xfs", "what one disk can do", stack)


def _disks_text(role: str, n: int) -> str:
    return f"a stripe of {n} {role}" if n > 1 else f"one {role}"


def _cached(chosen: SpareRoles, spares: Mapping[str, int]) -> Iterator[HostShape]:
    """The SSD before the stripe, by LVM and by bcache."""
    base, cache = chosen.base, chosen.cache
    if not base:
        lacks = "Needs slower disks and a spare SSD (role ssd or nvme) to put in front of them."
        yield HostShape("lvm-cache", "LVM cache in front of a stripe", "", lacks=lacks)
        return
    n = spares[base]
    over, below = _disks_text(base, n), _volume(base, n)
    lvm = _layer("lvm_cache", {"mode": "writeback"}, "cache", cache, 1)
    text = "writeback: writes wait on the SSD"
    yield HostShape(
        "lvm-cache", f"LVM cache on {cache} before {over}, xfs", text, [below, lvm, XFS]
    )
    bcache = _layer("bcache", {"cache_mode": "writeback"}, "cache", cache, 1)
    yield HostShape("bcache", f"bcache on {cache} before {over}, xfs", text, [below, bcache, XFS])


def _pool(role: str, n: int, **options: Any) -> dict[str, Any]:
    return _layer("zpool", {"ashift": 12, **options}, "data", role, n)


def _zpool(role: str, n: int) -> HostShape:
    text = "striped, ashift 12; no disk may fail" if n > 1 else "ashift 12"
    return HostShape("zpool", f"zpool of {n} {role}", text, [_pool(role, n), ZFS])


def _slog(chosen: SpareRoles, spares: Mapping[str, int]) -> Iterator[HostShape]:
    if not chosen.base:
        return
    n, pool = spares[chosen.base], _pool(chosen.base, spares[chosen.base])
    pool["devices"].append({"use": "log", "role": chosen.cache, "count": 1})
    text = "the same with its intent log on the SSD"
    yield HostShape(
        "zpool-slog", f"zpool of {n} {chosen.base}, SLOG on {chosen.cache}", text, [pool, ZFS]
    )


def _mirrors(role: str, n: int) -> HostShape:
    """RAID 10 of as many as make pairs, a mirror of two, or what is missing."""
    even = n - n % 2
    if even < 2:
        lacks = f"Needs 2 spare {role}; this host has {n}. Mark one more spare."
        return HostShape(f"mirror-{role}", f"Mirror of 2 {role}", "", lacks=lacks)
    level, name = (10, f"md RAID 10 of {even} {role}") if even > 2 else (1, f"Mirror of 2 {role}")
    stack = [_layer("md", {"level": level}, "data", role, even), XFS]
    text = "1 disk may fail; runs wait for the initial resync"
    return HostShape(f"mirror-{role}", f"{name}, xfs", text, stack)


def _raid5(role: str, n: int) -> HostShape:
    if n < 3:
        return HostShape("raid5", f"md RAID 5 of 3 {role}", "", lacks=_missing_text(role, n, 3))
    stack = [_layer("md", {"level": 5}, "data", role, n), XFS]
    text = "1 disk may fail; small writes read first"
    return HostShape("raid5", f"md RAID 5 of {n} {role}, xfs", text, stack)


def _raidz2(role: str, n: int) -> HostShape:
    if n < 4:
        return HostShape("raidz2", f"RAID-Z2 of 4 {role}", "", lacks=_missing_text(role, n, 4))
    stack = [_pool(role, n, layout="raidz2"), ZFS]
    return HostShape("raidz2", f"RAID-Z2 of {n} {role}", "2 disks may fail", stack)


def _missing_text(role: str, n: int, least: int) -> str:
    missing = least - n
    return f"Needs {least} spare {role}; this host has {n}. Mark {missing} more spare."


# disks of a stripe
MIN_STRIPE = 2


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    # the heading it stands under
    group: str
    name: str
    says: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]] = field(default_factory=list)
    # its many disks may be as many as there are
    stretches: bool = False

    @property
    def wants(self) -> dict[str, int]:
        """Number of disks by role, including those of the stages."""
        return required_disks((*self.stack, *self.stages))

    @property
    def disk_count(self) -> int:
        """Number of disks in the group that stretches; 0 if none does."""
        many = _stretched_group(self)
        return many["count"] if many else 0


def fit_to_spares(preset: Preset, spares: Mapping[str, int]) -> Preset:
    """Fit the preset to a host's spare disks (role -> number), if it stretches and there are at least two."""
    many = _stretched_group(preset)
    if many is None:
        return preset
    beside = preset.wants[many["role"]] - many["count"]
    return with_disk_count(preset, spares.get(many["role"], 0) - beside)


def with_disk_count(preset: Preset, count: int) -> Preset:
    """Change the number of disks in the group that stretches; unchanged if none stretches, or not so far."""
    many = _stretched_group(preset)
    if many is None or not MIN_STRIPE <= count <= MAX_DEVICES or count == many["count"]:
        return preset
    stack = [
        {
            **layer,
            "devices": [
                {**group, "count": count} if group is many else group for group in layer["devices"]
            ],
        }
        for layer in preset.stack
    ]
    name = preset.name.replace(f"of {many['count']}", f"of {count}")
    text = preset.says.replace("twelve disks", f"{count} disks")
    return replace(preset, name=name, says=text, stack=stack)


def _stretched_group(preset: Preset) -> dict[str, Any] | None:
    """Entry of the group of disks that stretches; None if none does."""
    groups = (
        group
        for layer in preset.stack
        for group in layer["devices"]
        if group["count"] >= MIN_STRIPE
    )
    return next(groups) if preset.stretches else None


PRESETS_FILE = Path(__file__).with_name("presets.json")
ALL_PRESETS = tuple(Preset(**fields) for fields in json.loads(PRESETS_FILE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL_PRESETS}


def presets_by_group() -> list[tuple[str, list[Preset]]]:
    """Pairs of (heading, presets), in the order of the page."""
    return [
        (name, list(presets))
        for name, presets in groupby(ALL_PRESETS, key=lambda preset: preset.group)
    ]
