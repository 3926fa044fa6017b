"""The slow disks of a practice host, made in the guest and waited for."""

import subprocess
from collections.abc import Sequence
from typing import Protocol

from benchlab.practice.disks import SlowDisk
from benchlab.practice.errors import PracticeError


class Ssh(Protocol):
    """`PracticeHost.ssh`: runs a command in the guest; PracticeError unless it ends with 0."""

    def __call__(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...


def make(ssh: Ssh, disks: Sequence[SlowDisk]) -> None:
    """For this boot and every later one; raises PracticeError."""
    if not disks:
        return
    lines = "".join(disk.line(index) for index, disk in enumerate(disks))
    ssh("tee", "/etc/practice/slow-disks", stdin=lines)
    ssh("systemctl", "enable", *_units(disks))
    ssh("sync")
    wait_for(ssh, disks)


def wait_for(ssh: Ssh, disks: Sequence[SlowDisk]) -> None:
    """Until each has its size and its serial; raises PracticeError."""
    if not disks:
        return
    # A unit has started only when its disk is attached; at boot that may take a while.
    ssh("systemctl", "start", *_units(disks))
    files = (f"/sys/block/nbd{index}/size" for index in range(len(disks)))
    sizes = [int(sectors) >> 11 for sectors in ssh("cat", *files).stdout.split()]
    if sizes != [disk.size_mb for disk in disks]:
        raise PracticeError(f"the slow disks have {sizes} MiB")
    ssh("udevadm", "settle")  # a disk's serial is known once its udev rule has run


def _units(disks: Sequence[SlowDisk]) -> list[str]:
    return [f"slow-disk@{index}.service" for index in range(len(disks))]
