# SPDX-License-Identifier: Apache-2.0
"""Facts of a pasted text, each with the line that tells it. Plain frozen data; nothing here comes near the guard.

The vocabulary is `FACTS`: a name that is not in it is a mistake of the reader that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Value = str | float | bool

# name of a fact -> what its subject is, and what its value means; base units
FACTS: Mapping[str, str] = {
    # subject: kernel name of a block device, "sda", "md0", "vg-lv", "nvme0n1p1"
    "disk.model": "model as printed",
    "disk.number": 'major and minor number, "8:16"',
    "disk.vendor": "vendor as printed",
    "disk.serial": "serial number as printed",
    "disk.firmware": "firmware revision",
    "disk.size": "B",
    "disk.rotational": "True for a disk that spins",
    "disk.rpm": "revolutions per minute",
    "disk.transport": '"sata", "sas", "nvme", "usb", "virtio", "iscsi"',
    "disk.logical_block": "B",
    "disk.physical_block": "B",
    "disk.write_cache": '"write back" or "write through", as the kernel or hdparm says',
    "disk.fua": "True where the disk takes FUA",
    "disk.scheduler": "active scheduler",
    "disk.readahead": "B",
    "disk.nr_requests": "length of the queue of requests",
    "disk.queue_depth": "requests that the disk itself takes at once",
    "disk.max_request": "B of the largest request that the kernel sends",
    "disk.discard_max": "B; 0 where the disk takes no discard",
    "disk.start": "first sector of a partition, in logical blocks",
    "disk.parent": "kernel name of the device that it is a part of, or stands on",
    "disk.type": '"disk", "part", "lvm", "raid5", "crypt", "rom", "loop" as lsblk has it',
    "disk.mountpoint": "path",
    "disk.link_speed": "B/s that its link carries as negotiated",
    "disk.link_max": "B/s that its link could carry",
    "disk.temperature": "degrees Celsius",
    "disk.temperature_warning": "degrees Celsius from which the disk throttles or warns",
    "disk.throttled": "s, or count, of thermal throttling as the disk reports it",
    "disk.percentage_used": "share of the rated endurance that is used, 0 to 1 and above",
    "disk.health": '"passed" or "failed" by SMART',
    "disk.reallocated": "sectors",
    "disk.pending": "sectors",
    "disk.crc_errors": "errors of the link (UDMA CRC)",
    "disk.media_errors": "errors of the medium",
    "disk.smr": '"drive-managed" or "host-managed" where the disk says so',
    "disk.resets": "True where the kernel's log tells of resets or timeouts",
    "disk.io_errors": "True where the kernel's log tells of I/O errors",
    "disk.protection": "True where the text says that it has power-loss protection",
    "disk.count": "number of disks that a sentence speaks of, where it names none of them",
    "disk.state": "state of a disk as a controller or pool prints it",
    # subject: "md0"
    "md.level": '"raid5", "raid10"',
    "md.members": "kernel names, with one blank between",
    "md.chunk": "B",
    "md.bitmap": '"internal", "external" or "none"',
    "md.bitmap_chunk": "B",
    "md.state": '"clean", "degraded", "resyncing"',
    "md.degraded": "True where a member is missing",
    "md.sync_action": '"resync", "recovery", "check", "reshape"',
    "md.sync_share": "0 to 1",
    "md.sync_speed": "B/s",
    "md.sync_left": "s until the resync ends",
    "md.stripe_cache_size": "pages per member",
    # subject: name of a pool
    "pool.capacity": "share that is full, 0 to 1",
    "pool.fragmentation": "share, 0 to 1",
    "pool.size": "B",
    "pool.free": "B",
    "pool.health": '"ONLINE", "DEGRADED"',
    "pool.ashift": "power of two of its sector",
    "pool.vdevs": 'kinds of its data vdevs, with one blank between: "mirror mirror", "raidz2"',
    "pool.log": "log devices, with one blank between",
    "pool.cache": "cache devices, with one blank between",
    "pool.special": "special devices, with one blank between",
    "pool.dedup_ratio": "1 and above",
    "pool.autotrim": '"on", "off"',
    "pool.scan": '"scrub" or "resilver" that is under way',
    "pool.scan_speed": "B/s",
    "pool.scan_share": "0 to 1",
    # subject: device as `zpool status` names it
    "vdev.parent": "name of its vdev, or of the pool",
    "vdev.state": '"ONLINE", "FAULTED"',
    "vdev.errors": "read, write and checksum errors, summed",
    "vdev.block_configured": "B that the pool takes for its sector, where zpool status complains",
    "vdev.block_native": "B of its sector",
    # subject: dataset or volume, "tank/vm-101-disk-0"
    "zfs.recordsize": "B",
    "zfs.volblocksize": "B",
    "zfs.compression": '"off", "lz4"',
    "zfs.compressratio": "1 and above",
    "zfs.sync": '"standard", "always", "disabled"',
    "zfs.logbias": '"latency", "throughput"',
    "zfs.primarycache": '"all", "metadata", "none"',
    "zfs.secondarycache": '"all", "metadata", "none"',
    "zfs.volsize": "B",
    "zfs.special_small_blocks": "B up to which blocks go to the special devices",
    "zfs.direct": '"standard", "always", "disabled"',
    "zfs.atime": '"on", "off"',
    "zfs.dedup": '"on", "off"',
    "zfs.encryption": '"off", "aes-256-gcm"',
    # subject: "vg/lv"
    "lv.type": '"linear", "striped", "cache", "thin", "thin-pool", "snapshot" by its attributes or segment type',
    "lv.stripes": "number of stripes",
    "lv.stripe_size": "B",
    "lv.size": "B",
    "lv.data_share": "share of a thin pool or snapshot that is used, 0 to 1",
    "lv.origin": "origin of a snapshot or cache",
    "lv.pool": "thin or cache pool",
    "cache.read_hits": "reads that a cache layer served; subject: its device",
    "cache.read_misses": "reads that went below",
    "cache.write_hits": "writes that a cache layer took",
    "cache.write_misses": "writes that went below",
    "cache.hit_share": "0 to 1",
    "cache.size": "B",
    "cache.used_share": "0 to 1",
    "cache.mode": '"writeback", "writethrough", "writearound"',
    "cache.sequential_cutoff": "B",
    "cache.dirty": "B that wait to be written to the origin",
    "cache.promotions": "blocks taken into the cache",
    # subject: device-mapper name
    "crypt.flags": "flags, with one blank between: no_read_workqueue no_write_workqueue",
    "crypt.sector": "B",
    "crypt.cipher": "cipher",
    # subject: cipher, "aes-xts 256b"
    "crypt.benchmark_encrypt": "B/s of one core by cryptsetup benchmark",
    "crypt.benchmark_decrypt": "B/s of one core by cryptsetup benchmark",
    # subject: mount point
    "mount.type": '"ext4", "xfs", "nfs4", "tmpfs"',
    "mount.source": "device or export",
    "mount.options": "options, with one comma between",
    # subject: path that a server exports
    "export.options": "options, with one comma between",
    "fs.used_share": "0 to 1",
    "fs.trimmed": "B that fstrim discarded",
    "fs.sunit": "B",
    "fs.swidth": "B",
    # subject: path of a file
    "file.unwritten": "True where filefrag or the like shows unwritten extents",
    "file.size": "B",
    "file.stored": "B of the blocks that it takes",
    "file.sparse": "True where it holds fewer blocks than its size",
    # subject: "" (the host), or the name of a host that the text gives
    "host.memory": "B",
    "host.cores": "number of CPUs",
    "host.kernel": "release",
    "host.os": '"Linux", "FreeBSD", "Darwin", "Windows"',
    "host.cpu": "model as printed",
    "host.governor": '"performance", "powersave"',
    "host.dirty_share": "share of memory that may be dirty before writers wait, 0 to 1",
    "host.dirty_background_share": "share of memory from which dirty pages are written back, 0 to 1",
    "host.role": '"guest", "host", "client", "server": where a remark on its own line says that what follows was run',
    "network.protocol": '"nfs", "iscsi", "smb", as a remark on its own line has it',
    "host.virtualization": '"kvm", "vmware"',
    "host.network": "B/s of the network that the text names",
    "host.ping": "s of a round trip",
    "host.arc_hit_share": "0 to 1",
    "host.arc_max": "B",
    "host.txg_timeout": "s after which ZFS closes a transaction group",
    "host.zfs_dirty_max": "B of dirty data at which ZFS lets writers wait",
    # subject: disk of a guest, "scsi0", "virtio1", or "" for the guest
    "vm.bus": '"scsi", "virtio", "ide", "sata"',
    "vm.controller": '"virtio-scsi-single", "lsi"',
    "vm.iothread": "True where it has one",
    "vm.aio": '"io_uring", "native", "threads"',
    "vm.cache": '"none", "writeback", "unsafe"',
    # subject: "" or the controller
    "controller.cache_mode": '"write back", "write through"',
    "controller.battery": '"optimal", "learning", "failed", "absent"',
    "controller.model": "as printed",
    "controller.cache_size": "B of its memory",
    # subject: name of a block device, or "" where the text names none
    "throttle.iops": "op/s that a cgroup or hypervisor lets through, reads and writes together",
    "throttle.read_iops": "op/s of reads",
    "throttle.write_iops": "op/s of writes",
    "throttle.bandwidth": "B/s, reads and writes together",
    "throttle.read_bandwidth": "B/s of reads",
    "throttle.write_bandwidth": "B/s of writes",
    # subject: path of a file, or name of a job
    "tool.error": 'error that a tool met: "No space left on device"',
    # subject: name of a volume
    "cloud.kind": '"gp3", "pd-ssd", "Premium SSD": the kind of volume that the text names',
    "cloud.instance": "size of the machine as its provider names it",
    "cloud.iops": "op/s that it is provisioned with",
    "cloud.bandwidth": "B/s that it is provisioned with",
    "replicated.kind": '"longhorn", "rbd", "drbd", "gluster": what replicates it',
    "replicated.copies": "number of replicas",
}

# Facts whose value is a text. Those whose meaning begins with "True" are flags, all others numbers.
TEXTS = frozenset(
    f"{group}.{name}"
    for group, names in {
        "disk": "model number vendor serial firmware transport write_cache scheduler parent type mountpoint health smr "
        "state",
        "md": "level members bitmap state sync_action",
        "pool": "health vdevs log cache special autotrim scan",
        "vdev": "parent state",
        "zfs": "compression sync logbias primarycache secondarycache atime dedup encryption direct",
        "lv": "type origin pool",
        "cache": "mode",
        "crypt": "flags cipher",
        "mount": "type source options",
        "export": "options",
        "host": "kernel os cpu governor virtualization role",
        "network": "protocol",
        "vm": "bus controller aio cache",
        "tool": "error",
        "controller": "cache_mode battery model",
        "cloud": "kind instance",
        "replicated": "kind",
    }.items()
    for name in names.split()
)


def value_type(name: str) -> type[Value]:
    """Type of the values of a fact: str, bool or float."""
    if name in TEXTS:
        return str
    return bool if FACTS[name].startswith("True") else float


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `subject` is what it is about, `name` one of FACTS, `line` counts from 1."""

    subject: str
    name: str
    value: Value
    line: int
    # the command or file that printed it: "lsblk", "/proc/mdstat"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one text, in its order. The first of two facts with one subject and name counts."""

    all: tuple[Fact, ...] = ()
    _index: Mapping[tuple[str, str], Fact] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index: dict[tuple[str, str], Fact] = {}
        for fact in self.all:
            index.setdefault((fact.subject, fact.name), fact)
        object.__setattr__(self, "_index", index)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.all)

    def find(self, subject: str, name: str) -> Fact | None:
        """The fact; None where the text does not tell."""
        return self._index.get((subject, name))

    def text(self, subject: str, name: str) -> str:
        """Its value as text; "" where the text does not tell."""
        fact = self.find(subject, name)
        return "" if fact is None else str(fact.value)

    def number(self, subject: str, name: str) -> float | None:
        """Its value as a number; None where the text does not tell one."""
        fact = self.find(subject, name)
        return None if fact is None or isinstance(fact.value, str) else float(fact.value)

    def with_name(self, name: str) -> Sequence[Fact]:
        """The facts of that name, one a subject, in the text's order."""
        return [fact for fact in self._index.values() if fact.name == name]
