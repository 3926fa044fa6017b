# SPDX-License-Identifier: Apache-2.0
"""Edits by the builder's buttons on a stack: add, remove, move, exchange a layer, set its disks or an option. Pure.

A stack is a list of {"kind", "options", "devices"}, bottom up; its counts may be text, as somebody typed them. The
disks stay at the bottom: a layer that comes to stand on nothing takes the disks that lay there.

Sizes, stripes and alignment of its layers, and why one cannot be made, are computed by the drivers' own plans, on an
example host that has the disks of a supply.
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
from agents.plans.chain import IS_VOLUME, DiskRequest, LayerSpec, troubles
from agents.plans.fits import Disk, example
from agents.plans.stack import Placed
from benchlab.topologies.host_shapes import FAST_ROLES, SpareRoles, spare_roles
from benchlab.web.texts import parse_row_id

Entry = Mapping[str, Any]
# Word -> kinds of what follows the layer's number.
EDIT_ARGUMENTS: Mapping[str, tuple[type, ...]] = {
    "add": (str,),
    "remove": (),
    "move": (int,),
    "exchange": (str,),
    "disks": (str, int),
    "set": (str, str),
}
MAX_NUMBER = 999


@dataclass(frozen=True, slots=True)
class StackEdit:
    """Edit of a stack. `at`: the layer, from 0 at the bottom; for a layer that is added, its new position."""

    word: str
    at: int
    more: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Text that a form sends: "add lvm" at 0 is "add 0 lvm"."""
        return " ".join(map(str, (self.word, self.at, *self.more)))


def parse_edit(text: str, layers: int) -> StackEdit | None:
    """Parse the edit that a button sent for a stack with so many layers; None if it is no valid edit."""
    word, _, rest = text.partition(" ")
    kinds = EDIT_ARGUMENTS.get(word)
    words = rest.split(" ", len(kinds)) if kinds is not None else []
    if kinds is None or len(words) != 1 + len(kinds):
        return None
    arguments = [
        _parse_argument(kind, text) for kind, text in zip((int, *kinds), words, strict=True)
    ]
    if None in arguments or arguments[0] >= layers + (word == "add"):
        return None
    act = StackEdit(word, arguments[0], tuple(arguments[1:]))
    return act if _is_possible(act, layers) else None


def _parse_argument(kind: type, text: str) -> Any:
    if kind is str:
        return text
    number = parse_row_id(text)
    return number if number is not None and number <= MAX_NUMBER else None


def _is_possible(act: StackEdit, layers: int) -> bool:
    if act.word in ("add", "exchange"):
        return act.more[0] in registry.all_layers()
    return act.word != "move" or act.more[0] < layers


def order_after(act: StackEdit, layers: int) -> list[int | None]:
    """Position that each layer had before the edit, in the order after it; None for a new layer."""
    places: list[int | None] = list(range(layers))
    if act.word == "add":
        places.insert(act.at, None)
    elif act.word == "remove":
        del places[act.at]
    elif act.word == "move":
        places.insert(act.more[0], places.pop(act.at))
    return places


def apply_edit(act: StackEdit, stack: Sequence[Entry], shelf: DiskSupply) -> list[dict[str, Any]]:
    """Return the stack after the edit."""
    layers = [dict(entry) for entry in stack]
    if act.word == "disks":
        return _with_count(layers, act.at, *act.more, shelf=shelf)
    if act.word == "set":
        layers[act.at] = _with_option(layers[act.at], *act.more)
        return layers
    if act.word == "exchange":
        layers[act.at] = _exchange_layer(layers[act.at], act.more[0])
        return layers
    after = [
        _new_layer(act.more[0], gives_below(layers[: act.at]), shelf)
        if place is None
        else layers[place]
        for place in order_after(act, len(layers))
    ]
    return _with_bottom_disks(layers, after, shelf)


def gives_below(stack: Sequence[Entry]) -> str:
    """Word of GIVES for these layers, as the one on top of them finds it."""
    given_kinds = [
        driver.PROVIDES for entry in stack if (driver := _driver(entry)).PROVIDES != "same"
    ]
    return given_kinds[-1] if given_kinds else "nothing"


def parse_count(typed: Any) -> int:
    """Parse a count of disks as somebody typed it; 0 if it is none."""
    return _parse_argument(int, str(typed).strip()) or 0


def group_count(group: Mapping[str, Any]) -> int:
    return parse_count(group.get("count"))


def _driver(entry: Entry) -> Layer[Any]:
    return registry.layer(entry["kind"])


def main_use(driver: Layer[Any]) -> str:
    """The use whose disks a volume may stand for; "" of a layer that takes none of its own."""
    return next(iter(driver.USES), "") if driver.REQUIRES in ("devices", "own") else ""


def _new_layer(kind: str, below: str, shelf: DiskSupply) -> dict[str, Any]:
    """A layer as it is added; the disks that lie at the bottom are not its to choose."""
    driver = registry.layer(kind)
    main = main_use(driver)
    groups = [
        {"use": use, "role": shelf.roles.cache, "count": means.least}
        for use, means in driver.USES.items()
        if use != main and means.least
    ]
    if main and driver.REQUIRES == "own" and below != "nothing":
        groups.insert(0, {"use": main, "role": shelf.roles.cache, "count": 1})
    return {"kind": kind, "options": {}, "devices": groups}


