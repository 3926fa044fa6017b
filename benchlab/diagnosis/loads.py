# SPDX-License-Identifier: Apache-2.0
"""Loads of devices and tests, whichever tool printed them, and the stack of the devices. Pure.

A `Load` is a device's mean over a watcher's reports, or over fio's Disk stats. Accessors of a test take options in the
tools' own names. None means unknown, never 0.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.context.model import Fact
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result

# devices that stand on others: their I/O is counted again at the disks
STACKED = re.compile(r"(md|dm-|zd|bcache|loop|drbd|rbd|nbd|ram|zram|sr)\d*|.*/.*")
PARTITION = re.compile(
    r"((?:nvme\d+n\d+|mmcblk\d+)(?=p\d)|[shv]d[a-z]+(?=\d)|xvd[a-z]+(?=\d))p?\d+"
)
CLASSES = ("logs", "log", "cache", "special", "dedup", "spares", "spare")
# tests behind a test in which its second run is looked for
MAX_APART = 8
# B: from here on a request of an array covers much of a stripe
LARGE_REQUEST = 64 * 1024
# headline figures, of which the first that both tests print is compared
SPEEDS = (
    "iops",
    "bandwidth",
    "write.iops",
    "read.iops",
    "write.block.bandwidth",
    "one.fdatasync.ops",
    "one.fsync.ops",
)
NETWORK_TYPES = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.glusterfs")
VDEV = re.compile(r"(mirror|raidz[123]?|draid[123]?|replacing|spare)[-\w:]*")


@dataclass(frozen=True, slots=True)
class Load:
    """I/O of one device. Rates are a second's, times in s; `result` is the index in Evidence.results."""

    device: str
    result: int
    line: int
    reads: float
    writes: float
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    read_await: float | None = None
    write_await: float | None = None
    # 0 to 1
    util: float | None = None
    queue: float | None = None

    @property
    def write_size(self) -> float | None:
        """Mean size of a write in B."""
        known = self.write_bandwidth is not None and self.writes > 0
        return (self.write_bandwidth or 0) / self.writes if known else None

    @property
    def name(self) -> str:
        """Last part of its name: "sda" of "tank/mirror-0/sda"."""
        return self.device.rpartition("/")[2]


def loads_of(result: Result, index: int) -> Mapping[str, Load]:
    """The loads of a watcher's devices, or of the disks in fio's Disk stats, by name."""
    loads = {}
    for device in result.devices:
        load = _watched(result, index, device) or _counted(result, index, device)
        if load is not None:
            loads[device] = load
    return loads


def all_loads(evidence: Evidence) -> Sequence[Mapping[str, Load]]:
    """The loads of each result, in the results' order."""
    return [loads_of(result, index) for index, result in enumerate(evidence.results)]


def _watched(result: Result, index: int, device: str) -> Load | None:
    zpool = result.number("zpool.write.iops", device) is not None
    prefix = "zpool." if zpool else ""
    reads = result.number(f"{prefix}read.iops", device)
    writes = result.number(f"{prefix}write.iops", device)
    if reads is None or writes is None:
        return None

    def wait(way: str) -> float | None:
        names = (f"zpool.{way}.disk_wait",) if zpool else (f"{way}.await", "await")
        return next((v for n in names if (v := result.number(n, device)) is not None), None)

    return Load(
        device,
        index,
        result.line(f"{prefix}write.iops", device),
        reads,
        writes,
        result.number(f"{prefix}read.bandwidth", device),
        result.number(f"{prefix}write.bandwidth", device),
        wait("read"),
        wait("write"),
        result.number("util", device),
        result.number("queue", device),
    )


def _counted(result: Result, index: int, device: str) -> Load | None:
    """Load by fio's Disk stats, which count I/Os and ticks over the whole run."""
    runtime = result.number("runtime")
    reads = result.number("disk.read.ios", device)
    writes = result.number("disk.write.ios", device)
    if not runtime or reads is None or writes is None:
        return None

    def wait(way: str, ios: float) -> float | None:
        ticks = result.number(f"disk.{way}.ticks", device)
        return ticks / ios if ticks is not None and ios else None

    return Load(
        device,
        index,
        result.line("disk.write.ios", device),
        reads / runtime,
        writes / runtime,
        read_await=wait("read", reads),
        write_await=wait("write", writes),
        util=result.number("disk.util", device),
    )


