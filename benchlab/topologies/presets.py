# SPDX-License-Identifier: Apache-2.0
"""Topologies that are ready to use with one click, by role, so that they fit any host that has the disks.

The five studies that BenchLab starts from are all here (presets.json), of as many disks as they had; those that stretch
take a host's number instead. Sizes are "all that fits": disks differ more than set-ups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchlab.topologies.wanted import MOST_DEVICES, wanted

# disks of a stripe
LEAST = 2


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    # the heading it stands under
    group: str
    name: str
    says: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]] = field(default_factory=list)
    # its many disks may be as many as there are
    stretches: bool = False

    @property
    def wants(self) -> dict[str, int]:
        """Role -> how many disks, those of the stages too."""
        return wanted((*self.stack, *self.stages))

    @property
    def disks(self) -> int:
        """Number of its many disks; 0: it does not stretch."""
        many = _many(self)
        return many["count"] if many else 0


def sized_to(preset: Preset, spares: Mapping[str, int]) -> Preset:
    """Of as many disks as a host has spare (role -> how many), where it stretches and there are at least two."""
    many = _many(preset)
    if many is None:
        return preset
    beside = preset.wants[many["role"]] - many["count"]
    return of_disks(preset, spares.get(many["role"], 0) - beside)


def of_disks(preset: Preset, count: int) -> Preset:
    """With so many disks where it had its many; as it is where it does not stretch, or so far."""
    many = _many(preset)
    if many is None or not LEAST <= count <= MOST_DEVICES or count == many["count"]:
        return preset
    stack = [
        {
            **layer,
            "devices": [
                {**one, "count": count} if one is many else one for one in layer["devices"]
            ],
        }
        for layer in preset.stack
    ]
    name = preset.name.replace(f"of {many['count']}", f"of {count}")
    says = preset.says.replace("twelve disks", f"{count} disks")
    return replace(preset, name=name, says=says, stack=stack)


def _many(preset: Preset) -> dict[str, Any] | None:
    """Its entry of several disks; None: it does not stretch."""
    found = (one for layer in preset.stack for one in layer["devices"] if one["count"] >= LEAST)
    return next(found) if preset.stretches else None


PLACE = Path(__file__).with_suffix(".json")
ALL = tuple(Preset(**one) for one in json.loads(PLACE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL}


def grouped() -> list[tuple[str, list[Preset]]]:
    """In the order of the page: (heading, presets)."""
    return [(name, list(found)) for name, found in groupby(ALL, key=lambda one: one.group)]
