"""Topologies that are ready to use with one click."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    slug: str
    name: str
    says: str
    stack: list[dict[str, Any]]


def _layer(kind: str, options: dict[str, Any] | None = None, **devices: tuple[str, int]) -> Any:
    groups = [{"use": use, "role": role, "count": n} for use, (role, n) in devices.items()]
    return {"kind": kind, "options": options or {}, "devices": groups}


def _filesystem(kind: str) -> Preset:
    return Preset(
        kind,
        f"{kind} on one SSD",
        f"A whole spare SSD with {kind}.",
        [_layer("raw", data=("ssd", 1)), _layer("filesystem", {"type": kind})],
    )


PRESETS = {
    preset.slug: preset
    for preset in (
        Preset(
            "directory",
            "Scratch directory",
            "A directory on the host's own file system: no disk is touched. Good for a first try.",
            [_layer("directory")],
        ),
        Preset(
            "raw-ssd",
            "Raw SSD",
            "A whole spare SSD without a file system: what the device itself can do.",
            [_layer("raw", data=("ssd", 1))],
        ),
        _filesystem("xfs"),
        _filesystem("ext4"),
        _filesystem("btrfs"),
    )
}
