"""Topologies beside the presets: stacks that a person might well ask for, though few have. Roles as in the presets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.drivers import registry
from agents.plans.chain import LayerSpec, StageSpec, specs, stage_specs
from benchlab.topologies import services
from benchlab.topologies.host_shapes import PRESETS
from tests.agents import stacks_of_layers

Disks = tuple[str, int]


def layer(kind: str, options: dict[str, Any] | None = None, **devices: Disks) -> dict[str, Any]:
    groups = [{"use": use, "role": role, "count": n} for use, (role, n) in devices.items()]
    return {"kind": kind, "options": options or {}, "devices": groups}


def fs(kind: str, **options: Any) -> dict[str, Any]:
    return layer("filesystem", {"type": kind, **options})


MIB = 1 << 20
SCHEDULER = layer(
    "tuning", {"scheduler": "none", "read_ahead_kb": 64, "sysctls": ["vm.dirty_ratio=5"]}
)
UNUSUAL: dict[str, list[dict[str, Any]]] = {
    "LVM on md RAID 1": [layer("md", {"level": 1}, data=("hdd", 2)), layer("lvm"), fs("ext4")],
    "bcache on RAID 5": [
        layer("md", {"level": 5}, data=("hdd", 3)), layer("bcache", {}, cache=("ssd", 1)), fs("xfs")],
    "an LVM cache over a mirror": [
        layer("lvm", {"type": "mirror"}, data=("hdd", 2)), layer("lvm_cache", {}, cache=("ssd", 1)), fs("ext4")],
    "a writecache over a stripe, btrfs": [
        layer("lvm", {"type": "striped"}, data=("hdd", 4)),
        layer("lvm_cache", {"kind": "writecache"}, cache=("ssd", 1)), fs("btrfs")],
    "a cachevol on a partition": [
        layer("partition", {"use": "cache", "size": 96 * MIB}, data=("ssd", 1)),
        layer("lvm", {"type": "linear"}, data=("hdd", 1)), layer("lvm_cache", {"kind": "cachevol"})],
    "RAID 10 on partitions, tuned": [
        layer("partition", {}, data=("hdd", 4)), layer("md", {"level": 10}), fs("xfs"), SCHEDULER],
    "RAID 6 under LVM under xfs": [
        layer("md", {"level": 6}, data=("hdd", 4)), layer("lvm", {"type": "linear"}), fs("xfs")],
    "a stripe of two bcaches": [
        layer("bcache", {"cache_mode": "writearound"}, backing=("hdd", 2), cache=("ssd", 1)), layer("lvm"), fs("ext4")],
    "one partition, ext4": [layer("partition", {"size": 128 * MIB}, data=("ssd", 1)), fs("ext4")],
    "RAID 0 on a stripe of LVM's neighbours": [
        layer("md", {"level": 0, "chunk": 16384}, data=("hdd", 3)), layer("lvm"), fs("btrfs"), SCHEDULER],
    "ext4 on plain dm-crypt on a mirror": [
        layer("md", {"level": 1}, data=("hdd", 2)), layer("dm_crypt", {"type": "plain"}), fs("ext4")],
    "a raw disk, tuned": [layer("raw", {}, data=("ssd", 1)), SCHEDULER],
}  # fmt: skip
UNUSUAL_ZFS: dict[str, list[dict[str, Any]]] = {
    "xfs on a zvol over raidz1 with special and cache": [
        layer("zpool", {"layout": "raidz1"}, data=("hdd", 3), special=("ssd", 1), cache=("ssd", 1)),
        layer("zvol", {"volblocksize": 16384}), fs("xfs")],
    "a pool of mirrors with SLOG": [
        layer("zpool", {"layout": "mirror"}, data=("hdd", 4), log=("ssd", 1)),
        layer("zfs", {"recordsize": 8192, "compression": "lz4", "logbias": "throughput", "primarycache": "metadata"})],
    "a pool on partitions, raidz2": [
        layer("partition", {}, data=("hdd", 4)), layer("zpool", {"layout": "raidz2"}),
        layer("zfs", {"sync": "always"})],
}  # fmt: skip

ZFS_KINDS = {"zpool", "zfs", "zvol"}
# zpool-12-slog has twelve disks: OpenZFS takes a second for each, or three.
NARROW = {"zpool-12", "zpool-12-sync-disabled"}
IMPOSSIBLE = {"directory", "flashcache"}  # no disk; no kernel has it any more


def uses_zfs(stack: list[dict[str, Any]]) -> bool:
    return any(entry["kind"] in ZFS_KINDS for entry in stack)


def _quick(entry: dict[str, Any]) -> dict[str, Any]:
    """User Mode Linux discards 32 KiB at a time: a wide xfs would take minutes."""
    if entry["kind"] != "filesystem":
        return entry
    return {**entry, "options": {**entry["options"], "nodiscard": True}}


def _narrow(entry: dict[str, Any]) -> dict[str, Any]:
    devices = [{**group, "count": min(group["count"], 4)} for group in entry["devices"]]
    return {**entry, "devices": devices}


def every(zfs: bool) -> dict[str, tuple[list[LayerSpec], list[StageSpec]]]:
    """Name -> layers and stages of every preset and unusual stack that a host with (or without) ZFS can build."""
    presets = {
        f"preset {slug}": (
            [_narrow(entry) for entry in p.stack] if slug in NARROW else p.stack,
            p.stages,
        )
        for slug, p in PRESETS.items()
        if slug not in IMPOSSIBLE
    }
    unusual: dict[str, Any] = {
        name: (stack, []) for name, stack in {**UNUSUAL, **UNUSUAL_ZFS}.items()
    }
    found = {}
    for name, (stack, stages) in {**presets, **unusual}.items():
        if uses_zfs(stack) == zfs:
            full = services.checked_stack([_quick(entry) for entry in stack])
            found[name] = (specs(full), stage_specs(services.checked_stages(full, stages)))
    used = {entry["kind"] for p in PRESETS.values() for entry in p.stack}
    used |= {
        entry["kind"] for stack in (*UNUSUAL.values(), *UNUSUAL_ZFS.values()) for entry in stack
    }
    return found | {name: one for name, one in _of_the_others(used).items() if _is_zfs(one) == zfs}


def _of_the_others(used: set[str]) -> dict[str, tuple[list[LayerSpec], list[StageSpec]]]:
    """A stack of each layer that is in none of those, by its own cases: a new one needs no place here."""
    kinds = [k for k in registry.all_layers() if k not in used and stacks_of_layers.takes_disks(k)]
    return {f"{kind} alone": (list(next(stacks_of_layers.of(kind))), []) for kind in kinds}


def _is_zfs(one: tuple[list[LayerSpec], list[StageSpec]]) -> bool:
    return any(layer.kind in ZFS_KINDS for layer in one[0])


def proves(layers: Iterable[LayerSpec]) -> set[tuple[str, str]]:
    """Each kind of layer, and each sort of it: a mirror is another thing than a stripe."""
    sorts = [
        (one.kind, str(one.options[name]))
        for one in layers
        for name in ("type", "level", "kind", "layout")
        if name in one.options
    ]
    return {*sorts, *((one.kind, "") for one in layers)}