def _disk_group(entry: Entry, use: str) -> dict[str, Any] | None:
    """The disks of a use; None where it has none of its own. What somebody mistyped is theirs to mend."""
    groups = (dict(group) for group in entry.get("devices", ()) if group["use"] == use)
    return next(
        (group for group in groups if str(group.get("count", 0)).strip() not in ("", "0")), None
    )


def _with_group(entry: dict[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Put the group in place of the entry's group of the same use, in the order of the uses."""
    groups = {entry_group["use"]: entry_group for entry_group in entry.get("devices", ())}
    groups[group["use"]] = {"role": "ssd", **groups.get(group["use"], {}), **group}
    ordered = [groups[use] for use in _driver(entry).USES if use in groups]
    return {**entry, "devices": ordered}


def _with_count(
    stack: list[dict[str, Any]], at: int, use: str, number: int, *, shelf: DiskSupply
) -> list[dict[str, Any]]:
    if use in _driver(stack[at]).USES:
        main = use == main_use(_driver(stack[at]))
        role = shelf.roles.main if main else shelf.roles.cache
        now = _disk_group(stack[at], use) or {"use": use, "role": role}
        stack[at] = _with_group(stack[at], {**now, "count": number})
    return stack


def _with_option(entry: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Set an option. A button sends text: booleans and numbers are converted here, all else by the form."""
    specs = {spec.name: spec for spec in dataclasses.fields(_driver(entry).Options)}
    if name not in specs:
        return entry
    if isinstance(specs[name].default, bool):
        value = str(value) == "True"
    elif isinstance(specs[name].default, int) and (number := parse_row_id(str(value))) is not None:
        value = number
    return {**entry, "options": {**entry.get("options", {}), name: value}}


def _exchange_layer(entry: Entry, kind: str) -> dict[str, Any]:
    """Replace the layer by another one with the disks of its main use."""
    old, new = main_use(_driver(entry)), main_use(registry.layer(kind))
    had = _disk_group(entry, old) if old and new else None
    groups = [{**had, "use": new}] if had else []
    return {"kind": kind, "options": {}, "devices": groups}


def _lowest(stack: Sequence[Entry]) -> int | None:
    """The layer that stands on disks."""
    for at, entry in enumerate(stack):
        if gives_below(stack[:at]) != "nothing":
            return None
        if main_use(_driver(entry)):
            return at
    return None


def _with_bottom_disks(
    before: Sequence[Entry], after: list[dict[str, Any]], shelf: DiskSupply
) -> list[dict[str, Any]]:
    """Stack in which what stands on disks has some, and what stands on a volume has none for what the volume is for."""
    at = _lowest(after)
    if at is not None and not _disk_group(after[at], main_use(_driver(after[at]))):
        after[at] = _with_group(
            after[at], _bottom_group(before, _driver(after[at]), after[at], shelf)
        )
        after = [
            entry if n == at else _without_moved_disks(before, entry)
            for n, entry in enumerate(after)
        ]
    for number, entry in enumerate(after):
        driver = _driver(entry)
        if driver.REQUIRES == "devices" and gives_below(after[:number]) in IS_VOLUME:
            after[number] = _with_group(entry, {"use": main_use(driver), "count": 0})
    return after


def _without_moved_disks(before: Sequence[Entry], entry: dict[str, Any]) -> dict[str, Any]:
    """The layer without the disks that it gave away."""
    was = _lowest(before)
    if was is None or before[was] != entry:
        return entry
    return _with_group(entry, {"use": main_use(_driver(entry)), "count": 0})


def _bottom_group(
    before: Sequence[Entry], driver: Layer[Any], entry: Entry, shelf: DiskSupply
) -> dict[str, Any]:
    """The disks that lay at the bottom, as many as this layer can take; else those that it would have."""
    use, was = main_use(driver), _lowest(before)
    had = _disk_group(before[was], main_use(_driver(before[was]))) if was is not None else None
    means = driver.USES[use]
    if had and group_count(had) >= max(means.least, 1):
        return {**had, "use": use, "count": min(group_count(had), means.most)}
    cached = any(n != use and other.least for n, other in driver.USES.items())
    role = had["role"] if had else shelf.roles.base if cached else shelf.roles.main
    good, available = good_count(entry["kind"]), shelf.counts.get(role, 0)
    fit = min(good, available) if available >= max(means.least, 1) else good
    return {"use": use, "role": role, "count": fit}


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
    def roles(self) -> SpareRoles:
        """Roles of the disks to use: the most, those to put behind a cache, those for a cache or a log."""
        if not any(self.counts.values()):
            return SpareRoles("hdd", "hdd", "ssd")
        spare = spare_roles(self.counts)
        return SpareRoles(spare.main, spare.base or spare.main, spare.cache or "ssd")

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
