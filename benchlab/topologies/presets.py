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

from benchlab.topologies.disk_counts import MAX_DEVICES, required_disks

# disks of a stripe
MIN_STRIPE = 2


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
        """Number of disks by role, including those of the stages."""
        return required_disks((*self.stack, *self.stages))

    @property
    def disk_count(self) -> int:
        """Number of disks in the group that stretches; 0 if none does."""
        many = _stretched_group(self)
        return many["count"] if many else 0


def fit_to_spares(preset: Preset, spares: Mapping[str, int]) -> Preset:
    """Fit the preset to a host's spare disks (role -> number), if it stretches and there are at least two."""
    many = _stretched_group(preset)
    if many is None:
        return preset
    beside = preset.wants[many["role"]] - many["count"]
    return with_disk_count(preset, spares.get(many["role"], 0) - beside)


def with_disk_count(preset: Preset, count: int) -> Preset:
    """Change the number of disks in the group that stretches; unchanged if none stretches, or not so far."""
    many = _stretched_group(preset)
    if many is None or not MIN_STRIPE <= count <= MAX_DEVICES or count == many["count"]:
        return preset
    stack = [
        {
            **layer,
            "devices": [
                {**group, "count": count} if group is many else group for group in layer["devices"]
            ],
        }
        for layer in preset.stack
    ]
    name = preset.name.replace(f"of {many['count']}", f"of {count}")
    text = preset.says.replace("twelve disks", f"{count} disks")
    return replace(preset, name=name, says=text, stack=stack)


def _stretched_group(preset: Preset) -> dict[str, Any] | None:
    """Entry of the group of disks that stretches; None if none does."""
    groups = (
        group
        for layer in preset.stack
        for group in layer["devices"]
        if group["count"] >= MIN_STRIPE
    )
    return next(groups) if preset.stretches else None


PRESETS_FILE = Path(__file__).with_suffix(".json")
ALL_PRESETS = tuple(Preset(**fields) for fields in json.loads(PRESETS_FILE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL_PRESETS}


def presets_by_group() -> list[tuple[str, list[Preset]]]:
    """Pairs of (heading, presets), in the order of the page."""
    return [
        (name, list(presets))
        for name, presets in groupby(ALL_PRESETS, key=lambda preset: preset.group)
    ]
