# SPDX-License-Identifier: Apache-2.0
"""SCSI disks with serial and WWN, made in a running guest by the kernel's scsi_debug driver."""

from benchlab.practice.errors import PracticeError
from benchlab.practice.host import PracticeHost


def add_scsi_disks(host: PracticeHost, count: int = 2, size_mb: int = 96) -> list[str]:
    """Make `count` disks, /dev/sda and on, in the guest's memory; their names without /dev/.

    They last until the guest's next power loss. Under a delay the driver aborts some reads, so
    they have none: good for identity and layouts, not for numbers.
    """
    if not 1 <= count <= 16:
        raise PracticeError(f"{count} SCSI disks: give 1 to 16")
    host.ssh(
        *("modprobe", "scsi_debug", f"add_host={count}", "per_host_store=1"),
        *(f"dev_size_mb={size_mb}", "delay=0", "removable=0"),
    )
    host.ssh("udevadm", "settle")
    listing = host.ssh("lsblk", "--nodeps", "--noheadings", "--output", "NAME,MODEL").stdout
    names = [line.split()[0] for line in listing.splitlines() if line.split()[1:] == ["scsi_debug"]]
    if len(names) != count:
        raise PracticeError(f"{host.name}: scsi_debug made {len(names)} disks, not {count}")
    return names
