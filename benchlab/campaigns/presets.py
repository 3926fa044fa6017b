"""Workloads that are ready to use with one click, by what they are for. The data: preset_data.py."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby

from benchlab.campaigns.preset_data import ALL, Preset

__all__ = ["PRESETS", "Preset", "grouped"]

PRESETS = {preset.slug: preset for preset in ALL}


def grouped(tools: Collection[str]) -> list[tuple[str, list[Preset]]]:
    """Those of these tools in the order of the page: (heading, presets)."""
    mine = [preset for preset in ALL if preset.tool in tools]
    return [(name, list(found)) for name, found in groupby(mine, key=lambda one: one.group)]
