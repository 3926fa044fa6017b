# SPDX-License-Identifier: Apache-2.0
"""Evidence for findings: a run, or a set-up's runs of one workload, as plain frozen data in base units. Pure.

None, NaN or an empty mapping means "unknown", never 0. What the findings ask of a run, of a layer or of a line is a
property of it. Test cases are the same as JSON.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from benchlab.analysis.designs import Order

# s: clocks of one host, as read by two programs, may differ by this
NEAR = 0.02
# least number of whole samples within what was measured of which anything is told
ENOUGH_SAMPLES = 5
# layers where one byte requested is one byte of one disk
STRAIGHT = {"raw", "partition", "dm_crypt", "tuning"}
# layers that may keep data on their own account
CACHES = {"bcache", "flashcache", "lvm_cache", "zpool", "zfs", "zvol"}
# md levels whose members hold the same data, without parity to be read first
MIRRORS = {1, 10}
# number of parity disks by the level of an array, and by the layout of a pool
MD_PARITY = {4: 1, 5: 1, 6: 2}
POOL_PARITY = {"raidz": 1, "raidz1": 1, "raidz2": 2, "raidz3": 3}
# copies of a mirror whose number of copies is unknown
DEFAULT_MIRROR_COPIES = 2
# uses of disks that carry nothing while no disk fails
IDLE = ("spare",)
# uses of disks that hold no data of their own
AUXILIARY = ("cache", "log")
# prefix of the moments of runs after a growth: benchlab.topologies.moments
AFTER = "after-"
OFF = ("", "off", "no", "none", "false")
PACKING = ("compression", "dedup", "deduplication")
# beginnings of options that slow a tool down on purpose, and values that switch such an option off
HELD_BACK = ("rate", "think")
NO = (None, False, 0, "", "0")
# fio's engines that have one I/O at a time, whatever the depth, and its options that flush every few writes
SYNCHRONOUS_ENGINES = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice")
FLUSHING = ("fsync", "fdatasync", "sync_file_range")
# fio's options that make a thread spin for completions, and words in the names of engines that always do
POLLS = ("hipri", "hipri_percentage", "iopoll", "sqthread_poll")
POLLING_ENGINES = ("spdk",)
# figure that tools print beside the CPU time of the whole machine; without it the time is that of their own threads
MACHINE_BUSY = "cpu.busy"


@dataclass(frozen=True, slots=True)
class Access:
    """Pattern of a tool's access to the storage. None: unknown for this tool with these options."""

    reads: bool | None = None
    writes: bool | None = None
    random: bool | None = None
    # B, of the smallest request
    block: int | None = None
    # True if it bypasses the page cache
    direct: bool | None = None
    # True if each write is made durable before the next
    synced: bool | None = None
    # True if its buffers are zeros or repeat themselves
    compressible: bool | None = None
    # B of the range that it covers
    size: int | None = None
    # s of ramp that come first and are not measured
    ramp_s: float | None = None
    runtime_s: float | None = None
    # I/Os in flight, over all its workers
    outstanding: int | None = None

    @property
    def only_direction(self) -> str:
        """ "read" or "write" for a tool that is known to do only that; "" for others and if it is unknown."""
        if self.reads is None or self.writes is None or self.reads is self.writes:
            return ""
        return "read" if self.reads else "write"


