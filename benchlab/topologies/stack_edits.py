# SPDX-License-Identifier: Apache-2.0
"""Edits by the builder's buttons on a stack: add, remove, move, exchange a layer, set its disks or an option. Pure.

A stack is a list of {"kind", "options", "devices"}, bottom up; its counts may be text, as somebody typed them. The
disks stay at the bottom: a layer that comes to stand on nothing takes the disks that lay there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import IS_VOLUME
from benchlab.topologies.size_estimates import DiskSupply, good_count
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
        {"use": use, "role": shelf.fast_role, "count": means.least}
        for use, means in driver.USES.items()
        if use != main and means.least
    ]
    if main and driver.REQUIRES == "own" and below != "nothing":
        groups.insert(0, {"use": main, "role": shelf.fast_role, "count": 1})
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
        role = shelf.main_role if main else shelf.fast_role
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
    role = had["role"] if had else shelf.slow_role if cached else shelf.main_role
    good, available = good_count(entry["kind"]), shelf.counts.get(role, 0)
    fit = min(good, available) if available >= max(means.least, 1) else good
    return {"use": use, "role": role, "count": fit}
