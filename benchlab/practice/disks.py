# SPDX-License-Identifier: Apache-2.0
"""The disks of a practice host: fast ones from files, slow ones and SCSI ones made in the guest."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from benchlab.practice.errors import PracticeError

MOST_DISKS = 15
"""User Mode Linux has 16 ubd devices, and the first one carries the root file system.

QEMU would take some more; one limit is enough.
"""

MOST_SLOW_DISKS = 16
"""One process each in a kernel with one CPU: more would be slow for another reason."""


@dataclass(frozen=True)
class DiskSpec:
    """A fast disk, /dev/ubdb or vdb and on: a sparse file here; keeps data over a power cut.

    Without `serial` the guest shows none, so the disk's identity is weak. `iops` caps reads and
    writes together, as a cloud does; only QEMU hosts can.
    """

    size_mb: int = 512
    serial: str | None = None
    iops: int | None = None

    def __post_init__(self) -> None:
        _check_size(self.size_mb)
        _check_serial(self.serial)
        if self.iops is not None and self.iops < 1:
            raise PracticeError(f"a disk of {self.iops} IOPS: give 1 or more, or leave it out")


@dataclass(frozen=True)
class SlowDisk:
    """A disk /dev/nbd0 and on that takes `delay_ms` per request, `threads` requests at a time.

    `memory` loses its data when the guest ends; `file` keeps what was synced, at a higher cost
    per flush, because it lies in the guest's root file system.
    """

    size_mb: int = 256
    delay_ms: int = 1
    threads: int = 1
    store: Literal["memory", "file"] = "memory"
    serial: str | None = None

    def __post_init__(self) -> None:
        _check_size(self.size_mb)
        _check_serial(self.serial)
        if self.delay_ms < 0 or self.threads < 1:
            raise PracticeError(f"a slow disk needs delay_ms >= 0 and threads >= 1: {self}")

    def guest_config_line(self, index: int) -> str:
        """Its line in the guest's /etc/practice/slow-disks, which `slow-disk` there reads."""
        store = f"{self.size_mb}M" if self.store == "memory" else f"/var/lib/slow-{index}.img"
        size, delay = f"{self.size_mb}M", f"{self.delay_ms}ms"
        fields = (str(index), self.store, store, size, str(self.threads), delay, self.serial or "")
        return " ".join(fields).rstrip() + "\n"


class Ssh(Protocol):
    """The type of `PracticeHost.ssh`: runs a command in the guest; PracticeError unless it exits with 0."""

    def __call__(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...


def make_slow(ssh: Ssh, disks: Sequence[SlowDisk]) -> None:
    """Slow the disks down in the guest, for this boot and every later one. Raises PracticeError."""
    if not disks:
        return
    lines = "".join(disk.guest_config_line(index) for index, disk in enumerate(disks))
    ssh("tee", "/etc/practice/slow-disks", stdin=lines)
    ssh("systemctl", "enable", *_units(disks))
    ssh("sync")
    wait_for_slow(ssh, disks)


def wait_for_slow(ssh: Ssh, disks: Sequence[SlowDisk]) -> None:
    """Until each has its size and its serial; raises PracticeError."""
    if not disks:
        return
    # A unit has started only when its disk is attached; at boot that may take a while.
    ssh("systemctl", "start", *_units(disks))
    files = (f"/sys/block/nbd{index}/size" for index in range(len(disks)))
    sizes = [int(sectors) >> 11 for sectors in ssh("cat", *files).stdout.split()]
    if sizes != [disk.size_mb for disk in disks]:
        raise PracticeError(f"the slow disks have {sizes} MiB")
    # a disk's serial is known once its udev rule has run
    ssh("udevadm", "settle")


def _units(disks: Sequence[SlowDisk]) -> list[str]:
    return [f"slow-disk@{index}.service" for index in range(len(disks))]


def _check_size(size_mb: int) -> None:
    if not 1 <= size_mb <= 1 << 20:
        raise PracticeError(f"a disk of {size_mb} MiB: give 1 MiB to 1 TiB")


def _check_serial(serial: str | None) -> None:
    if serial is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,20}", serial):
        raise PracticeError(f"serial {serial!r}: give 1 to 20 letters, digits, dots, dashes")
