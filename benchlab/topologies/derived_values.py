# SPDX-License-Identifier: Apache-2.0
"""Computed facts of the builder's layers: size, full stripe, and whether it lies on that of what is below. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.contracts import Claim, Target
from agents.drivers import registry
from agents.plans.chain import WORDS
from agents.plans.stack import BELOW, Placed
from benchlab.topologies.inspection import Inspection
from benchlab.topologies.stack_edits import main_use
from benchlab.web.units import format_size

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
