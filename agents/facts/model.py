# SPDX-License-Identifier: Apache-2.0
"""Facts of a host at one moment. Plain data: JSON by cattrs, compared by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signature:
    """A superblock or table found on a device (wipefs, blkid -p)."""

    # "ext4", "LVM2_member", "linux_raid_member", "gpt", …
    type: str
    # bytes
    offset: int = 0
    label: str = ""
    uuid: str = ""
    # Devices that share the file system, where its superblock counts them (btrfs); 0: unknown
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Opener:
    """A user of a device inside the kernel that neither holders nor mounts nor open descriptors show."""

    # "is exported by the SCSI target as fileio_0/lun0"
    use: str
    # what ends that, in words or as a command
    cure: str


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device: disk, partition, or anything stacked (lvm, raid1, crypt, bcache, loop, …)."""

    # kernel name, "sdb"
    name: str
    # "/dev/sdb", "/dev/mapper/bl17-data"
    path: str
    # lsblk's TYPE
    type: str
    # bytes
    size: int
    # "8:16"
    majmin: str
    model: str = ""
    vendor: str = ""
    # its revision, as SCSI, ATA and NVMe disks tell it
    firmware: str = ""
    serial: str = ""
    wwn: str = ""
    # Everything by which its hardware calls itself, in one spelling: two devices that share one are one disk, or cannot
    # be distinguished (agents/facts/identifiers.py)
    identifiers: tuple[str, ...] = ()
    transport: str = ""
    # B/s that its link carries at most; 0: the host does not tell
    link_bandwidth: int = 0
    rotational: bool | None = None
    read_only: bool = False
    removable: bool = False
    logical_sector: int = 512
    physical_sector: int = 512
    scheduler: str = ""
    # /sys/block/X/queue: "scheduler", "read_ahead_kb", …, as the kernel prints them
    queue: Mapping[str, str] = field(default_factory=dict, hash=False)
    # kernel names this one stands on
    parents: tuple[str, ...] = ()
    # Kernel names standing on this one (/sys/block/*/holders), partitions too
    holders: tuple[str, ...] = ()
    # mount points, those of other mount namespaces too
    mounts: tuple[str, ...] = ()
    # its other paths: "/dev/dm-0", "/dev/disk/by-id/…", "/dev/md/bl17"
    links: tuple[str, ...] = ()
    swap: bool = False
    # programs that have it open for writing, "qemu-system-x86[4711]"
    writers: tuple[str, ...] = ()
    # the kernel's targets, journals, zram, …
    openers: tuple[Opener, ...] = ()
    signatures: tuple[Signature, ...] = ()
    # False: could not be looked for (no root), so nothing is proven
    signatures_known: bool = False
    # a partition's name in its table, where the host says it (FreeBSD)
    label: str = ""
    # Bytes from its disk's beginning, of a partition, where the host says it (FreeBSD)
    start: int = 0

    @property
    def identity(self) -> str:
        """Identity of this device, whatever its name: WWN, else serial, else weak (name and size)."""
        if self.wwn:
            return f"wwn:{self.wwn}"
        if self.serial:
            return f"serial:{self.serial}"
        return f"weak:{self.name}:{self.size}"

    @property
    def weak(self) -> bool:
        return not (self.wwn or self.serial)


@dataclass(frozen=True, slots=True)
class Mount:
    source: str
    target: str
    fstype: str
    options: str = ""
    majmin: str = ""


@dataclass(frozen=True, slots=True)
class Vdev:
    """A device of a zpool, and what it is for."""

    # as `zpool status -P` names it; of a missing one what it was, or its number
    path: str
    # "data", "log", "cache", "special", "spare", "dedup"
    use: str
    # "mirror-0", "raidz1-0"; "" when it stands alone
    group: str = ""
    # "ONLINE", "AVAIL", "UNAVAIL", …
    state: str = ""