@dataclass(frozen=True, slots=True)
class Device:
    """A disk of the layout, as the host reported it before the run."""

    # kernel name, "sdb"
    name: str
    # B
    size: int | None = None
    rotational: bool | None = None
    scheduler: str = ""
    write_cache: str = ""
    # B
    logical_block: int | None = None
    # B
    physical_block: int | None = None
    # B/s that its link can carry
    link: float | None = None
    # op/s according to its data sheet
    rated_iops: float | None = None
    # B/s according to its data sheet
    rated_bandwidth: float | None = None
    firmware: str = ""
    # as the disk reports it: "SAMSUNG MZ7LH960"
    model: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the stack, from the bottom. `uses`: the disks given to it, by use ("data", "cache", "log")."""

    # kind of its driver: "lvm", "zpool"
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def level(self) -> object:
        """Level of an md array; None for other layers."""
        return self.options.get("level", 5) if self.kind == "md" else None

    @property
    def straight(self) -> bool:
        """True if each byte requested is one byte of one disk, and the layer does nothing by itself."""
        if self.kind == "lvm":
            return self.options.get("type", "striped") in ("linear", "striped")
        return self.kind in STRAIGHT or self.level == 0

    @property
    def quiet(self) -> bool:
        """True if it neither reads during writes alone nor writes during reads alone, except for stray metadata."""
        if self.kind == "filesystem":
            return self.options.get("type", "xfs") in ("xfs", "ext4")
        return self.straight or self.kind == "lvm" or self.level in MIRRORS

    @property
    def copies(self) -> int | None:
        """Number of times that it writes each byte; None for a mirror with an unknown number of sides."""
        layout = str(self.options.get("layout", ""))
        if (self.kind, self.options.get("type")) == ("lvm", "mirror") or self.level == 1:
            return len(self.uses.get("data", ())) or None
        if self.level == 10:
            # md uses n2 by default.
            digits = layout[1:] if layout else "2"
            return int(digits) if digits.isdigit() else None
        if (self.kind, layout) == ("zpool", "mirror"):
            width = self.options.get("width") or 2
            return width if isinstance(width, int) and width > 0 else None
        return 1

    @property
    def parity(self) -> int:
        """Number of its parity disks; 0 without any, or for a level that is not reported as a number."""
        if self.kind == "zpool":
            return POOL_PARITY.get(str(self.options.get("layout", "")), 0)
        return MD_PARITY.get(self.level, 0) if isinstance(self.level, int) else 0


def _disks(layers: Iterable[Layer], without: Sequence[str] = ()) -> tuple[str, ...]:
    """Disks of the layers, each once, except those of some uses."""
    groups = (names for layer in layers for use, names in layer.uses.items() if use not in without)
    return tuple(dict.fromkeys(name for names in groups for name in names))


@dataclass(frozen=True, slots=True)
class Window:
    """A span of the run in s, on the clock of its tracks. Figures cover only the `measured` ones."""

    name: str
    start: float
    end: float
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Track:
    """One metric of one device over the run; `device` is "" for the whole host. `times`: s, at the interval's end."""

    device: str
    # "read.iops", "write.bandwidth", "queue", "cpu.steal"
    metric: str
    unit: str
    times: tuple[float, ...]
    # NaN where unknown
    values: tuple[float, ...]
    # s that each value covers; empty: the time since the previous one
    lengths: tuple[float, ...] = ()

    def spans(self) -> tuple[float, ...]:
        """Lengths of the intervals, or their values derived from `times`."""
        return self.lengths or _intervals(self.times)

    def intervals_within(self, windows: Sequence[Window]) -> Track:
        """Only the intervals that lie wholly in one of the windows."""
        spans = self.spans()
        parts = sorted(self._range(spans, window) for window in windows)
        if len(parts) == 1:
            whole = slice(*parts[0])
            return self._with_intervals(self.times[whole], self.values[whole], spans[whole])
        indices = dict.fromkeys(at for first, end in parts for at in range(first, end))
        each = (self.times, self.values, spans)
        return self._with_intervals(*(tuple(column[at] for at in indices) for column in each))

    def _with_intervals(
        self, times: tuple[float, ...], values: tuple[float, ...], lengths: tuple[float, ...]
    ) -> Track:
        return Track(self.device, self.metric, self.unit, times, values, lengths)

    def _range(self, spans: Sequence[float], window: Window) -> tuple[int, int]:
        """Range of the indices of the intervals that lie wholly in the window; their ends are in order."""
        first = bisect_left(self.times, window.start - NEAR)
        end = bisect_right(self.times, window.end + NEAR)
        while first < end and self.times[first] - spans[first] < window.start - NEAR:
            first += 1
        return first, end

    @property
    def known_samples(self) -> int:
        """Number of its known values."""
        return int(np.count_nonzero(~np.isnan(np.asarray(self.values, dtype=float))))

    def mean(self) -> float:
        """Mean over time of the known values; NaN without any."""
        values, spans = np.asarray(self.values, dtype=float), np.asarray(self.spans())
        is_known = ~np.isnan(values) & (spans > 0)
        if not is_known.any():
            return float("nan")
        return float(np.average(values[is_known], weights=spans[is_known]))


# All tracks of one sampler have the same times.
@lru_cache(maxsize=16)
def _intervals(times: tuple[float, ...]) -> tuple[float, ...]:
    """Seconds from each time to the next, and the length that the first interval must have."""
    if not times:
        return ()
    between = [after - before for before, after in pairwise(times)]
    first = between[0] if between else times[0]
    return (min(times[0], first) or first, *between)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that the tool printed under labels: {"method": "fdatasync"}."""

    name: str
    value: float
    unit: str
    labels: Mapping[str, str] = field(default_factory=dict)


def tool_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool's options with fio's further ones and those of a job file; a switch without a value is on."""
    named = {name: value for name, value in options.items() if name not in ("extra", "job_file")}
    lines = str(options.get("job_file") or "").splitlines()
    for argument in (*(options.get("extra") or ()), *lines):
        name, assigned, value = str(argument).partition("=")
        named[name.strip()] = value.strip() if assigned else True
    return named