def whole_disk(name: str) -> str:
    """Name of the disk of a partition: "sda" of "/dev/sda1"; other names without "/dev/"."""
    name = name.removeprefix("/dev/")
    match = PARTITION.fullmatch(name)
    return match[1] if match else name


def is_rotational(evidence: Evidence, device: str) -> bool | None:
    """True for a disk that spins, or for a partition of one."""
    own = evidence.rotational(device)
    return own if own is not None else evidence.rotational(whole_disk(device))


def any_rotational(evidence: Evidence, devices: Iterable[str] = ()) -> bool | None:
    """True if one of the devices spins, False if none does; without devices, of all that the facts name."""
    names = list(devices) or [fact.subject for fact in evidence.facts.with_name("disk.rotational")]
    kinds = [is_rotational(evidence, name) for name in names]
    if any(kinds):
        return True
    return False if kinds and None not in kinds else None


def array_members(evidence: Evidence, array: str) -> Sequence[str]:
    """Names of an array's members as the facts have them."""
    return evidence.facts.text(array, "md.members").split()


def member_loads(evidence: Evidence, array: str, loads: Mapping[str, Load]) -> list[Load]:
    """Loads of the array's members; members that are partitions may be watched as whole disks."""
    found = []
    for member in array_members(evidence, array):
        load = loads.get(member) or loads.get(whole_disk(member))
        if load is not None:
            found.append(load)
    return found


def disk_loads(loads: Mapping[str, Load]) -> list[Load]:
    """Loads of devices that stand on nothing else, without partitions of disks that are there as well."""
    return [
        load
        for name, load in loads.items()
        if not STACKED.fullmatch(name)
        and (whole_disk(name) == name or whole_disk(name) not in loads)
    ]


def vdev_groups(loads: Mapping[str, Load]) -> Mapping[str, list[Load]]:
    """Disks of each pool or vdev of zpool iostat -v, without its log, cache and spare devices."""
    parents = {name.rpartition("/")[0] for name in loads}
    groups: dict[str, list[Load]] = {}
    for name, load in loads.items():
        parent = name.rpartition("/")[0]
        if parent and name not in parents and not set(name.split("/")[1:]) & set(CLASSES):
            groups.setdefault(parent, []).append(load)
    return groups


def log_loads(loads: Mapping[str, Load]) -> list[Load]:
    """Loads of the log devices of zpool iostat -v."""
    return [load for name, load in loads.items() if set(name.split("/")[1:-1]) & {"logs", "log"}]


def tests(evidence: Evidence) -> Iterator[tuple[int, Result]]:
    """The results of tools that made load, with their indices."""
    for index, result in enumerate(evidence.results):
        if not result.watches and result.metrics:
            yield index, result


def writes_only(result: Result) -> bool:
    """True where the test is known to write and not to read."""
    return result.writes and not result.reads


def reads_only(result: Result) -> bool:
    """True where the test is known to read and not to write."""
    return result.reads and not result.writes


def network_mount(evidence: Evidence, result: Result) -> Fact | None:
    """Type of the network file system that the test's target lies on, as a fact; None for others."""
    mounts = [
        fact
        for fact in evidence.facts.with_name("mount.type")
        if str(fact.value).startswith(NETWORK_TYPES) and result.target.startswith(fact.subject)
    ]
    return mounts[0] if mounts else None


def is_network_target(evidence: Evidence, result: Result) -> bool:
    """True for a test on NFS, SMB or iSCSI, as mounts or the path's own name tell."""
    disks = evidence.runs_on(result)
    iscsi = any(evidence.facts.text(disk, "disk.transport") == "iscsi" for disk in disks)
    named = re.search(r"(^|[/_-])(nfs|cifs|smb)\d*([/_-]|$)", result.target, re.IGNORECASE)
    remark = network_protocol(evidence, result)
    return bool(iscsi or named or remark or network_mount(evidence, result))


def network_protocol(evidence: Evidence, result: Result) -> str:
    """ "nfs", "iscsi" or "smb" where a remark above the test says so; "" without one."""
    remarks = [
        fact
        for fact in evidence.facts
        if fact.name in ("network.protocol", "host.role") and 0 < fact.line <= result.first
    ]
    # a remark such as "(server)" ends what an earlier one said, except on its own line
    last = [fact for fact in remarks if fact.line == remarks[-1].line]
    return next((str(fact.value) for fact in last if fact.name == "network.protocol"), "")


