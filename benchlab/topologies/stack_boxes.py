# SPDX-License-Identifier: Apache-2.0
"""A stack as boxes to draw, the top layer first: disks lie below, volumes above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents import options as driver_options
from agents.drivers import protocols, registry
from agents.plans.chain import WORDS
from benchlab.web.driver_forms import option_text


@dataclass(frozen=True, slots=True)
class DiskGroup:
    role: str
    count: int
    use: str

    @property
    def drawn_disks(self) -> range:
        """Disks to draw, one small box each, as many as fit a line; the number is the real count."""
        return range(min(self.count, 24))


@dataclass(frozen=True, slots=True)
class Box:
    label: str
    options: tuple[tuple[str, str], ...]
    gives: str
    disks: tuple[DiskGroup, ...]


def stack_boxes(stack: Sequence[Mapping[str, Any]]) -> list[Box]:
    return [_box(entry) for entry in reversed(stack)]


def _box(entry: Mapping[str, Any]) -> Box:
    driver = registry.all_layers().get(entry["kind"])
    # a layer that was removed from the code since; the page must still come up
    if driver is None:
        return Box(f"{entry['kind']} (unknown layer)", (), "", _disk_groups(entry))
    options = option_words(driver.Options, entry.get("options", {}))
    return Box(driver.LABEL, options, WORDS[driver.PROVIDES], _disk_groups(entry))


def _disk_groups(entry: Mapping[str, Any]) -> tuple[DiskGroup, ...]:
    return tuple(DiskGroup(**group) for group in entry.get("devices", ()))


@dataclass(frozen=True, slots=True)
class Growth:
    """Stage to draw beside the stack."""

    label: str
    layer: int
    options: tuple[tuple[str, str], ...]
    disks: tuple[DiskGroup, ...]
    during: bool


def growths(
    stack: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, Any]]
) -> list[Growth]:
    return [_growth(stack[stage["layer"] - 1]["kind"], stage) for stage in stages]


def _growth(kind: str, stage: Mapping[str, Any]) -> Growth:
    known = kind in registry.all_layers()
    driver = registry.implements(kind, protocols.Growable) if known else None
    options = option_words(driver.Grow, stage.get("options", {})) if driver else ()
    label = driver.LABEL if driver else f"{kind} (unknown layer)"
    return Growth(label, stage["layer"], options, _disk_groups(stage), bool(stage.get("during")))


def option_words(kind: type[Any], options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Name and value, as people write them, of each option that is worth showing."""
    return tuple(
        (name, _option_text(name, value, kind))
        for name, value in options.items()
        if value not in ("", [], (), None, False)
    )


def _option_text(name: str, value: Any, options: type[Any]) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if value is True:
        return "yes"
    unit = driver_options.schema(options)["properties"].get(name, {}).get("x-unit", "")
    return option_text(value, unit) + (f" {unit}" if unit not in ("", "B") else "")


def summary(stack: Sequence[Mapping[str, Any]]) -> str:
    """One line, bottom up: "ssd x1 > Raw disk > File system"."""
    words = []
    for entry in stack:
        words += [f"{group['role']} × {group['count']}" for group in entry.get("devices", ())]
        driver = registry.all_layers().get(entry["kind"])
        words.append(driver.LABEL if driver else entry["kind"])
    return " › ".join(words)
