# SPDX-License-Identifier: Apache-2.0
"""Evidence for a diagnosis: results, what was watched beside them, and facts of the machine. Pure and frozen.

A paste (benchlab.diagnosis.pasted) and a campaign (benchlab.diagnosis.campaigns) become the same evidence, so that one
rule speaks of both. None means unknown, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents.context.model import Facts
from agents.contracts import Metric, Series

# engines of fio that wait for each I/O in its system call (fio's HOWTO, "I/O engine"); "sync" stands for other tools
BLOCKING_ENGINES = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
# tools whose threads make one system call after another
ONE_CALL_AT_A_TIME = ("dd", "pg_test_fsync", "bonnie", "ioping", "hdparm", "pveperf")
DIRECTIONS = ("read", "write", "trim")
# what a command or its options name as the file or device under test
_TARGET = re.compile(
    r"(?:--?filename[= ]|--?directory[= ]|\b(?:of|if)=|\s-[df] )(/[^\s'\";]+)",
)


@dataclass(frozen=True)
class Result:
    """Output of one tool: a test, or what a watcher saw (`watches`). `metrics` are in base units, with their lines."""

    # reader: "fio", "dd", "iostat"
    kind: str
    # fio's job names, dd's command
    title: str
    metrics: tuple[Metric, ...] = ()
    # what the text shows beside the figures that are stored: fio's Disk stats, ctx, spread of its bandwidth
    details: tuple[Metric, ...] = ()
    series: tuple[Series, ...] = ()
    # of the tool, by its own names; one that is not there was not given
    options: Mapping[str, Any] = field(default_factory=dict)
    # True where the whole command or job file is known: an option that is not there has the tool's default
    options_complete: bool = False
    # I/Os that were asked to be in flight, over all jobs; None if unknown
    outstanding: int | None = None
    command: str = ""
    # lines of the text, from 1; 0 where there is no text
    first: int = 0
    last: int = 0
    # host and layout, by their names; "" for a paste
    host: str = ""
    layout: str = ""
    # id of the run in a campaign; 0 for a paste
    run: int = 0

    def option(self, name: str, default: Any = None) -> Any:
        """Value of the tool's option; where it was not given, `default` if all that were given are known, else None."""
        if name in self.options:
            return self.options[name]
        return default if self.options_complete else None

    def _first_option(self, *names: str) -> Any:
        """Value under the first of the names that was given; None where none was."""
        return next((self.options[name] for name in names if name in self.options), None)

    @property
    def engine(self) -> str:
        """fio's I/O engine, "sync" for a tool that waits for each system call; "" where unknown."""
        if self.kind in ONE_CALL_AT_A_TIME:
            return "sync"
        if self.kind == "sysbench":
            mode = self._first_option("io_mode", "file-io-mode")
            return {"sync": "sync", "mmap": "mmap", "async": "libaio"}.get(str(mode), "sync")
        # a depth that was reached contradicts the default, as on Windows
        alone = self.number("depth.level.1")
        default = "psync" if self.kind == "fio" and (alone is None or alone > 0.9) else ""
        return str(self.option("ioengine", default) or "")

    @property
    def blocking(self) -> bool | None:
        """True where each job waits for its one I/O, whatever depth was asked; None where the engine is unknown."""
        return self.engine.partition(":")[0] in BLOCKING_ENGINES if self.engine else None

    @property
    def jobs(self) -> int | None:
        """Jobs or threads that ran together; None where unknown."""
        jobs = _whole(self._first_option("numjobs", "threads"))
        return jobs or (1 if self.options_complete or self.kind in ONE_CALL_AT_A_TIME else None)

    @property
    def depth(self) -> int | None:
        """I/Os that each job was asked to have in flight; None where unknown."""
        depth = _whole(self._first_option("iodepth", "async_backlog"))
        if depth is not None and not (self.kind == "sysbench" and self.blocking):
            return depth
        return 1 if self.blocking or self.options_complete else None

    @property
    def asked_in_flight(self) -> int | None:
        """I/Os that can be in flight at most, over all jobs: one a job where the engine blocks."""
        if self.jobs is None or self.depth is None:
            return self.outstanding
        return self.jobs * (1 if self.blocking else self.depth)

    @property
    def in_flight(self) -> float | None:
        """Mean number of I/Os in flight, by Little's law: IOPS times mean latency; None where one is not printed."""
        parts = [(self.number(f"{way}.iops"), self.number(f"{way}.lat.mean")) for way in DIRECTIONS]
        printed = [ops * seconds for ops, seconds in parts if ops and seconds]
        if printed:
            return sum(printed)
        ops, seconds = self.operations, self.latency
        return ops * seconds if ops and seconds else None

    @property
    def direct(self) -> bool | None:
        """True past the page cache; None where unknown."""
        if self.kind == "dd":
            flags = self._flags("oflag" if self.writes else "iflag")
            return "direct" in flags if flags or self.command else None
        if self.kind == "sysbench":
            flag = self._first_option("extra_flags", "file-extra-flags")
            return None if flag is None else "direct" in str(flag)
        if self.kind == "bonnie":
            return False
        value = self._first_option("direct", "atomic")
        if value is None:
            return False if self.kind == "fio" and self.options_complete else None
        return _is_on(value)

    @property
    def durable(self) -> bool | None:
        """True where each write, or few of them, is made durable before the next; None where unknown."""
        if self.kind == "pg_test_fsync":
            return True
        if self.kind == "dd":
            return bool(self._flags("oflag") & {"sync", "dsync"})
        if self.kind == "sysbench":
            mode = str(self._first_option("extra_flags", "file-extra-flags") or "")
            return _is_on(self._first_option("fsync_all", "file-fsync-all")) or "sync" in mode
        values = [
            self._first_option(name) for name in ("fsync", "fdatasync", "sync", "sync_file_range")
        ]
        if any(_is_on(value) for value in values if value not in ("none", "0")):
            return True
        if self.number("sync.lat.mean") is not None:
            return True
        return False if self.options_complete else None

    @property
    def flushed_at_end(self) -> bool | None:
        """True where the time of the run includes a flush of all that it wrote; None where unknown."""
        if self.kind == "dd":
            if self._flags("conv") & {"fsync", "fdatasync"}:
                return True
            # dd closes its output before it stops the clock, and the kernel flushes a device that nobody else has open.
            return None if self.target.startswith("/dev/") else False
        if self.kind == "sysbench":
            return _is_on(self._first_option("fsync_end", "file-fsync-end"))
        if self.kind == "bonnie":
            return True
        value = self._first_option("end_fsync", "fsync_on_close")
        if value is None:
            return False if self.options_complete else None
        return _is_on(value)

    @property
    def is_paced(self) -> bool:
        """True where the options ask for a rate or for pauses."""
        return any(self.options.get(name) for name in ("rate", "rate_iops", "thinktime"))

    def _flags(self, name: str) -> set[str]:
        """Flags of a dd operand."""
        value = self._first_option(name) or ()
        return set(value.split(",") if isinstance(value, str) else value)

    @property
    def pattern(self) -> str:
        """fio's word for the access: "read", "randwrite", "randrw"; "" where unknown."""
        if self.kind == "dd":
            # A copy between files whose flags are those of its output measures the output.
            copies = "oflag" in self.options and "iflag" not in self.options
            return str(self._first_option("direction") or ("write" if copies else ""))
        if self.kind == "sysbench":
            mode = str(self._first_option("mode", "file-test-mode") or "")
            return _SYSBENCH_PATTERNS.get(mode, mode)
        if self.kind == "pg_test_fsync":
            return "write"
        option_value = str(self._first_option("rw", "readwrite") or "").partition(":")[0]
        return option_value or ("read" if self.kind == "fio" and self.options_complete else "")

    @property
    def random(self) -> bool | None:
        """True for random access; None where unknown."""
        return self.pattern.startswith("rand") if self.pattern else None

    @property
    def reads(self) -> bool:
        """True where it read, as its figures or its options say."""
        moved = self.number("read.iops") or self.number("read.bandwidth")
        return bool(moved) or self.pattern in ("read", "randread", "rw", "readwrite", "randrw")

    @property
    def writes(self) -> bool:
        """True where it wrote, as its figures or its options say."""
        moved = self.number("write.iops") or self.number("write.bandwidth")
        return bool(moved) or self.pattern in ("write", "randwrite", "rw", "readwrite", "randrw")

    @property
    def block(self) -> float | None:
        """B of one I/O; where no option tells, B/s over IOPS; None where neither does."""
        option_value = self._first_option("block_size", "bs", "blocksize", "obs", "file-block-size")
        if isinstance(option_value, int | float) and option_value > 0:
            return float(option_value)
        rate, operations = self.rate, self.operations
        return rate / operations if rate and operations else None

    @property
    def rate(self) -> float | None:
        """B/s over all directions; None where it is not printed."""
        return self._total("bandwidth")

    @property
    def operations(self) -> float | None:
        """I/Os a second over all directions; None where they are not printed."""
        return self._total("iops")

    def _total(self, name: str) -> float | None:
        whole = self.number(name)
        if whole is not None:
            return whole
        parts = [self.number(f"{way}.{name}") for way in DIRECTIONS]
        printed = [part for part in parts if part is not None]
        return sum(printed) if printed else None

    @property
    def latency(self) -> float | None:
        """Mean s of one I/O as the caller sees it; None where it is not printed."""
        names = ("lat.mean", "read.lat.mean", "write.lat.mean", "clat.mean", "event.mean")
        figures = (self.number(name) for name in names)
        return next((value for value in figures if value is not None), None)

    @property
    def bytes_moved(self) -> float | None:
        """B that were read and written; None where unknown."""
        whole = self._total("bytes")
        if whole is not None:
            return whole
        rate, seconds = self.rate, self.number("runtime")
        return rate * seconds if rate and seconds else None

    @property
    def counted(self) -> float | None:
        """I/Os that the tool counted; None where unknown."""
        whole = self._total("ios")
        operations, seconds = self.operations, self.number("runtime")
        return whole or (operations * seconds if operations and seconds else None)

    def disk_ios(self, way: str = "read") -> float | None:
        """I/Os of that direction at the disk by fio's Disk stats; None where the text has none.

        Of an array and its members the larger of the first line and the sum of the others counts.
        """
        counts = [
            value
            for device in self.devices
            if (value := self.number(f"disk.{way}.ios", device)) is not None
        ]
        return max(counts[0], sum(counts[1:])) if counts else None

    def disk_merges(self, way: str = "read") -> float:
        """I/Os that the kernel merged into others above the disk, by fio's Disk stats; 0 without them."""
        merges = [self.number(f"disk.{way}.merges", device) or 0 for device in self.devices]
        return max(merges[0], sum(merges[1:])) if merges else 0.0

    def lowest_ios(self, way: str = "read") -> float | None:
        """I/Os of that direction at the disks below an array or volume by fio's Disk stats; None without them."""
        ios = [self.number(f"disk.{way}.ios", device) for device in self.devices]
        counts = [value for value in ios if value is not None]
        return sum(counts[1:]) or counts[0] if counts else None

    def disk_line(self, way: str = "read") -> int:
        """Line of the first of fio's Disk stats; 0 where there is none."""
        lines = (self.line(f"disk.{way}.ios", device) for device in self.devices)
        return next((line for line in lines if line), 0)

    def headline(self) -> int:
        """Line of the figure that people quote; 0 where there is none."""
        names = ("iops", "bandwidth", "read.iops", "write.iops", "read.bandwidth")
        lines = (self.line(name) for name in names)
        return next((line for line in lines if line), self.first)

    @property
    def target(self) -> str:
        """Path of the file, directory or device that it worked on; "" where unknown."""
        names = ("filename", "directory", "of", "if", "target")
        option_value = [str(self.options[name]) for name in names if name in self.options]
        printed = [
            path for path in option_value if path.startswith("/") and path not in _NO_TARGETS
        ]
        if printed:
            return printed[0]
        paths = [path for path in _TARGET.findall(self.command) if path not in _NO_TARGETS]
        return paths[0] if paths else ""

    @property
    def watches(self) -> bool:
        """True for a watcher (iostat, zpool iostat): it measured what others did."""
        return self.kind in ("iostat", "zpool_iostat")

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Metric]:
        figures: dict[tuple[str, str], Metric] = {}
        for metric in (*self.metrics, *self.details):
            figures.setdefault((metric.name, metric.labels.get("device", "")), metric)
        return figures

    def metric(self, name: str, device: str = "") -> Metric | None:
        """The figure; None where it is not printed."""
        metric = self._by_name.get((name, device))
        return None if metric is None or metric.value is None else metric

    def number(self, name: str, device: str = "") -> float | None:
        """Value of the figure; None where it is not printed."""
        metric = self.metric(name, device)
        return None if metric is None else metric.value

    def line(self, name: str, device: str = "") -> int:
        """Line of the figure; 0 where there is none."""
        metric = self.metric(name, device)
        return 0 if metric is None else metric.line

    @cached_property
    def devices(self) -> Sequence[str]:
        """Devices that a watcher saw, or that fio's Disk stats name, in the text's order."""
        labels = (m.labels.get("device", "") for m in (*self.metrics, *self.details))
        return [name for name in dict.fromkeys(labels) if name]

    def track(self, metric: str, device: str) -> Series | None:
        """Samples of a watcher or of a log."""
        return self._series_by_name.get((metric, device))

    @cached_property
    def _series_by_name(self) -> Mapping[tuple[str, str], Series]:
        """The first series of each figure and device. A watcher may have seen thousands of devices."""
        by_name: dict[tuple[str, str], Series] = {}
        for series in self.series:
            by_name.setdefault((series.metric, series.device), series)
        return by_name