def polls(options: Mapping[str, Any]) -> bool:
    """True if a thread of the tool, or of the kernel for it, spins for completions."""
    named = tool_options(options)
    engine = str(named.get("ioengine") or "")
    spins = any(named.get(name) not in NO for name in POLLS)
    return spins or any(word in engine for word in POLLING_ENGINES)


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a run that succeeded. `figures`: those without labels, by name, in base units."""

    tool: str
    access: Access = Access()
    # the tool's options, as they were requested
    options: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    # notes on those figures that have one
    notes: Mapping[str, str] = field(default_factory=dict)
    labelled: tuple[Figure, ...] = ()
    windows: tuple[Window, ...] = ()
    tracks: tuple[Track, ...] = ()
    layers: tuple[Layer, ...] = ()
    devices: Mapping[str, Device] = field(default_factory=dict)
    # B of memory of the host
    memory: int | None = None
    # Conditions of the host, in words: {"kernel": "6.1.0-28"}.
    conditions: Mapping[str, str] = field(default_factory=dict)
    # What the runner recorded: "clock_step", caches, resyncs meanwhile.
    meta: Mapping[str, Any] = field(default_factory=dict)
    # names of the settings that were set for it on purpose: "scheduler"
    requested: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    # reason, in words, why it may have read blocks that nothing ever wrote
    unwritten: str = ""
    # the moment of a layout that grows: "" as built
    stage: str = ""
    # True if this lab measured it, False if it was imported
    ours: bool = True
    # for links; 0 in cases
    run: int = 0
    attempt: int = 0

    @property
    def depth(self) -> int:
        """I/Os in flight over all workers; 0 if unknown."""
        return self.access.outstanding or 0

    @property
    def measured_windows(self) -> list[Window]:
        return [window for window in self.windows if window.measured]

    def measured_tracks(
        self, metric: str, devices: Iterable[str] | None = None
    ) -> tuple[Track, ...]:
        """Tracks of that metric over the measured windows, of these devices only or of all.

        A run whose tool reported no windows is measured as a whole.
        """
        device_names = None if devices is None else set(devices)
        measured = self.measured_windows
        return tuple(
            track.intervals_within(measured) if measured else track
            for track in self.tracks
            if track.metric == metric and (device_names is None or track.device in device_names)
        )

    def means(self, metric: str, devices: Iterable[str] | None = None) -> dict[str, float]:
        """{device: mean over the measured windows}, NaN where it is unknown or known of too few samples."""
        return {
            track.device: track.mean() if self._is_sampled(track) else float("nan")
            for track in self.measured_tracks(metric, devices)
        }

    def _is_sampled(self, track: Track) -> bool:
        """True if its samples are enough to speak for the run. What a source printed of a whole run is one value."""
        return not self.ours or sum(not isnan(value) for value in track.values) >= ENOUGH_SAMPLES

    def total_rate(self, metric: str, devices: Iterable[str]) -> float | None:
        """The sum of their means over the measured windows; None if one of them is unknown."""
        names = set(devices)
        means = self.means(metric, names)
        values = [means.get(name, float("nan")) for name in names]
        return None if not values or any(np.isnan(values)) else float(np.sum(values))

    def disk_rate(self, way: str) -> float | None:
        """B/s that all active disks "read" or "write" together, by the kernel; None if it is unknown."""
        return self.total_rate(f"{way}.bandwidth", self.active_disks)

    def disk_samples(self, way: str) -> int:
        """Least number of measured samples of the bandwidth among the active disks; 0 if nobody watched them."""
        tracks = self.measured_tracks(f"{way}.bandwidth", self.active_disks)
        return min((len(track.times) for track in tracks), default=0)

    def tool_figure(self, way: str) -> str:
        """Name of the figure that holds the tool's rate of "read" or "write"; its only rate if that is all it does."""
        own = f"{way}.bandwidth"
        return "bandwidth" if self.access.only_direction == way and own not in self.figures else own

    def tool_rate(self, way: str) -> float | None:
        """B/s that the tool counted for "read" or "write"; None if it is unknown."""
        value = self.figures.get(self.tool_figure(way))
        return None if value is None or isnan(value) else value

    @property
    def only_writes(self) -> bool:
        """True when the tool is known to read nothing."""
        return self.access.only_direction == "write" and not self.figures.get("read.bandwidth")

    @property
    def held_back(self) -> str:
        """The first option that slows the tool down on purpose, also one of fio's own; "" without one."""
        options = tool_options(self.options)
        slowing = (name for name in options if name.startswith(HELD_BACK))
        return next((name for name in slowing if options[name] not in NO), "")

    @property
    def queues(self) -> bool:
        """True unless each of its workers has one I/O at a time: a synchronous engine, or a depth of 1."""
        options = tool_options(self.options)
        one_each = str(options.get("ioengine", "")) in SYNCHRONOUS_ENGINES
        return self.depth > 1 and not one_each and str(options.get("numjobs", 1)) != str(self.depth)

    @property
    def flushes(self) -> bool:
        """True if it makes its writes durable now and then, which takes time that no latency includes."""
        options = tool_options(self.options)
        asked = any(options.get(name) not in NO for name in FLUSHING)
        return bool(self.access.synced) or asked or "sync.lat.mean" in self.figures

    @property
    def polled(self) -> bool:
        """True if a thread spins for completions: it is always busy, whatever it has to do."""
        return polls(self.options)

    @property
    def own_thread(self) -> float:
        """Busy share of the tool's thread, a mean over its jobs; NaN if that is unknown, or if it polls."""
        if MACHINE_BUSY in self.figures or self.polled:
            return float("nan")
        return sum(self.figures.get(f"cpu.{kind}", float("nan")) for kind in ("user", "system"))

    @property
    def layout_disks(self) -> tuple[str, ...]:
        """All disks of the layout, each once."""
        return _disks(self.layers)

    @property
    def active_disks(self) -> tuple[str, ...]:
        """All disks that carry something."""
        return _disks(self.layers, IDLE)

    @property
    def straight(self) -> bool:
        """True when each byte requested is one byte of one disk, and no layer does anything by itself."""
        return bool(self.layers) and all(layer.straight for layer in self.layers)

    @property
    def quiet(self) -> bool:
        """True if no layer reads during writes alone, nor writes during reads alone, except for stray metadata."""
        return bool(self.layers) and all(layer.quiet for layer in self.layers)

    @property
    def cached(self) -> bool:
        """True when a layer keeps data on its own account; unknown layers may."""
        return not self.layers or any(layer.kind in CACHES for layer in self.layers)

    @property
    def packing(self) -> str:
        """The layer that compresses or deduplicates, in words: "zfs (compression lz4)"; "" without one.

        btrfs does not compress what is written past the page cache; ZFS does.
        """
        past = self.access.direct and self.access.writes
        for layer in self.layers:
            for option in PACKING:
                value = str(layer.options.get(option, "")).lower()
                if value not in OFF:
                    return f"{layer.kind} ({option} {value})"
            for word in () if past else layer.options.get("mount_options") or ():
                if str(word).startswith("compress"):
                    return f"{layer.kind} ({word})"
        return ""

    @property
    def copies(self) -> int:
        """Least number of copies of each byte written on the disks; 1 if it is unknown."""
        return max((layer.copies or 1 for layer in self.layers), default=1)

    @property
    def write_multiple(self) -> float:
        """Bytes on the disks for each byte written, by the layout: copies, the parity of small writes, a cache."""
        factor = 1.0
        for layer in self.layers:
            factor *= (layer.copies or DEFAULT_MIRROR_COPIES) * (1 + layer.parity)
            if layer.kind not in ("md", "zpool") and layer.uses.get("cache"):
                factor *= 2
        return factor

    @property
    def resyncing(self) -> bool:
        """True if an array was resynced or checked during the run."""
        tracks = self.measured_tracks("sync.bandwidth")
        going = (value > 0 for track in tracks for value in track.values)
        return bool(self.meta.get("during")) or any(going)


