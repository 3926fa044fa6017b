"""Simulated hosts' words about themselves before each run: always the same, but for what is not told now and then.

A third of hosts has spinning SCSI disks, the others SSDs; NVMe disks stand beside them, which the kernel schedules in a
way of their own. Each disk has a firmware of its own in a fifth of hosts. One thing in twenty is not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchlab.analysis.evidence import Device

UNTOLD = 0.05
SCHEDULERS = ("none", "mq-deadline", "bfq")


@dataclass(frozen=True)
class Host:
    """`scheduler` and `write_cache`: of its SCSI disks. `firmware`: by disk."""

    kernel: str
    spins: bool
    scheduler: str
    write_cache: str
    firmware: Mapping[str, str]


def host(dice):
    own = dice.random() < 0.2
    names = [*(f"sd{letter}" for letter in "bcdefghijklm"), "nvme0n1"]
    drawn = dice.integers(1, 5, len(names)) if own else np.ones(len(names), int)
    return Host(
        kernel=str(dice.choice(["6.1.0-28-amd64", "5.14.0-503.el9"])),
        spins=bool(dice.random() < 1 / 3),
        scheduler=str(dice.choice(SCHEDULERS)),
        write_cache=str(dice.choice(["write back", "write through"])),
        firmware={name: f"{number}.0" for name, number in zip(names, drawn, strict=True)},
    )


def devices(dice, of, names, scheduler="", **more):
    """{name: device} as told before one run. `scheduler`: which was set for this run on purpose."""
    return {
        name: _told(dice, _device(of, name, scheduler, more)) for name in (*names, "nvme9n1", "sda")
    }


def _device(of, name, scheduler, more):
    nvme = name.startswith("nvme")
    return Device(
        name,
        10**12,
        of.spins and not nvme,
        scheduler or ("none" if nvme else of.scheduler),
        "write through" if nvme else of.write_cache,
        512,
        4096,
        firmware=of.firmware.get(name, "other"),
        **more,
    )


def _told(dice, device):
    """Without what the host did not tell this time."""
    lost = {"scheduler": "", "write_cache": "", "firmware": "", "logical_block": None}
    return replace(device, **{name: no for name, no in lost.items() if dice.random() < UNTOLD})


def conditions(dice, of):
    return {} if dice.random() < UNTOLD else {"kernel": of.kernel}
