# SPDX-License-Identifier: Apache-2.0
"""Record of a practice host between two commands: one JSON file in its directory."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchlab.practice.disks import DiskSpec, SlowDisk
from benchlab.practice.process import ProcessId

_FILE = "host.json"


@dataclass(frozen=True)
class HostRecord:
    """One host. `kind` names its class; without an `owner`, whose end makes it a leftover, it stays."""

    kind: str
    port: int
    memory_mb: int
    image: str
    machine_id: str
    disks: tuple[DiskSpec, ...]
    slow_disks: tuple[SlowDisk, ...]
    owner: ProcessId | None
    forward: ProcessId | None = None
    kernel: ProcessId | None = None

    def save(self, directory: Path) -> None:
        """Write it whole or not at all."""
        draft = directory / f"{_FILE}.new"
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.replace(directory / _FILE)

    @classmethod
    def load(cls, directory: Path) -> "HostRecord | None":
        """The record in `directory`, or None when there is none that can be read."""
        try:
            raw: dict[str, Any] = json.loads((directory / _FILE).read_text())
        except (OSError, ValueError):
            return None
        # hosts made before there was another
        raw.setdefault("kind", "uml")
        raw["disks"] = tuple(DiskSpec(**disk) for disk in raw["disks"])
        raw["slow_disks"] = tuple(SlowDisk(**disk) for disk in raw["slow_disks"])
        for role in ("owner", "forward", "kernel"):
            raw[role] = ProcessId(**raw[role]) if raw[role] else None
        return cls(**raw)

    def with_kernel(self, kernel: ProcessId | None) -> "HostRecord":
        """The same host under another kernel process, or powered off."""
        return replace(self, kernel=kernel)