def same_work(one: Result, other: Result) -> bool:
    """True where two tests were asked for the same work, wherever it went."""
    ignored = {"filename", "directory", "name", "of", "target", "runtime", "group_reporting"}
    # bonnie++ prints none of its options, so a second output without its command lacks these
    ignored |= {"d", "user"}

    def work(result: Result) -> dict[str, str]:
        return {k: str(v) for k, v in result.options.items() if k not in ignored}

    return one.kind == other.kind and work(one) == work(other) and one.pattern == other.pattern


def before_and_after(evidence: Evidence) -> Iterator[tuple[int, Result, int, Result, float]]:
    """Pairs of tests of the same work in the text's order, and how many times the second is as fast.

    Each test is compared with the MAX_APART that follow it, so that a text of many results takes linear time.
    """
    rows = list(tests(evidence))
    for place, (first, before) in enumerate(rows):
        for second, after in rows[place + 1 : place + 1 + MAX_APART]:
            if not same_work(before, after):
                continue
            ratio = speed_up(before, after)
            if ratio is not None:
                yield first, before, second, after, ratio


def lines_between(
    evidence: Evidence, before: Result, after: Result, changes: re.Pattern[str]
) -> tuple[int, ...]:
    """Numbers of the lines between two tests that show such a change: a command that was typed, as a rule."""
    lines = evidence.matching_lines(changes)
    return tuple(lines[bisect_right(lines, before.last) : bisect_right(lines, after.first)])


def changed(
    evidence: Evidence, changes: re.Pattern[str], least: float
) -> Iterator[tuple[int, Result, int, Result, float, tuple[int, ...]]]:
    """Pairs of tests of the same work with such a change between them that differ at least that many times."""
    for first, before, second, after, ratio in before_and_after(evidence):
        lines = lines_between(evidence, before, after, changes)
        if lines and max(ratio, 1 / ratio) >= least:
            yield first, before, second, after, ratio, lines


def speed_up(before: Result, after: Result) -> float | None:
    """Ratio of the headline rates; of bonnie++ that of sequential output."""
    for name in SPEEDS:
        old, new = before.number(name), after.number(name)
        if old and new:
            return new / old
    return None


def at(*lines: int) -> tuple[int, ...]:
    """The lines that exist, each once."""
    return tuple(dict.fromkeys(line for line in lines if line > 0))


def headline_text(result: Result) -> str:
    """The headline figure: "408 IOPS"; of large requests "120 MB/s"."""
    operations, rate = result.operations, result.rate
    if rate and (operations is None or (result.block or 0) >= 128 * 1024):
        return wording.rate(rate)
    if operations:
        return wording.ops(operations)
    return wording.rate(rate or result.number("write.block.bandwidth") or 0)


def whole_pools(loads: Mapping[str, Load]) -> list[Load]:
    """Loads of whole pools in zpool iostat."""
    return [load for name, load in loads.items() if "/" not in name]


def zpool_loads(evidence: Evidence) -> Iterator[tuple[int, Result, Mapping[str, Load]]]:
    """Results of zpool iostat with their indices and loads."""
    for index, result in enumerate(evidence.results):
        if result.kind == "zpool_iostat":
            yield index, result, loads_of(result, index)


def pool_names(evidence: Evidence) -> list[str]:
    """Names of the pools that facts or zpool iostat tell of."""
    named = [fact.subject for fact in evidence.facts.with_name("pool.capacity")]
    watched = [load.device for _, _, loads in zpool_loads(evidence) for load in whole_pools(loads)]
    return list(dict.fromkeys((*named, *watched)))


def is_zfs(evidence: Evidence) -> bool:
    """True where facts or a watcher tell of ZFS."""
    return any(f.name.startswith(("pool.", "zfs.")) for f in evidence.facts) or any(
        result.kind == "zpool_iostat" for result in evidence.results
    )


def headline_lines(*results: Result) -> tuple[int, ...]:
    """Lines of the tests' headline figures."""
    return at(*(result.headline() or result.last for result in results))


def array_name(evidence: Evidence) -> str:
    """Name of the first array that the facts tell of; "md0" without one."""
    return next((fact.subject for fact in evidence.facts.with_name("md.level")), "md0")