_SYSBENCH_PATTERNS = {
    "seqwr": "write",
    "seqrewr": "write",
    "seqrd": "read",
    "rndrd": "randread",
    "rndwr": "randwrite",
    "rndrw": "randrw",
}
_NO_TARGETS = ("/dev/zero", "/dev/null", "/dev/urandom", "/dev/random")


def _whole(value: Any) -> int | None:
    """Value of an option that counts; None where it is no number."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _is_on(value: Any) -> bool:
    """True for a switch, or a number of it, that is not off."""
    return value not in (None, False, 0, "", "0", "off", "none", "false", "no")


# disks of guests and networks: their beginnings, and words of their models
VIRTUAL_NAMES = ("vd", "xvd", "nbd", "rbd", "zram")
VIRTUAL_MODELS = ("qemu", "virtual", "vbox", "elastic block", "persistentdisk", "ephemeral")


# disks that say nothing of the medium below: their rotational flag is a default of the hypervisor
_VIRTUAL = ("vd", "xvd", "rbd", "nbd", "drbd")
_VIRTUAL_MODEL = re.compile(r"QEMU|VBOX|VMware|Virtual|Amazon|Google|PersistentDisk", re.IGNORECASE)


@dataclass(frozen=True)
class Evidence:
    """All that a diagnosis may use. `lines` are those of the paste, for quotation; empty for a campaign."""

    results: tuple[Result, ...] = ()
    facts: Facts = field(default_factory=Facts)
    lines: tuple[str, ...] = ()

    @property
    def tests(self) -> Sequence[Result]:
        """Results of tools that made load."""
        return [result for result in self.results if not result.watches and result.metrics]

    @cached_property
    def numbered_tests(self) -> Sequence[tuple[int, Result]]:
        """Results of tools that made load, each with its place in `results`."""
        return [
            (place, result)
            for place, result in enumerate(self.results)
            if not result.watches and result.metrics
        ]

    @property
    def watchers(self) -> Sequence[Result]:
        return [result for result in self.results if result.watches]

    def quote(self, line: int) -> str:
        """That line of the paste; "" for line 0."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    @cached_property
    def _matching_lines(self) -> dict[re.Pattern[str], Sequence[int]]:
        return {}

    def matching_lines(self, pattern: re.Pattern[str]) -> Sequence[int]:
        """Numbers of the lines in which the pattern is found, ascending. The text is searched once for each pattern."""
        if pattern not in self._matching_lines:
            self._matching_lines[pattern] = [
                number for number, line in enumerate(self.lines, 1) if pattern.search(line.strip())
            ]
        return self._matching_lines[pattern]

    def index(self, result: Result) -> int:
        """Place of the result in `results`."""
        return next(i for i, other in enumerate(self.results) if other is result)

    def runs_on(self, result: Result) -> tuple[str, ...]:
        """Kernel names of the disks below the result's target, as far as facts tell; empty where they do not.

        Without a word about the target, the only disk that the text names counts.
        """
        start = self._device_of(result.target)
        below = self._disks_below(start) if start else ()
        if below:
            return below
        disks = self.disks
        listed = [name for name in result.devices if name in disks]
        if not result.watches and listed:
            return tuple(listed)
        alike = {(self.facts.text(d, "disk.model"), self.rotational(d)) for d in disks}
        if list(disks) == [""]:
            # a sentence tells of disks that it does not name
            return ("",) * int(self.facts.number("", "disk.count") or 1)
        return tuple(disks) if len(alike) == 1 else ()

    def _device_of(self, path: str) -> str:
        """Device that a path names or lies on by the mounts; "" where unknown."""
        if path.startswith("/dev/"):
            return path.removeprefix("/dev/").removeprefix("mapper/")
        mounts = [
            (fact.subject, str(fact.value))
            for fact in self.facts.with_name("mount.source")
            if path == fact.subject or path.startswith(fact.subject.rstrip("/") + "/")
        ]
        mounts += [
            (str(fact.value), fact.subject)
            for fact in self.facts.with_name("disk.mountpoint")
            if path == fact.value or path.startswith(str(fact.value).rstrip("/") + "/")
        ]
        source = max(mounts, key=lambda pair: len(pair[0]), default=("", ""))[1]
        return source.removeprefix("/dev/").removeprefix("mapper/")

    def _disks_below(self, device: str, deep: int = 0) -> tuple[str, ...]:
        """Disks that a partition, array or volume stands on; the device itself where it is one."""
        if deep > 8 or not device:
            return ()
        members = self.facts.text(device, "md.members").split()
        if not members:
            members = self.facts.text(device, "disk.parent").split()
        if not members and device not in self.disks:
            whole = re.sub(r"(?<=\d)p\d+$|(?<=[a-z])\d+$", "", device)
            members = [whole] if whole != device else []
        if members:
            figures = [disk for name in members for disk in self._disks_below(name, deep + 1)]
            return tuple(dict.fromkeys(figures))
        return (device,) if device in self.disks else ()

    @cached_property
    def disks(self) -> Sequence[str]:
        """Kernel names of the whole disks that facts speak of, in the text's order."""
        about = ("disk.model", "disk.rotational", "disk.transport", "disk.write_cache", "disk.rpm")
        parts = {f.subject for f in self.facts.with_name("disk.parent")}
        names = [f.subject for f in self.facts if f.name in about and f.subject not in parts]
        virtual = ("part", "lvm", "crypt", "loop", "rom")
        return [
            name
            for name in dict.fromkeys(names)
            if self.facts.text(name, "disk.type") not in virtual
            and not name.startswith(("md", "dm-", "loop", "sr", "zd"))
        ]

    def rotational(self, disk: str) -> bool | None:
        """True for a disk that spins; None where the text does not tell, as of a guest's or a cloud's disk."""
        model, transport = (
            self.facts.text(disk, f"disk.{name}") for name in ("model", "transport")
        )
        if disk.startswith(_VIRTUAL) or transport == "virtio" or _VIRTUAL_MODEL.search(model):
            return None
        fact = self.facts.find(disk, "disk.rotational")
        if self.facts.number(disk, "disk.rpm"):
            return True
        transport = self.facts.text(disk, "disk.transport")
        if fact is not None and not (fact.value and self._is_virtual(disk)):
            return bool(fact.value)
        return False if transport == "nvme" or disk.startswith("nvme") else None

    def _is_virtual(self, disk: str) -> bool:
        """True for a disk of a guest or a network, which the kernel calls rotational for want of a better word."""
        model = self.facts.text(disk, "disk.model").lower()
        named = disk.startswith(VIRTUAL_NAMES) or any(word in model for word in VIRTUAL_MODELS)
        return named or self.facts.text(disk, "disk.transport") in ("virtio", "iscsi")

    def all_rotational(self, disks: Iterable[str]) -> bool | None:
        """True where all of them spin, False where none does; None where unknown or mixed."""
        kinds = {self.rotational(disk) for disk in disks}
        return next(iter(kinds)) if len(kinds) == 1 else None

    def fact_line(self, subject: str, name: str) -> int:
        """Line of the fact; 0 where the text does not tell."""
        fact = self.facts.find(subject, name)
        return 0 if fact is None else fact.line

    def watched_test(self, watcher: Result) -> Result | None:
        """Test that the watcher most likely watched: the only one, or the one printed next before it."""
        tests = self.tests
        before = [test for test in tests if test.last < watcher.first]
        return before[-1] if before else (tests[0] if len(tests) == 1 else None)
