# SPDX-License-Identifier: Apache-2.0
"""flashcache, the SSD cache of 2010 to 2017: only for kernels that still have its module.

Sources: flashcache's doc/flashcache-sa-guide.txt, src/utils/flashcache_create.c and flashcache_destroy.c, article 000.
Not tried on a kernel of ours: none has the module. A writeback cache has its superblock in the first sector of the
SSD, which no libblkid knows; flashcache_create refuses an SSD that has one, so both ends of it are zeroed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.contracts import Need, OptionsError, Part, Plan, PlanError, Step, Target, Use, claims_of
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.layers._lvm import device_table
from agents.options import option
from agents.steps import scripts
from agents.steps.common import erase_all, member_nodes, settle, still_there, without_uses

LABEL = "flashcache"
MODULE = Need("flashcache", {}, ("modinfo", "-F", "version", "flashcache"))
CREATE = Need(
    "flashcache_create",
    {"debian": "flashcache-utils", "rhel": "flashcache-utils"},
    ("flashcache_create",),
)
NEEDS = (MODULE, CREATE)
USES = {"backing": Use("the slow disk", most=1), "cache": Use("the SSD", most=1)}
PROVIDES = "volume"
REQUIRES = "devices"
KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Options:
    mode: str = option(
        "back", "Write back, write through or write around", choices=("back", "thru", "around")
    )
    block_size: int = option(4 * KIB, "Cache block size, a power of two", unit="B")

    def __post_init__(self) -> None:
        size = self.block_size
        if not 512 <= size <= 1 << 20 or size & (size - 1):
            raise OptionsError(f"block_size: {size} B is not a power of two from 512 B to 1 MiB")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError, before anything is touched, if the kernel has no such module."""
    if MODULE.program not in facts.tools:
        raise PlanError(
            f"the kernel {facts.kernel} of this host has no module flashcache (modinfo flashcache): it is unmaintained"
            " since 2017 and does not build on new kernels; use LVM cache (dm-cache) or bcache instead"
        )
    backing, cache = _disk_and_cache(target)
    claims, node = claims_of(target), f"/dev/mapper/{target.name}"
    make = (
        *("flashcache_create", "-p", options.mode, "-b", str(options.block_size // 512)),
        *(target.name, cache.node, backing.node),
    )
    steps = (
        *erase_all(target, [backing, cache], facts),
        Step(
            make,
            f"Make {cache.node} the cache of {backing.node}",
            destroys=claims,
            undo=(_remove_step(target, facts), *erase_all(target, [backing, cache], facts)),
            # it asks when the SSD is the larger one
            stdin="y\n",
        ),
        settle(),
    )
    sectors = backing.size // 512 * 512
    gives = replace(without_uses(target, "backing", "cache"), volume=node, size=sectors)
    return Plan(steps, gives)


def _disk_and_cache(target: Target) -> tuple[Part, Part]:
    backing, cache = member_nodes(target, "backing", main=True), member_nodes(target, "cache")
    for use, nodes in (("backing", backing), ("cache", cache)):
        if len(nodes) != 1:
            raise PlanError(f"{use}: needs exactly one disk, got {len(nodes)}")
    if not claims_of(target):
        raise PlanError("the disks under the cache are unknown")
    return backing[0], cache[0]


def _remove_step(target: Target, facts: HostFacts) -> Step:
    """The step that removes the cache. Its sysctls are named by both kernel names: dev.flashcache.sdb+sdc."""
    backing, cache = _disk_and_cache(target)
    graph = Graph(facts)
    names = [d.name if (d := graph.find_device(part.node)) else "" for part in (cache, backing)]
    argv = ("sh", "-c", scripts.FLASHCACHE_REMOVE, "remove", target.name, *names)
    return Step(argv, "Remove the cache as it is, dirty or not", destroys=claims_of(target))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Erasing the SSD does what flashcache_destroy does: no superblock is left to load."""
    steps = []
    if device_table(target.name, facts):
        steps.append(_remove_step(target, facts))
    return steps + erase_all(target, still_there(target, _disk_and_cache(target), facts), facts)


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check that the mapping exists, is a flashcache, and lies on these two disks.

    Its table shows no option in a fixed place.
    """
    backing, cache = _disk_and_cache(target)
    graph = Graph(facts)
    device = graph.find_device(f"/dev/mapper/{target.name}")
    if device is None:
        return [f"/dev/mapper/{target.name} is not there"]
    wrong = []
    if not any(words[2:3] == ["flashcache"] for words in device_table(target.name, facts)):
        wrong.append(f"{device.path} is not a flashcache")
    for part in (backing, cache):
        below = graph.find_device(part.node)
        if below is None or below.name not in graph.below[device.name]:
            wrong.append(f"{device.path} is not on {part.node}")
    if device.size < backing.size // 512 * 512:
        wrong.append(f"{device.path} has {device.size} bytes, not {backing.size}")
    return wrong
