# SPDX-License-Identifier: Apache-2.0
"""bcache: a fast disk caches one or more slow ones. Sources: the kernel's admin-guide/bcache, make-bcache(8),
article 004; tried with bcache-tools 1.0.8 on Linux 6.1.

A registered device is recognised as ours by the UUID of its cache set, which make-bcache writes into every superblock:
labels come later, through sysfs, when the kernel has made the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.contracts import (
    Claim,
    Need,
    OptionsError,
    Part,
    Plan,
    PlanError,
    Step,
    Target,
    Use,
    claims_of,
)
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.facts.volumes import parse_sysfs_size
from agents.options import option
from agents.steps import scripts
from agents.steps.common import erase_all, member_nodes, settle, still_there, without_uses
from agents.uuids import uuid_of

LABEL = "bcache"
PACKAGES = {"debian": "bcache-tools", "suse": "bcache-tools"}
NEEDS = (Need("make-bcache", PACKAGES, ("make-bcache", "--help")),)
USES = {
    "backing": Use("slow disks that are cached", most=64),
    "cache": Use("the fast disk", most=1),
}
PROVIDES = "volume"
REQUIRES = "devices"
KIB = 1 << 10
# make-bcache's own, 16 sectors
DATA_OFFSET = 8 * KIB
MODES = ("writethrough", "writeback", "writearound", "none")


def _power_of_two(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most or value & (value - 1):
        raise OptionsError(f"{name}: {value} B is not a power of two from {least} to {most} B")


@dataclass(frozen=True, slots=True)
class Options:
    cache_mode: str = option("writeback", "Cache mode", choices=MODES)
    sequential_cutoff: int = option(
        4 << 20,
        "Longer sequential streams bypass the cache; 0 caches everything",
        unit="B",
        minimum=0,
    )
    writeback_percent: int = option(
        10, "Dirty share of the cache that writeback aims at, 0 to 40", minimum=0
    )
    bucket_size: int = option(
        512 * KIB, "Bucket size, ideally the erase block size of the flash", unit="B"
    )
    block_size: int = option(4 * KIB, "Block size, at least the disks' sector size", unit="B")
    discard: bool = option(False, "Discard buckets of the cache before they are reused")

    def __post_init__(self) -> None:
        _power_of_two("bucket_size", self.bucket_size, 4 * KIB, 16 << 20)
        _power_of_two("block_size", self.block_size, 512, 4 * KIB)
        if self.writeback_percent > 40:
            raise OptionsError(
                f"writeback_percent: {self.writeback_percent} is above 40, the kernel's maximum"
            )


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError for no disks or a cache with too few buckets."""
    backing, cache = _backing_and_cache(options, target)
    claims, nodes = claims_of(target), [*backing, cache]
    offset = _offset(target)
    undo = (_release_step(target, nodes, claims), *erase_all(target, nodes, facts))
    steps = [
        *erase_all(target, nodes, facts),
        Step(
            (
                *("make-bcache", "--cset-uuid", uuid_of(target.name, "bcache")),
                *("--bucket", f"{options.bucket_size // KIB}k", "--block", str(options.block_size)),
                *(("--data-offset", str(offset // 512)) if offset != DATA_OFFSET else ()),
                *(("--discard",) if options.discard else ()),
                *(("--writeback",) if options.cache_mode == "writeback" else ()),
                *("-B", *(node.node for node in backing), "-C", cache.node),
            ),
            f"Make {cache.node} the cache of {', '.join(node.node for node in backing)}",
            destroys=claims,
            undo=undo,
        ),
        Step(
            (
                "sh",
                "-c",
                scripts.BCACHE_REGISTER,
                "register",
                cache.node,
                *(node.node for node in backing),
            ),
            "Register them with the kernel, where udev has not",
            destroys=claims,
        ),
    ]
    for node, label in zip(backing, _backing_labels(target, backing), strict=True):
        words = (options.cache_mode, str(options.sequential_cutoff), str(options.writeback_percent))
        steps.append(
            Step(
                ("sh", "-c", scripts.BCACHE_SET, "set", node.node, label, *words),
                f"Label {node.node} {label}, {options.cache_mode}",
                destroys=claims,
            )
        )
    return Plan((*steps, settle()), _gives(target, backing, offset))


def _backing_and_cache(options: Options, target: Target) -> tuple[tuple[Part, ...], Part]:
    backing, cache = member_nodes(target, "backing", main=True), member_nodes(target, "cache")
    if not backing:
        raise PlanError("backing: there is no disk and no volume below to cache")
    if len(cache) != 1:
        raise PlanError(f"cache: needs exactly one disk, got {len(cache)}")
    if not claims_of(target):
        raise PlanError("the disks under the cache are unknown")
    buckets = cache[0].size // options.bucket_size
    if buckets <= 512:
        raise PlanError(
            f"{cache[0].node} has {buckets} buckets of {options.bucket_size} B, but the kernel needs more than"
            f" 512: use smaller buckets, {cache[0].size // 1024} B at most"
        )
    return backing, cache[0]


def _backing_labels(target: Target, backing: Sequence[Part]) -> list[str]:
    if len(backing) == 1:
        return [target.name]
    return [f"{target.name}-{number}" for number in range(1, len(backing) + 1)]


def _offset(target: Target) -> int:
    """Start of the data (bytes): on a striped volume at a full stripe, or every write above would straddle two."""
    stripe = target.stripe_unit * target.stripe_count
    return max(stripe, DATA_OFFSET) if target.stripe_count > 1 else DATA_OFFSET


def _gives(target: Target, backing: Sequence[Part], offset: int) -> Target:
    """The result: one backing disk is the volume; several are pieces for a layer above to join."""
    parts = tuple(
        Part(f"/dev/bcache/by-label/{label}", node.size // 512 * 512 - offset)
        for node, label in zip(backing, _backing_labels(target, backing), strict=True)
    )
    gives = without_uses(target, "backing", "cache")
    notes = (*target.notes, f"bcache data begins {offset} B into the backing disk")
    if len(parts) > 1:
        return replace(gives, parts={**gives.parts, "data": parts}, notes=notes)
    on_volume = backing[0].node == target.volume
    return replace(
        gives,
        volume=parts[0].node,
        size=parts[0].size,
        stripe_unit=target.stripe_unit if on_volume else 0,
        stripe_count=target.stripe_count if on_volume else 0,
        notes=notes,
    )


def _release_step(target: Target, nodes: Sequence[Part], claims: tuple[Claim, ...]) -> Step:
    own = (f"/sys/fs/bcache/{uuid_of(target.name, 'bcache')}", target.name)
    argv = ("sh", "-c", scripts.BCACHE_RELEASE, "release", *own, *(node.node for node in nodes))
    return Step(argv, "Stop bcache on them, and wait until it has released them", destroys=claims)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Whatever half of it is registered is stopped, dirty or not; then all superblocks go."""
    nodes = [*member_nodes(target, "backing", main=True), *member_nodes(target, "cache")]
    present_nodes = still_there(target, nodes, facts)
    if present_nodes:
        return [
            _release_step(target, present_nodes, claims_of(target)),
            *erase_all(target, present_nodes, facts),
        ]
    graph = Graph(facts)
    # Its disks were all pulled out: what stood on them is stopped, which destroys nothing of them.
    if any(graph.is_ours(name, target.name) for name in graph.hollow):
        return [_release_step(target, (), ())]
    return []


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """A backing disk that runs without its cache, which the kernel detaches after errors; and errors of the cache."""
    backing, cache = _backing_and_cache(options, target)
    wrong = []
    for node in backing:
        values = health.values.get(health.kernel_name(node.node), {})
        if values.get("bcache/running") != "1" or values.get("bcache/state") not in (
            "clean",
            "dirty",
        ):
            wrong.append(_detached_fault(node, values.get("bcache/state")))
    errors = health.values.get(health.kernel_name(cache.node), {}).get("bcache/io_errors", "0")
    return wrong + ([f"{cache.node} had {errors} I/O errors"] if errors != "0" else [])


def _detached_fault(node: Part, state: str | None) -> str:
    return f"{node.node} does not run with its cache (state {state!r})"


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check every option against sysfs (which rounds sizes), and that the nodes lie on these disks."""
    backing, cache = _backing_and_cache(options, target)
    graph, wrong = Graph(facts), []
    for node, label in zip(backing, _backing_labels(target, backing), strict=True):
        wrong += _backing(options, node, label, graph)
        volume, below = (
            graph.find_device(f"/dev/bcache/by-label/{label}"),
            graph.find_device(node.node),
        )
        if volume is None or below is None or below.name not in graph.below[volume.name]:
            wrong.append(f"/dev/bcache/by-label/{label} is not on {node.node}")
        elif volume.size < node.size // 512 * 512 - _offset(target):
            wrong.append(f"{volume.path} has only {volume.size} bytes")
    uuid = uuid_of(target.name, "bcache")
    for node in [*backing, cache]:
        device = graph.find_device(node.node)
        device_values = facts.bcache.get(device.name) if device else None
        if device_values is None or not device_values.registered or device_values.set_uuid != uuid:
            wrong.append(f"{node.node} is not registered with the cache set {uuid}")
    return wrong + _cache(options, cache, graph)


def _backing(options: Options, node: Part, label: str, graph: Graph) -> list[str]:
    device = graph.find_device(node.node)
    device_values = graph.facts.bcache.get(device.name) if device else None
    if device_values is None:
        return [f"{node.node} is not a backing device"]
    values, wrong = device_values.values, []
    if device_values.label != label:
        wrong.append(f"{node.node} has the label {device_values.label!r}, not {label!r}")
    if values.get("running") != "1" or values.get("state") not in ("clean", "dirty"):
        wrong.append(_detached_fault(node, values.get("state")))
    if f"[{options.cache_mode}]" not in values.get("cache_mode", ""):
        wrong.append(f"{node.node}: cache_mode is {values.get('cache_mode')!r}")
    if values.get("writeback_percent") != str(options.writeback_percent):
        wrong.append(f"{node.node}: writeback_percent is {values.get('writeback_percent')!r}")
    return wrong + _size_differences(
        node, values.get("sequential_cutoff", ""), "sequential_cutoff", options
    )


def _cache(options: Options, cache: Part, graph: Graph) -> list[str]:
    device = graph.find_device(cache.node)
    device_values = graph.facts.bcache.get(device.name) if device else None
    if device_values is None:
        # Already reported.
        return []
    values = device_values.values
    wrong = [
        difference
        for key in ("bucket_size", "block_size")
        for difference in _size_differences(cache, values.get(key, ""), key, options)
    ]
    if options.discard and values.get("discard") != "1":
        wrong.append(f"{cache.node} does not discard")
    return wrong


def _size_differences(node: Part, printed_size: str, key: str, options: Options) -> list[str]:
    wished, (value, tolerance) = getattr(options, key), parse_sysfs_size(printed_size)
    if abs(value - wished) <= tolerance:
        return []
    return [f"{node.node}: {key} is {printed_size!r}, not {wished} B"]
