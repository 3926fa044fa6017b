# SPDX-License-Identifier: Apache-2.0
"""Disks that layers and stages need, by role, and those that a host lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# of one use
MAX_DEVICES = 256


def required_disks(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Role -> how many disks these layers, or stages, take."""
    counts: dict[str, int] = {}
    for group in (group for entry in entries for group in entry.get("devices", ())):
        counts[group["role"]] = counts.get(group["role"], 0) + group["count"]
    return counts


def missing_disks(wants: Mapping[str, int], spares: Mapping[str, int]) -> dict[str, int]:
    """Role -> how many spare disks are missing on a host that has `spares` of each role; {} where none is."""
    short = {role: n - spares.get(role, 0) for role, n in wants.items()}
    return {role: n for role, n in short.items() if n > 0}
