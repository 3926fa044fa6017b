# SPDX-License-Identifier: Apache-2.0
"""Evidence for findings: a run, or a set-up's runs of one workload, as plain frozen data in base units. Pure.

None, NaN or an empty mapping means "unknown", never 0. Test cases are the same as JSON (`run_from_json`,
`lines_from_json`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from itertools import pairwise
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.designs import Order

# s: clocks of one host, as read by two programs, may differ by this
NEAR = 0.02


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


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the stack, from the bottom. `uses`: the disks given to it, by use ("data", "cache", "log")."""

    # kind of its driver: "lvm", "zpool"
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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

    def measured_tracks(
        self, metric: str, devices: Iterable[str] | None = None
    ) -> tuple[Track, ...]:
        """Tracks of that metric over the measured windows, of these devices only or of all.

        A run whose tool reported no windows is measured as a whole.
        """
        device_names = None if devices is None else set(devices)
        measured = [window for window in self.windows if window.measured]
        return tuple(
            track.intervals_within(measured) if measured else track
            for track in self.tracks
            if track.metric == metric and (device_names is None or track.device in device_names)
        )

    def total_rate(self, metric: str, devices: Iterable[str]) -> float | None:
        """The sum of their means over the measured windows; None if one of them is unknown."""
        names = set(devices)
        means = {track.device: track.mean() for track in self.measured_tracks(metric, names)}
        values = [means.get(name, float("nan")) for name in names]
        return None if not values or any(np.isnan(values)) else float(np.sum(values))

    def layout_disks(self) -> tuple[str, ...]:
        """All disks of the layout, each once."""
        groups = (names for layer in self.layers for names in layer.uses.values())
        return tuple(dict.fromkeys(name for names in groups for name in names))


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

    def sweep_values(self, figure: str) -> dict[int, dict[int, float]]:
        """{outstanding I/Os, 0 if unknown: {repeat: value}} for benchlab.analysis.verdicts."""
        sweep: dict[int, dict[int, float]] = {}
        for run, repeat in zip(self.runs, self.repeats, strict=True):
            if figure in run.figures:
                sweep.setdefault(run.access.outstanding or 0, {})[repeat] = run.figures[figure]
        return sweep


def run_from_json(data: Mapping[str, Any]) -> Run:
    """Read a run. Raises ValueError with the name of a missing field."""
    run: Run = _from_json(Run, data)
    return run


def lines_from_json(rows: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    """Read lines. Raises ValueError with the name of a missing field."""
    return tuple(_from_json(Line, row) for row in rows)


def _from_json(kind: Any, data: Any) -> Any:
    if is_dataclass(kind):
        assert isinstance(kind, type)
        hints = get_type_hints(kind)
        unknown = set(data) - {field.name for field in fields(kind)}
        if unknown:
            raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        return kind(**{name: _from_json(hints[name], value) for name, value in data.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(data, list):
        return tuple(_from_json(inner[0], item) for item in data)
    if origin is not None and origin is not UnionType and isinstance(data, Mapping):
        return {key: _from_json(inner[1], value) for key, value in data.items()}
    return float("nan") if kind is float and data is None else data


def known_values(tracks: Iterable[Track]) -> NDArray[np.float64]:
    """Their values one after the other, without the unknown."""
    values = np.concatenate([np.asarray(t.values, dtype=float) for t in tracks] or [np.array([])])
    measured: NDArray[np.float64] = values[~np.isnan(values)]
    return measured
