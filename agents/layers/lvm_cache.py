# SPDX-License-Identifier: Apache-2.0
"""A cache for the logical volume below, on an SSD that joins its volume group: dm-cache or dm-writecache.

Sources: lvmcache(7), lvconvert(8), article 000. A cache must be in the group of its origin: across groups LVM says
"Unable to find cache pool LV". The spare metadata volume is left out, it could land on a slow disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.contracts import Need, OptionsError, Part, Plan, PlanError, Step, Target, Use
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.layers import _lvm
from agents.layers._lvm import NEED_DMSETUP, NEED_LVM, PVS
from agents.options import option
from agents.steps.common import erase_all, member_nodes, still_there

LABEL = "LVM cache"
NEEDS = (
    NEED_LVM,
    NEED_DMSETUP,
    # LVM runs it before it starts a cache, and says nothing when it is not there.
    Need(
        "cache_check",
        {"debian": "thin-provisioning-tools", "rhel": "device-mapper-persistent-data"},
        ("cache_check", "-V"),
    ),
)
USES = {"cache": Use("the SSD")}
# not "lv": a cached volume takes no second cache
PROVIDES = "volume"
REQUIRES = "lv"
MIB = 1 << 20
SECTOR = 512
# and writecache
CACHEVOL_SINCE = (2, 3, 0)
# lvcreate makes the pool and attaches it
POOL_AT_ONCE_SINCE = (2, 3, 0)
CHUNK_STEP = 32 << 10
MOST_CHUNK = 1 << 30
# LVM's own limit for a cache pool (allocation/cache_pool_max_chunks)
MOST_CHUNKS = 1_000_000
DEFAULT_CHUNK = 64 << 10
# of the group, unless somebody chose another: LVM has the last word on what fits
EXTENT = 4 << 20
SMALLEST = {"cache-pool": 4 * MIB, "cachevol": 16 * MIB, "writecache": 4 * MIB}
BLANK = ("--wipesignatures", "y", "--zero", "y")
# bytes, and 4 MiB beside, as LVM estimates it
META_PER_CHUNK = 44
WRITECACHE_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Options:
    kind: str = option(
        "cache-pool",
        "cachevol and writecache need LVM 2.03",
        choices=("cache-pool", "cachevol", "writecache"),
    )
    mode: str = option(
        "writeback",
        "Cache mode; a writecache has writeback only",
        choices=("writeback", "writethrough", "passthrough"),
    )
    size: int = option(
        0, "Cache size, rounded up to extents; 0: all free space", unit="B", minimum=0
    )
    chunk_size: int = option(
        0,
        "Chunk size, a multiple of 32 KiB; 0: LVM chooses (64 KiB)",
        unit="B",
        grain=True,
        minimum=0,
    )
    policy: str = option("smq", "Cache policy (mq is smq since Linux 4.6)", choices=("smq", "mq"))

    def __post_init__(self) -> None:
        if self.chunk_size and (self.chunk_size % CHUNK_STEP or self.chunk_size > MOST_CHUNK):
            raise OptionsError(
                f"chunk_size: {self.chunk_size} is not a multiple of 32 KiB up to 1 GiB"
            )
        if self.kind == "writecache":
            for name, plain in (("mode", "writeback"), ("chunk_size", 0), ("policy", "smq")):
                if getattr(self, name) != plain:
                    raise OptionsError(
                        f"{name}: not available for a writecache; leave it at {plain!r}"
                    )


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS[:2] if options.kind == "writecache" else NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """vgextend, then volumes on the SSD, then lvconvert. Raises PlanError for an SSD that is too small."""
    if options.kind != "cache-pool" and _lvm.lvm_version(facts) < CACHEVOL_SINCE:
        raise PlanError(
            f"{options.kind} needs LVM 2.03, the host has {facts.tools['lvm']!r}: use cache-pool"
        )
    if not (pieces := member_nodes(target, "cache")):
        raise PlanError("cache: there is no disk or partition for it")
    meta = _metadata(options, pieces, target)
    nodes = [piece.node for piece in (*target.parts.get(PVS, ()), *pieces)]
    name, added = target.name, [piece.node for piece in pieces]
    steps = [
        *erase_all(target, pieces, facts, settled=False),
        *_lvm.make_pvs(replace(target, volume=""), "cache", pieces, nodes, facts),
        _cache_step("vgextend", (name, *added), f"Add the SSD to {name}", target, nodes, facts),
    ]
    size = ("--size", f"{options.size}b") if options.size else ("--extents", "100%PVS")
    if options.kind == "cache-pool" and _lvm.lvm_version(facts) >= POOL_AT_ONCE_SINCE:
        words = (
            *size,
            *_pool(meta, "cache"),
            *_how(options),
            "--name",
            "fast",
            f"{name}/data",
            *added,
        )
        steps.append(
            _cache_step(
                "lvcreate",
                words,
                f"Attach a cache pool on the SSD to {name}/data",
                target,
                nodes,
                facts,
            )
        )
    else:
        words = (*size, *_cache_type_options(options, meta), "--name", "fast", name, *added)
        steps.append(
            _cache_step("lvcreate", words, f"Make {name}/fast on the SSD", target, nodes, facts)
        )
        steps.append(_convert(options, target, nodes, facts))
    remaining_parts = {use: parts for use, parts in target.parts.items() if use != "cache"}
    return Plan(tuple(steps), replace(target, parts=remaining_parts))


def _cache_type_options(options: Options, meta: int) -> tuple[str, ...]:
    """Options of lvcreate that make the volume on the SSD that kind of cache."""
    if options.kind == "cache-pool":
        return (*_pool(meta, "cache-pool"), *_chunk(options))
    # A writecache takes only a volume that is not active; LVM blanks it itself.
    return ("--activate", "n", "--zero", "n") if options.kind == "writecache" else BLANK


def _pool(meta: int, kind: str) -> tuple[str, ...]:
    return ("--type", kind, "--poolmetadatasize", f"{meta}b", "--poolmetadataspare", "n")


def _how(options: Options) -> tuple[str, ...]:
    return ("--cachemode", options.mode, "--cachepolicy", options.policy, *_chunk(options))


def _chunk(options: Options) -> tuple[str, ...]:
    return ("--chunksize", f"{options.chunk_size}b") if options.chunk_size else ()


def _metadata(options: Options, pieces: Sequence[Part], target: Target) -> int:
    """Bytes of metadata of a pool: a thousandth, and never less than 8 MiB. Raises PlanError for what cannot fit."""
    room = sum(_lvm.extents(piece, replace(target, volume=""), EXTENT) for piece in pieces) * EXTENT
    meta = 0
    if options.kind == "cache-pool":
        whole = options.size or room
        chunk = max(options.chunk_size or DEFAULT_CHUNK, whole // MOST_CHUNKS)
        need = max(8 * MIB, whole // 1000, whole // chunk * META_PER_CHUNK + 4 * MIB)
        meta = -(-need // EXTENT) * EXTENT
    least = SMALLEST[options.kind]
    # Of a share of the disk LVM keeps room for a spare of the metadata, though it was told to make none.
    most = room - meta if options.size else room - 2 * meta
    if not least <= (options.size or most) <= most:
        raise PlanError(
            f"cache: there is room for {max(most, 0) // MIB} MiB beside {meta // MIB} MiB of"
            f" metadata; {options.size / MIB:g} MiB were asked (0: all), and"
            f" {least // MIB} MiB is the minimum"
        )
    if options.chunk_size and (options.size or most) > options.chunk_size * MOST_CHUNKS:
        raise PlanError(
            f"chunk_size: {(options.size or most) // MIB} MiB are more than {MOST_CHUNKS} chunks of"
            f" {options.chunk_size} B, LVM's limit: use larger chunks"
        )
    return meta


def _cache_step(
    program: str,
    words: Sequence[str],
    purpose: str,
    target: Target,
    nodes: Sequence[str],
    facts: HostFacts,
) -> Step:
    # Nothing to undo one by one: what has begun is taken down as a whole.
    return _lvm.lvm_step(program, words, purpose, target, nodes, facts)


def _convert(options: Options, target: Target, nodes: Sequence[str], facts: HostFacts) -> Step:
    origin, fast = f"{target.name}/data", f"{target.name}/fast"
    how = _how(options)
    if options.kind == "writecache":
        how = ("--cachesettings", f"block_size={WRITECACHE_BLOCK}")
    words = (
        "--type",
        "writecache" if options.kind == "writecache" else "cache",
        "--cachepool" if options.kind == "cache-pool" else "--cachevol",
        fast,
        *how,
        origin,
    )
    return _cache_step("lvconvert", words, f"Attach it to {origin}", target, nodes, facts)


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """Faults that the kernel tells when metadata or disk of the cache cannot be written: it is then passed by. [] is
    right.
    """
    words = health.mapped.get(f"{target.name}-data", ())
    if len(words) < 3:
        return [f"{target.volume} is not active any more"]
    if words[2] == "writecache":
        errors = words[3:4] != ("0",)
        return [f"the write cache of {target.volume} has failed"] if errors else []
    faults = {
        "Fail": "has failed",
        "Error": "has failed",
        "needs_check": "needs a check",
        "ro": "is read-only",
    }
    return [
        f"the cache of {target.volume} {what}" for word, what in faults.items() if word in words
    ]


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """The whole group leaves the kernel: a cache taken off alone would first write back what is thrown away."""
    present_nodes = still_there(target, member_nodes(target, "cache"), facts)
    # The volume group's own teardown, which follows, waits for udev.
    return [
        *_lvm.remove_nodes(target, facts),
        *erase_all(target, present_nodes, facts, settled=False),
    ]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """The kernel's own tables: "cache META CACHE ORIGIN CHUNK COUNT FEATURE… POLICY …", "writecache s …"."""
    rows = _lvm.device_table(f"{target.name}-data", facts)
    if len(rows) != 1 or len(rows[0]) < 8:
        return [f"{target.volume} is not active"]
    row = rows[0]
    kind = "writecache" if options.kind == "writecache" else "cache"
    if row[2] != kind:
        return [f"{target.volume} is {row[2]}, not {kind}"]
    wrong = _cache(options, row) if kind == "cache" else _writecache(row)
    if int(row[1]) * SECTOR != target.size:
        wrong.append(f"{target.volume} has {int(row[1]) * SECTOR} B, not {target.size} B")
    return wrong + _on_disks(options, target, facts)


