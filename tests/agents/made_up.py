"""Hosts that never were, for tests: facts with sensible values for all that a test does not name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cattrs

from agents.contracts import Claim, Step, Target
from agents.facts.model import BlockDevice, HostFacts, Mount
from agents.safety.guard import Spare

GIB = 1 << 30
LAYOUT = "bl17"
BOOT = "b"
_converter = cattrs.Converter(forbid_extra_keys=True)


def disk(name: str, number: int = 1, **given: Any) -> BlockDevice:
    """A blank whole disk with a serial."""
    values: dict[str, Any] = {
        "name": name,
        "path": f"/dev/{name}",
        "type": "disk",
        "size": GIB,
        "majmin": f"8:{16 * number}",
        "model": "Model X",
        "serial": f"SN-{name}",
        "signatures_known": True,
    }
    return _converter.structure(values | given, BlockDevice)


def part(**changes: Any) -> BlockDevice:
    """The first partition of /dev/sdb."""
    values: dict[str, Any] = {"type": "part", "majmin": "8:17", "serial": "", "parents": ["sdb"]}
    return disk("sdb1", **(values | changes))


def host(*devices: BlockDevice, **given: Any) -> HostFacts:
    """A host whose / is on /dev/sda2 unless `mounts` says otherwise."""
    root = disk("sda", 0, holders=(), signatures=[{"type": "gpt"}])
    part = disk("sda2", 0, type="part", majmin="8:2", serial="", parents=["sda"], mounts=["/"],
                signatures=[{"type": "ext4"}])  # fmt: skip
    values: dict[str, Any] = {
        "hostname": "h", "os_family": "debian", "os_name": "Debian", "kernel": "6.1",
        "arch": "x86_64", "boot_id": BOOT, "cpu_model": "c", "cpus": 2, "memory": GIB,
        "root": True, "sudo": True,
        "mounts": [{"source": "/dev/sda2", "target": "/", "fstype": "ext4", "majmin": "8:2"}],
    }  # fmt: skip
    facts = _converter.structure(values | given, HostFacts)
    return replace(facts, devices=(root, part, *devices))


def facts(data: dict[str, Any]) -> HostFacts:
    """From a case file: {"devices": [{"name": …}, …], …}."""
    devices = [disk(number=i, **d) for i, d in enumerate(data.get("devices", []), start=1)]
    others = {key: value for key, value in data.items() if key != "devices"}
    if "mounts" in others:
        others["mounts"] = [
            {"source": "/dev/sda2", "target": "/", "fstype": "ext4", "majmin": "8:2"},
            *others["mounts"],
        ]
    return host(*devices, **others)


def sizes(facts: HostFacts, target: Target) -> dict[str, int]:
    """Bytes of each node that a step can name."""
    found = {part.node: part.size for given in target.parts.values() for part in given}
    found |= {node: d.size for d in facts.devices for node in (d.path, *d.links)}
    return {target.volume: target.size, **found} if target.volume else found


def claim(device: BlockDevice) -> Claim:
    return Claim(device.identity, device.path, device.size, device.model)


def spare(*devices: BlockDevice, role: str = "", boot: str = BOOT) -> dict[str, Spare]:
    """As marked since the host booted: that of `host`, or of `boot`."""
    return {d.identity: Spare(d.identity, d.size, d.model, role, boot) for d in devices}


def mounted(source: str, target: str, fstype: str = "xfs", options: str = "rw") -> Mount:
    return Mount(source, target, fstype, options)


def wiping(device: BlockDevice, *words: str) -> Step:
    """A command that claims the disk: wipefs, or the words given."""
    return Step(words or ("wipefs", "--all", device.path), "wipe", destroys=(claim(device),))
