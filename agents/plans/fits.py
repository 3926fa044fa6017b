# SPDX-License-Identifier: Apache-2.0
"""Checks that a run fits what it works on: room for its blocks, and blocks that hold something. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.contracts import PlanError, Target
from agents.drivers import registry
from agents.plans.chain import LayerSpec, gives

SINCE = "write all of it first, by a workload before this one that writes the whole size"
SPARSE = "ZFS serves reads of never-written zvol blocks without disk I/O"
DISCARDED = (
    "the disk was discarded, and an SSD serves reads of discarded blocks without reading its flash"
)
BLANK = "an SSD serves reads of never-written or discarded blocks without reading its flash"


def too_large(specs: Sequence[LayerSpec], kind: str, built: Any, target: Target) -> str:
    """Reason why a tool has no room on a target, with the numbers; "" where it has, or the size is not known."""
    room = registry.required_bytes(kind, built, target)
    if not target.size or room <= target.size or any(map(_packs, specs)):
        return ""
    where = "file system" if target.mount else "volume"
    return (
        f"{kind} needs {room:,} B ({room / 2**30:,.1f} GiB) of a {where} of {target.size:,} B"
        f" ({target.size / 2**30:,.1f} GiB): give it a smaller size, or larger disks"
    )


def check_size(specs: Sequence[LayerSpec], kind: str, built: Any, target: Target) -> None:
    """Raise PlanError for a size that is too large."""
    if problem := too_large(specs, kind, built, target):
        raise PlanError(problem)


def _packs(spec: LayerSpec) -> bool:
    """True when more may be written than there is room for: the layer compresses, or promises what it has not."""
    options = spec.options
    packed = any(word.startswith("compress") for word in options.get("mount_options", ()))
    return bool(options.get("compression", "off") != "off" or options.get("sparse") or packed)


def unwritten(specs: Sequence[LayerSpec], kind: str, built: Any) -> str:
    """Warning that a tool may read blocks which were never written, so no disk works; "" otherwise."""
    if gives(spec.kind for spec in specs) == "mount" or not registry.reads_existing(kind, built):
        return ""
    if any(spec.kind == "zvol" for spec in specs):
        return f"it reads a volume on which nothing was written: {SPARSE}; {SINCE}"
    discarded = any(spec.kind == "raw" and spec.options.get("discard") for spec in specs)
    return f"it reads a volume on which nothing was written: {DISCARDED if discarded else BLANK}; {SINCE}"
