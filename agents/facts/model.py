"""Facts of a host at one moment. Plain data: JSON by cattrs, compared by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypedDict


@dataclass(frozen=True, slots=True)
class Signature:
    """A superblock or table found on a device (wipefs, blkid -p)."""

    type: str  # "ext4", "LVM2_member", "linux_raid_member", "gpt", …
    offset: int = 0  # bytes
    label: str = ""
    uuid: str = ""
    # Devices that share the file system, where its superblock counts them (btrfs); 0: unknown
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Opener:
    """A user of a device inside the kernel that neither holders nor mounts nor open descriptors show."""

    use: str  # "is exported by the SCSI target as fileio_0/lun0"
    cure: str  # what ends that, in words or as a command


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device: disk, partition, or anything stacked (lvm, raid1, crypt, bcache, loop, …)."""

    name: str  # kernel name, "sdb"
    path: str  # "/dev/sdb", "/dev/mapper/bl17-data"
    type: str  # lsblk's TYPE
    size: int  # bytes
    majmin: str  # "8:16"
    model: str = ""
    vendor: str = ""
    firmware: str = ""  # its revision, as SCSI, ATA and NVMe disks tell it
    serial: str = ""
    wwn: str = ""
    # Everything by which its hardware calls itself, in one spelling: two devices that share one are one disk, or cannot
    # be distinguished (agents/facts/identifiers.py)
    identifiers: tuple[str, ...] = ()
    transport: str = ""
    link_bandwidth: int = 0  # B/s that its link carries at most; 0: the host does not tell
    rotational: bool | None = None
    read_only: bool = False
    removable: bool = False
    logical_sector: int = 512
    physical_sector: int = 512
    scheduler: str = ""
    # /sys/block/X/queue: "scheduler", "read_ahead_kb", …, as the kernel prints them
    queue: Mapping[str, str] = field(default_factory=dict, hash=False)
    parents: tuple[str, ...] = ()  # kernel names this one stands on
    # Kernel names standing on this one (/sys/block/*/holders), partitions too
    holders: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()  # mount points, those of other mount namespaces too
    links: tuple[str, ...] = ()  # its other paths: "/dev/dm-0", "/dev/disk/by-id/…", "/dev/md/bl17"
    swap: bool = False
    writers: tuple[str, ...] = ()  # programs that have it open for writing, "qemu-system-x86[4711]"
    openers: tuple[Opener, ...] = ()  # the kernel's targets, journals, zram, …
    signatures: tuple[Signature, ...] = ()
    signatures_known: bool = False  # False: could not be looked for (no root), so nothing is proven
    label: str = ""  # a partition's name in its table, where the host says it (FreeBSD)
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

    path: str  # as `zpool status -P` names it; of a missing one what it was, or its number
    use: str  # "data", "log", "cache", "special", "spare", "dedup"
    group: str = ""  # "mirror-0", "raidz1-0"; "" when it stands alone
    state: str = ""  # "ONLINE", "AVAIL", "UNAVAIL", …


@dataclass(frozen=True, slots=True)
class Zpool:
    """An imported pool."""

    name: str
    state: str = ""  # "ONLINE", "DEGRADED", "SUSPENDED", …
    vdevs: tuple[Vdev, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)  # of pools named like layouts


@dataclass(frozen=True, slots=True)
class Dataset:
    """A file system or volume of a pool that is named like a layout."""

    name: str  # "bl17/data"
    properties: Mapping[str, str] = field(default_factory=dict)
    local: tuple[str, ...] = ()  # those of its properties that were set on itself


@dataclass(frozen=True, slots=True)
class MdMember:
    """A device in an md array."""

    device: str  # kernel name
    number: int  # as /proc/mdstat counts them; not always the slot
    flags: str = ""  # letters: S spare, F failed, W write-mostly, J journal, R replacement