@dataclass(frozen=True, slots=True)
class Line:
    """A set-up's runs of one workload in one campaign, at one moment: a curve, or a bar.

    `repeats` distinguishes the repeats; the depth of each run is in its access.
    """

    # name of the line in the charts
    name: str
    workload: str
    runs: tuple[Run, ...]
    # number of the repeat, for each run
    repeats: tuple[int, ...]
    topology: int = 0
    # order in which it and the other lines were measured
    order: str = Order.ONE_AFTER_OTHER
    host: int = 0
    # ln ratios of pairs of builds of this lab that should be equal: benchlab.analysis.designs.
    rebuilt: tuple[float, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.runs[0].layers

    @property
    def data_disks(self) -> tuple[str, ...]:
        """Disks that hold the data of the line, each once."""
        layers = (
            layer
            for layer in self.layers
            if not (layer.kind == "partition" and layer.options.get("use") in AUXILIARY)
        )
        return _disks(layers, AUXILIARY)

    def sweep_values(self, figure: str) -> dict[int, dict[int, float]]:
        """{outstanding I/Os, 0 if unknown: {repeat: value}} for benchlab.analysis.verdicts."""
        sweep: dict[int, dict[int, float]] = {}
        for run, repeat in zip(self.runs, self.repeats, strict=True):
            if not isnan(run.figures.get(figure, float("nan"))):
                sweep.setdefault(run.depth, {})[repeat] = run.figures[figure]
        return sweep
