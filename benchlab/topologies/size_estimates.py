# SPDX-License-Identifier: Apache-2.0
"""Computed sizes, stripes and alignment of layers before anything is built, and why a layer cannot be. Pure.

The drivers' own plans compute them, on an example host that has the disks of a supply.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

from agents.contracts import AgentError, Claim
from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec, troubles
from agents.plans.fits import Disk, example
from agents.plans.stack import Placed
from benchlab.topologies.host_shapes import FAST_ROLES, spare_roles

# what stands on no host carries it; no layout's name has letters there
EXAMPLE_NAME = "blnew"
# of example disks, as they are sold
EXAMPLE_SIZES = {"hdd": 4 * 10**12}
DEFAULT_SIZE = 10**12
# in an option that has no default, and that nobody wrote yet
PLACEHOLDER = "…"
GOOD_COUNTS = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class DiskSupply:
    """Disks to compute with: those that a host has spare, by role; where they end, or without a host, example disks."""

    host: str = ""
    there: Mapping[str, Sequence[Disk]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Number of spare disks by role."""
        return {role: len(disks) for role, disks in self.there.items()}

    @property
    def main_role(self) -> str:
        """Role that has the most disks."""
        return spare_roles(self.counts).main if any(self.counts.values()) else "hdd"

    @property
    def slow_role(self) -> str:
        """Role of the disks to put behind a cache."""
        return (
            spare_roles(self.counts).base if any(self.counts.values()) else ""
        ) or self.main_role

    @property
    def fast_role(self) -> str:
        """Role of the disks for a cache or a log."""
        return (spare_roles(self.counts).cache if any(self.counts.values()) else "") or "ssd"

    def take_disks(self, role: str, count: int) -> list[Disk]:
        """Take `count` disks of a role: the host's own, then more like its last one."""
        available = list(self.there.get(role, ()))[:count]
        size = available[-1].size if available else EXAMPLE_SIZES.get(role, DEFAULT_SIZE)
        more = (
            Disk(f"{role}{number}", role, size) for number in range(len(available) + 1, count + 1)
        )
        return [*available, *more]


@dataclass(frozen=True, slots=True)
class SizeEstimate:
    """Layers as far up as they can be made. `error`: why `layer` (from 1) cannot be made; "" where all can."""

    placed: tuple[Placed, ...] = ()
    error: str = ""
    layer: int = 0

    def claims_of(self, number: int, use: str) -> tuple[Claim, ...]:
        """Disks that a layer (from 1) takes for a use."""
        if number > len(self.placed):
            return ()
        return self.placed[number - 1].target.devices.get(use, ())


def estimate_sizes(specs: Sequence[LayerSpec], shelf: DiskSupply) -> SizeEstimate:
    """Estimate sizes without checking what stands on what: a layer with nothing below it reports its own error."""
    counts = Counter[str]()
    for group in chain.from_iterable(spec.devices for spec in specs):
        counts[group.role] += group.count
    disks = [disk for role, count in counts.items() for disk in shelf.take_disks(role, count)]
    facts, spares = example(disks)
    free = stack.free_disks(facts, spares)
    placed: list[Placed] = []
    try:
        for spec in specs:
            placed.append(stack.lay(spec, placed, EXAMPLE_NAME, facts, free))
    except AgentError as error:
        return SizeEstimate(tuple(placed), str(error), len(placed) + 1)
    try:
        if placed and registry.layer(specs[-1].kind).PROVIDES != "parts":
            stack.check_top(placed[-1])
    except AgentError as error:
        return SizeEstimate(tuple(placed), str(error), len(placed))
    return SizeEstimate(tuple(placed))


def placeholder_options(driver: Layer[Any]) -> dict[str, Any]:
    """Options of a layer that nobody filled in yet: what has no default is a placeholder."""
    return {
        spec.name: PLACEHOLDER
        for spec in dataclasses.fields(driver.Options)
        if spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
    }


def good_count(kind: str) -> int:
    """Number of disks that its main use is given at first: the most of GOOD_COUNTS that it can make one thing of."""
    return _good_count(kind, (registry.layer(kind).Options,))


@lru_cache(maxsize=256)
def _good_count(kind: str, options: tuple[type[Any], ...]) -> int:
    """Number of disks for the main use of this driver; `options` distinguish it from another one of that name."""
    driver = registry.layer(kind)
    main, means = next(iter(driver.USES.items()))
    allowed = [n for n in GOOD_COUNTS if means.least <= n <= means.most]
    for count in allowed:
        if not estimate_sizes([_single_layer(driver, kind, main, count)], DiskSupply()).error:
            return count
    return max(means.least, 1)


def _single_layer(driver: Layer[Any], kind: str, main: str, count: int) -> LayerSpec:
    devices = tuple(
        DiskRequest(use, "ssd", count if use == main else means.least)
        for use, means in driver.USES.items()
        if use == main or means.least
    )
    return LayerSpec(kind, placeholder_options(driver), devices)


def needs_options(kind: str) -> bool:
    """True if the layer cannot be made with its defaults on anything: a person sets options first (tuning)."""
    return _needs_options(kind, (registry.layer(kind).Options,))


@lru_cache(maxsize=256)
def _needs_options(kind: str, options: tuple[type[Any], ...]) -> bool:
    for base in ([], *([other] for other in registry.all_layers())):
        specs = [_example_layer(name) for name in (*base, kind)]
        if not [trouble for trouble in troubles(specs) if not trouble.unfinished]:
            return estimate_sizes(specs, DiskSupply()).layer == len(specs)
    return False


def _example_layer(kind: str) -> LayerSpec:
    driver = registry.layer(kind)
    main = next(iter(driver.USES), "")
    if not main or driver.REQUIRES == "lv":
        devices = tuple(DiskRequest(use, "ssd", means.least) for use, means in driver.USES.items())
        return LayerSpec(kind, placeholder_options(driver), devices)
    return _single_layer(driver, kind, main, good_count(kind))


def plainness(driver: Layer[Any]) -> tuple[int, int, str]:
    """Key to sort layers by simplicity: first one that takes a disk, then one of many options, last a cache."""
    needed = sum(means.least > 0 for means in driver.USES.values())
    return max(needed, 1), len(dataclasses.fields(driver.Options)), driver.LABEL.lower()


def is_fast_role(role: str) -> bool:
    return role in FAST_ROLES
