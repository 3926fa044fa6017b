"""Topologies that are ready to use with one click, by role, so that they fit any host that has the disks.

The five studies that BenchLab starts from are all here (presets.json). Sizes are "all that fits": disks differ more
than set-ups.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from benchlab.topologies.wanted import wanted


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    group: str  # the heading it stands under
    name: str
    says: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def wants(self) -> dict[str, int]:
        """Role -> how many disks, those of the stages too."""
        return wanted((*self.stack, *self.stages))


PLACE = Path(__file__).with_suffix(".json")
ALL = tuple(Preset(**one) for one in json.loads(PLACE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL}


def grouped() -> list[tuple[str, list[Preset]]]:
    """In the order of the page: (heading, presets)."""
    return [(name, list(found)) for name, found in groupby(ALL, key=lambda one: one.group)]
