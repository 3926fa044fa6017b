# SPDX-License-Identifier: Apache-2.0
"""A stack as the builder draws it: nested from the top down, disks at the bottom, with places to add. Pure.

Computed facts stand beside: size, full stripe, and whether a layer lies on the full stripe of what is below.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import Claim, Target
from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import IS_VOLUME, WORDS
from agents.plans.stack import BELOW, Placed
from benchlab.topologies.inspection import GapOffers, Inspection, Stack
from benchlab.topologies.models import MAX_DEVICES
from benchlab.topologies.stack_edits import (
    StackEdit,
    gives_below,
    group_count,
    is_fast_role,
    main_use,
)
from benchlab.web.driver_forms import option_label, option_text
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


GOOD, WARN = "good", "warn"


@dataclass(frozen=True, slots=True)
class Alignment:
    css: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """Row of the table: a layer, or the disks of a role."""

    label: str
    size: str
    stripe: str
    aligned: Alignment


@dataclass(frozen=True, slots=True)
class UsableSize:
    """Sum of what files or a tool may fill, of what the disks for data have. `beside`: the others, "1 cache disk"."""

    usable: str
    disks: str
    percent: str
    beside: str = ""


def layer_rows(looked: Inspection) -> list[LayerRow]:
    """Rows of the layers that can be made, the top layer first and the disks last."""
    placed = _possible_layers(looked)
    layers = [_layer_row(layer) for layer in reversed(placed)]
    return [*layers, *_disk_rows(placed)]


def _possible_layers(looked: Inspection) -> tuple[Placed, ...]:
    placed = looked.reckoned.placed
    return placed[: looked.wrong[0].layer - 1] if looked.wrong else placed


def _layer_row(layer: Placed) -> LayerRow:
    label = registry.layer(layer.spec.kind).LABEL
    gives = layer.gives
    return LayerRow(
        label, format_size(gives.size) if gives.size else "", full_stripe(gives), alignment(layer)
    )


def _disk_rows(placed: tuple[Placed, ...]) -> Iterator[LayerRow]:
    sizes: dict[str, list[int]] = {}
    for layer in placed:
        for group in layer.spec.devices:
            claims = layer.target.devices.get(group.use, ())
            sizes.setdefault(group.role, []).extend(claim.size for claim in claims)
    for role, disk_sizes in sizes.items():
        each = " to ".join(
            dict.fromkeys((format_size(min(disk_sizes)), format_size(max(disk_sizes))))
        )
        yield LayerRow(f"{role}, each" if len(disk_sizes) > 1 else role, each, "", Alignment())


def full_stripe(gives: Target) -> str:
    """Text such as "256 KiB (4 × 64 KiB)"; "" where there is no full stripe."""
    if not gives.stripe_unit or gives.stripe_count < 2:
        return ""
    whole = gives.stripe_unit * gives.stripe_count
    return f"{format_size(whole)} ({gives.stripe_count} × {format_size(gives.stripe_unit)})"


def alignment(layer: Placed) -> Alignment:
    """Alignment to the full stripe of what is below; empty where there is none, or nobody can tell."""
    below = layer.target
    full = below.stripe_unit * below.stripe_count
    if not full or below.stripe_count < 2:
        return Alignment()
    if grain := _grain(layer):
        return _grain_alignment(grain, full)
    text = next((note for note in driver_notes(layer) if "aligned" in note), "")
    if "not aligned" in text:
        return Alignment(WARN, "not aligned")
    if text:
        return Alignment(GOOD, f"{below.stripe_count} × {format_size(below.stripe_unit)}")
    if (layer.gives.stripe_unit, layer.gives.stripe_count) == (
        below.stripe_unit,
        below.stripe_count,
    ):
        return Alignment(GOOD, "as below")
    return Alignment()


def _grain(layer: Placed) -> int:
    """Bytes that the layer moves at once, if an option says so; otherwise 0."""
    specs = dataclasses.fields(registry.layer(layer.spec.kind).Options)
    grains = (_option_value(layer, spec) for spec in specs if spec.metadata.get("grain"))
    return next((value for value in grains if value), 0)


def _option_value(layer: Placed, spec: dataclasses.Field[Any]) -> int:
    return int(layer.spec.options.get(spec.name, spec.default))


def _grain_alignment(grain: int, full: int) -> Alignment:
    if grain % full == 0:
        number = grain // full
        return Alignment(GOOD, f"{number} full stripe{'s' * (number > 1)}")
    if full % grain == 0:
        return Alignment(GOOD, f"{full // grain} fill a stripe")
    return Alignment(WARN, f"{format_size(grain)} cuts stripes of {format_size(full)}")


def driver_notes(layer: Placed) -> tuple[str, ...]:
    """Notes that its driver finds worth recording."""
    inherited = set(layer.target.notes)
    return tuple(note for note in layer.gives.notes if note not in inherited)


def layer_facts(looked: Inspection, number: int) -> list[tuple[str, str]]:
    """Facts to show beside the options of one layer (from 1); [] if the layer cannot be made."""
    placed = _possible_layers(looked)
    if number > len(placed):
        return []
    layer = placed[number - 1]
    driver, gives = registry.layer(layer.spec.kind), layer.gives
    rows = [
        ("Gives", f"{WORDS[driver.PROVIDES]}{f', {format_size(gives.size)}' if gives.size else ''}")
    ]
    if stripe := full_stripe(gives):
        rows.append(("Full stripe", stripe))
    if (on := alignment(layer)).words:
        rows.append(("On that below", on.words))
    for use, claims in layer.target.devices.items():
        if use not in (BELOW, main_use(driver)) and claims:
            many = f"{len(claims)} disk{'s' * (len(claims) > 1)}"
            rows.append(
                (use.capitalize(), f"{many}, {format_size(sum(claim.size for claim in claims))}")
            )
    return rows


def usable_size(looked: Inspection) -> UsableSize | None:
    """Usable size of the stack; None where nothing can be built, or its size is not known."""
    if not looked.valid or not (gives := looked.reckoned.placed[-1].gives).size:
        return None
    data, beside = set[Claim](), Counter[str]()
    for layer in looked.reckoned.placed:
        main = main_use(registry.layer(layer.spec.kind))
        for use, claims in layer.target.devices.items():
            if use == main:
                data.update(claims)
            elif use != BELOW:
                beside[use] += len(claims)
    disks = sum(claim.size for claim in data)
    if not disks:
        return None
    others = " and ".join(f"{n} {use} disk{'s' * (n > 1)}" for use, n in beside.items() if n)
    return UsableSize(
        format_size(gives.size), format_size(disks), f"{100 * gives.size / disks:.0f} %", others
    )
