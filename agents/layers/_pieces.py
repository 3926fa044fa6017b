"""Disks of a layer's own, partitions and volumes of the layers below, treated alike."""

from __future__ import annotations

from agents.steps.common import erase_all, still_there

__all__ = ["erase_all", "still_there"]