@dataclass(frozen=True, slots=True)
class Zpool:
    """An imported pool."""

    name: str
    # "ONLINE", "DEGRADED", "SUSPENDED", …
    state: str = ""
    vdevs: tuple[Vdev, ...] = ()
    # of pools named like layouts
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A file system or volume of a pool that is named like a layout."""

    # "bl17/data"
    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    # those of its properties that were set on itself
    local: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MdMember:
    """A device in an md array."""

    # kernel name
    device: str
    # as /proc/mdstat counts them; not always the slot
    number: int
    # letters: S spare, F failed, W write-mostly, J journal, R replacement
    flags: str = ""


@dataclass(frozen=True, slots=True)
class MdArray:
    """An md array by /proc/mdstat."""

    # "md127"
    name: str
    # "active", "inactive" (not started), "broken"
    state: str
    # "raid5"; "" when it is not started
    level: str = ""
    members: tuple[MdMember, ...] = ()
    # bytes; 0 for a mirror
    chunk: int = 0
    # of raid10: "n2", "f2", "o2"
    layout: str = ""
    # members it should have, spares apart; 0: a level that cannot lose one
    slots: int = 0
    # of them in order
    up: int = 0
    bitmap: bool = False
    # what the kernel does: "resync", "recovery", "reshape", "check", "repair"
    action: str = ""
    # of that, 0 to 1
    done: float = 0.0
    finish_s: float | None = None
    # /sys/block/X/md/…: "stripe_cache_size", as the kernel prints them
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Bcache:
    """A backing or cache device of bcache."""

    # of the cache set, as its superblock says; "" when that could not be read
    set_uuid: str = ""
    label: str = ""
    # the kernel holds it, running or not
    registered: bool = False
    # /sys/block/X/bcache/…: "cache_mode"
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as it was when its commands ran."""

    hostname: str
    # "debian", "rhel", "suse", "arch", "alpine", "freebsd", …
    os_family: str
    # "Debian GNU/Linux 12 (bookworm)"
    os_name: str
    kernel: str
    arch: str
    boot_id: str
    cpu_model: str
    cpus: int
    # bytes
    memory: int
    # commands ran as root (directly or by sudo -n)
    root: bool
    # passwordless sudo works, or the user is root
    sudo: bool
    devices: tuple[BlockDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    # paths
    swaps: tuple[str, ...] = ()
    # lines of `dmsetup table`
    dm_tables: tuple[str, ...] = ()
    # lines of `dmsetup status` of LVM's mirrors
    dm_status: tuple[str, ...] = ()
    # major number -> block driver
    drivers: Mapping[str, str] = field(default_factory=dict)
    # paths of physical volumes
    lvm_pvs: tuple[str, ...] = ()
    # kernel names in /proc/mdstat
    md_members: tuple[str, ...] = ()
    md_arrays: tuple[MdArray, ...] = ()
    # by kernel name
    bcache: Mapping[str, Bcache] = field(default_factory=dict)
    zpool_members: tuple[str, ...] = ()
    zpools: tuple[Zpool, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    # version of the kernel's ZFS, loaded or not; "" when there is none
    zfs_module: str = ""
    # Kernel name -> what it belongs to: "lvm VG", "md NAME", "zpool POOL", "bcache LABEL"
    members: Mapping[str, str] = field(default_factory=dict)
    # Program -> version line; absent: not there
    tools: Mapping[str, str] = field(default_factory=dict)
    # "vm.dirty_ratio" -> "20"
    sysctls: Mapping[str, str] = field(default_factory=dict)
    # cpufreq policy -> governor; empty: this kernel cannot change the frequency
    governors: Mapping[str, str] = field(default_factory=dict)
    governor_choices: tuple[str, ...] = ()
    # I/O schedulers that would be loaded when asked for
    scheduler_modules: tuple[str, ...] = ()
    # What could not be read, in words; the guard refuses because of it
    unknown: tuple[str, ...] = ()

    def mappings(self) -> Iterator[tuple[str, list[str]]]:
        """Segments of the device-mapper tables: the mapping's full name, and start, length, type, …"""
        for line in self.dm_tables:
            name, *words = line.split()
            yield name.removesuffix(":"), words

    def find_device(self, name_or_path: str) -> BlockDevice | None:
        """The device of that kernel name or /dev path."""
        name = name_or_path.removeprefix("/dev/")
        return next(
            (d for d in self.devices if name in (d.name, d.path.removeprefix("/dev/"))), None
        )
