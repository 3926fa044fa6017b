# SPDX-License-Identifier: Apache-2.0
"""A stack as the builder draws it: nested from the top down, disks at the bottom, places to add between. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import Claim
from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import IS_VOLUME
from benchlab.topologies.disk_counts import MAX_DEVICES
from benchlab.topologies.inspection import Inspection, Stack
from benchlab.topologies.layer_offers import GapOffers
from benchlab.topologies.size_estimates import is_fast_role
from benchlab.topologies.stack_edits import StackEdit, gives_below, group_count, main_use
from benchlab.web.driver_forms import option_label as option_label
from benchlab.web.driver_forms import option_text
from benchlab.web.units import format_size

# disks of a group that are boxes with their size; of more each is a mark
MAX_BOXES = 8
MAX_MARKS = 48
# options on a layer's box
MAX_OPTIONS = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A disk."""

    name: str
    size: str


@dataclass(frozen=True, slots=True)
class DiskGroup:
    """Disks of one use of a layer. `more` and `fewer`: edits that change their number; None where there is none."""

    use: str
    says: str
    role: str
    count: int
    slots: tuple[Slot, ...]
    marks: range
    more: StackEdit | None
    fewer: StackEdit | None

    @property
    def fast(self) -> bool:
        return is_fast_role(self.role)

    @property
    def size_range(self) -> str:
        """Sizes of the disks, for groups that are drawn as marks."""
        sizes = dict.fromkeys(slot.size for slot in self.slots if slot.size)
        return " to ".join((*list(sizes)[:1], *list(sizes)[1:][-1:]))


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where a layer may be added. `at`: where it would come to lie, from 0."""

    at: int
    says: str
    offers: GapOffers


@dataclass(frozen=True, slots=True)
class LayerLevel:
    """Layer with all that is beneath it. `at`: from 0. `risers`: its own disks beside the volume that it stands on."""

    at: int
    label: str
    says: str
    size: str
    css: str
    wrong: str
    gap: Gap
    disks: tuple[DiskGroup, ...]
    risers: tuple[DiskGroup, ...]
    below: LayerLevel | None

    @property
    def number(self) -> int:
        return self.at + 1


@dataclass(frozen=True, slots=True)
class Canvas:
    """`top`: the gap between the tools and the top layer. `target`: what the tools work on, in words."""

    top: Gap
    level: LayerLevel | None
    target: str
    size: str


def draw_stack(stack: Stack, looked: Inspection, offers: Sequence[GapOffers]) -> Canvas:
    level = None
    for at in range(len(stack)):
        level = _layer_level(stack, at, looked, offers[at], level)
    gap = Gap(len(stack), _gap_position(stack, len(stack)), offers[len(stack)])
    return Canvas(gap, level, _target_text(stack, looked), _layer_size(looked, len(stack)))


def _layer_level(
    stack: Stack, at: int, looked: Inspection, offers: GapOffers, below: LayerLevel | None
) -> LayerLevel:
    entry = stack[at]
    driver = registry.layer(entry["kind"])
    wrong = looked.trouble_at(at + 1)
    groups = list(_disk_groups(stack, at, driver, looked))
    main = main_use(driver)
    beside = tuple(group for group in groups if below or group.use != main)
    return LayerLevel(
        at=at,
        label=driver.LABEL,
        says=" · ".join(option_summary(driver, entry.get("options", {}))),
        size=_layer_size(looked, at + 1),
        css=_css(driver),
        wrong=wrong.message if wrong else "",
        gap=Gap(at, _gap_position(stack, at), offers),
        disks=tuple(group for group in groups if group not in beside),
        risers=beside,
        below=below,
    )


def _css(driver: Layer[Any]) -> str:
    """CSS class that colours the layer's edge: a file system, a cache, a setting, or any other volume."""
    if driver.PROVIDES == "mount":
        return "k-fs"
    if driver.PROVIDES == "same":
        return "k-set"
    return "k-cache" if driver.USES.get("cache") and driver.USES["cache"].least else "k-vol"


def _gap_position(stack: Stack, at: int) -> str:
    """Position of a gap, in words."""
    labels = [registry.layer(entry["kind"]).LABEL for entry in stack]
    if not labels:
        return "at the bottom"
    if at == len(labels):
        return f"on top of {labels[-1]}"
    if not at:
        return f"below {labels[0]}"
    return f"between {labels[at - 1]} and {labels[at]}"


def option_summary(driver: Layer[Any], options: Mapping[str, Any]) -> list[str]:
    """Options in short: first those that differ from the default, then those that are worth showing anyway."""
    changed: list[str] = []
    rest: list[str] = []
    for spec in dataclasses.fields(driver.Options):
        value = options.get(spec.name, spec.default)
        if value in ("", [], (), None, False, 0, -1) or value is dataclasses.MISSING:
            continue
        words = _option_text(spec, value)
        (rest if value == spec.default else changed).append(words)
    return [*changed, *rest][:MAX_OPTIONS]


def _option_text(spec: dataclasses.Field[Any], value: Any) -> str:
    unit = spec.metadata.get("unit", "")
    if value is True:
        return option_label(spec.name, "")
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if unit == "B" and isinstance(value, int):
        return f"{option_label(spec.name, '')} {format_size(value)}"
    return f"{option_label(spec.name, '')} {option_text(value)}"


def _disk_groups(
    stack: Stack, at: int, driver: Layer[Any], looked: Inspection
) -> Iterator[DiskGroup]:
    """Groups of disks that the layer takes, and those that it must take but has not."""
    groups_by_use = {group["use"]: group for group in stack[at].get("devices", ())}
    below = gives_below(stack[:at])
    main = main_use(driver)
    for use, means in driver.USES.items():
        group = groups_by_use.get(use, {})
        number = group_count(group)
        stands = use == main and driver.REQUIRES == "devices" and below in (*IS_VOLUME, "parts")
        if not number and (stands or not means.least):
            continue
        claims = looked.reckoned.claims_of(at + 1, use)
        role = str(group.get("role", ""))
        yield DiskGroup(
            use=use,
            says=means.purpose,
            role=role,
            count=number,
            slots=tuple(_slots(role, number, claims)),
            marks=range(min(number, MAX_MARKS)),
            more=StackEdit("disks", at, (use, number + 1))
            if number < min(means.most, MAX_DEVICES)
            else None,
            fewer=StackEdit("disks", at, (use, number - 1))
            if number > max(means.least, 1)
            else None,
        )


def _slots(role: str, number: int, claims: Sequence[Claim]) -> Iterator[Slot]:
    for at in range(number):
        claim = claims[at] if at < len(claims) else None
        name = claim.node.rpartition("/")[2] if claim else f"{role}{at + 1}"
        yield Slot(name, format_size(claim.size) if claim else "")


def _layer_size(looked: Inspection, number: int) -> str:
    """Size that a layer (from 1) gives; "" where it is not known."""
    placed = looked.reckoned.placed
    if not 0 < number <= len(placed) or (looked.wrong and looked.wrong[0].layer <= number):
        return ""
    given_size = placed[number - 1].gives.size
    return format_size(given_size) if given_size else ""


def _target_text(stack: Stack, looked: Inspection) -> str:
    if not stack:
        return "nothing yet"
    if not looked.valid:
        return "no volume or file system yet"
    gives = looked.reckoned.placed[-1].gives
    if gives.mount:
        return "files in a directory of their own"
    alone = registry.layer(stack[-1]["kind"]).LABEL
    return f"the volume itself, as {alone} gives it: no file system between"