@dataclass(frozen=True, slots=True)
class MdArray:
    """An md array by /proc/mdstat."""

    name: str  # "md127"
    state: str  # "active", "inactive" (not started), "broken"
    level: str = ""  # "raid5"; "" when it is not started
    members: tuple[MdMember, ...] = ()
    chunk: int = 0  # bytes; 0 for a mirror
    layout: str = ""  # of raid10: "n2", "f2", "o2"
    slots: int = 0  # members it should have, spares apart; 0: a level that cannot lose one
    up: int = 0  # of them in order
    bitmap: bool = False
    action: str = ""  # what the kernel does: "resync", "recovery", "reshape", "check", "repair"
    done: float = 0.0  # of that, 0 to 1
    finish_s: float | None = None
    # /sys/block/X/md/…: "stripe_cache_size", as the kernel prints them
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Bcache:
    """A backing or cache device of bcache."""

    set_uuid: str = ""  # of the cache set, as its superblock says; "" when that could not be read
    label: str = ""
    registered: bool = False  # the kernel holds it, running or not
    values: Mapping[str, str] = field(default_factory=dict)  # /sys/block/X/bcache/…: "cache_mode"


class Machine(TypedDict):
    """Fields of HostFacts that say which host it is."""

    hostname: str
    os_family: str
    os_name: str
    kernel: str
    arch: str
    boot_id: str
    cpu_model: str
    cpus: int
    memory: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as it was when its commands ran."""

    hostname: str
    os_family: str  # "debian", "rhel", "suse", "arch", "alpine", "freebsd", …
    os_name: str  # "Debian GNU/Linux 12 (bookworm)"
    kernel: str
    arch: str
    boot_id: str
    cpu_model: str
    cpus: int
    memory: int  # bytes
    root: bool  # commands ran as root (directly or by sudo -n)
    sudo: bool  # passwordless sudo works, or the user is root
    devices: tuple[BlockDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    swaps: tuple[str, ...] = ()  # paths
    dm_tables: tuple[str, ...] = ()  # lines of `dmsetup table`
    dm_status: tuple[str, ...] = ()  # lines of `dmsetup status` of LVM's mirrors
    drivers: Mapping[str, str] = field(default_factory=dict)  # major number -> block driver
    lvm_pvs: tuple[str, ...] = ()  # paths of physical volumes
    md_members: tuple[str, ...] = ()  # kernel names in /proc/mdstat
    md_arrays: tuple[MdArray, ...] = ()
    bcache: Mapping[str, Bcache] = field(default_factory=dict)  # by kernel name
    zpool_members: tuple[str, ...] = ()
    zpools: tuple[Zpool, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    zfs_module: str = ""  # version of the kernel's ZFS, loaded or not; "" when there is none
    # Kernel name -> what it belongs to: "lvm VG", "md NAME", "zpool POOL", "bcache LABEL"
    members: Mapping[str, str] = field(default_factory=dict)
    # Program -> version line; absent: not there
    tools: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)  # "vm.dirty_ratio" -> "20"
    # cpufreq policy -> governor; empty: this kernel cannot change the frequency
    governors: Mapping[str, str] = field(default_factory=dict)
    governor_choices: tuple[str, ...] = ()
    scheduler_modules: tuple[str, ...] = ()  # I/O schedulers that would be loaded when asked for
    # What could not be read, in words; the guard refuses because of it
    unknown: tuple[str, ...] = ()

    def mappings(self) -> Iterator[tuple[str, list[str]]]:
        """Of each segment of a device-mapper table: the mapping's whole name, and start, length, type, …"""
        for line in self.dm_tables:
            name, *words = line.split()
            yield name.removesuffix(":"), words

    def device(self, name_or_path: str) -> BlockDevice | None:
        """The device of that kernel name or /dev path."""
        wanted = name_or_path.removeprefix("/dev/")
        return next(
            (d for d in self.devices if wanted in (d.name, d.path.removeprefix("/dev/"))), None
        )
