# SPDX-License-Identifier: Apache-2.0
"""Workloads that are ready to use with one click, by what they are for; they stand in workload_presets.json.

Databases, curves over outstanding I/Os, throughput, the articles' workloads, SNIA's test.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    # the heading it stands under
    group: str
    name: str
    says: str
    tool: str
    options: dict[str, Any]
    sweep: dict[str, list[Any]] = field(default_factory=dict)


PRESETS_FILE = Path(__file__).with_name("workload_presets.json")
ALL_PRESETS = tuple(Preset(**fields) for fields in json.loads(PRESETS_FILE.read_text("utf-8")))
PRESETS = {preset.slug: preset for preset in ALL_PRESETS}


def presets_by_group(tools: Collection[str]) -> list[tuple[str, list[Preset]]]:
    """Pairs of (heading, presets of these tools), in the order of the page."""
    mine = [preset for preset in ALL_PRESETS if preset.tool in tools]
    return [
        (name, list(presets)) for name, presets in groupby(mine, key=lambda preset: preset.group)
    ]