def _cache(options: Options, row: Sequence[str]) -> list[str]:
    features = row[8 : 8 + int(row[7])]
    policy = row[8 + int(row[7])]
    wrong = []
    if options.mode not in features:
        wrong.append(f"the cache's features are {' '.join(features)}, without {options.mode}")
    if options.chunk_size and int(row[6]) * SECTOR != options.chunk_size:
        wrong.append(f"the chunk size is {int(row[6]) * SECTOR} B, not {options.chunk_size} B")
    # LVM 2.03.16 starts a cachevol with mq though smq was asked; for kernels mq is another name of smq.
    if policy != options.policy and policy not in ("smq", "mq"):
        wrong.append(f"the policy is {policy}, not {options.policy}")
    return wrong


def _writecache(row: Sequence[str]) -> list[str]:
    """s (SSD) or p (persistent memory), origin, cache, block size."""
    return [] if row[3] == "s" else [f"the writecache is of type {row[3]}, not s (SSD)"]


def _on_disks(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """The cache itself, whatever this LVM calls it, lies on the SSD, and is as large as asked."""
    graph = Graph(facts)
    pieces = member_nodes(target, "cache")
    allowed = {
        name
        for piece in pieces
        if (d := graph.find_device(piece.node))
        for name in graph.disks_under(d.name)
    }
    for name in ("fast_cpool_cdata", "fast_cdata", "fast_cvol"):
        device = graph.find_device(f"/dev/mapper/{target.name}-{name}")
        if device is None:
            continue
        under = graph.disks_under(device.name)
        if not under or not under <= allowed:
            return [f"{device.path} is not on the SSD alone"]
        if device.size < options.size:
            return [f"{device.path} has {device.size} B, not {options.size} B"]
        return []
    return [f"the cache of {target.volume} is not there"]
