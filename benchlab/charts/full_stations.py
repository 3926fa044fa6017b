# SPDX-License-Identifier: Apache-2.0
"""Full stations where swept lines end: the queues of their disks and the cores, read for the last two depths alone.

Only of lines that are over, whose knee is told and lies no deeper than the last depth but one; two queries for all, and
a third one for facts where a volume stands on the disks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from django.db.models import Q

from benchlab.analysis.curves import little, median_of
from benchlab.analysis.devices.full_station import Deepest, Full, FullStation, full_station
from benchlab.analysis.plateaus import Cap
from benchlab.analysis.series import weighted_mean
from benchlab.charts import device_work, sampled_tracks
from benchlab.charts.attempt_samples import read_disk_uses, read_placed_layers
from benchlab.charts.line_analysis import curve_answer
from benchlab.charts.queries import Group, Sample
from benchlab.charts.sampled_tracks import Track
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Series

# of each depth, the first ones: a host of many cores has many series
MAX_REPEATS = 3
CORE_METRICS = ("cpu.idle", "cpu.iowait")


@dataclass(frozen=True, slots=True)
class AttemptQueues:
    """Queues of one attempt over its measured time.

    Requests in flight at each bottom disk and at the volume on top, if there is one, and the busiest core.
    """

    queues: Mapping[str, float]
    busiest_core: float | None
    entry_queue: float | None = None


@dataclass(frozen=True, slots=True)
class LayoutDevices:
    """Devices that an attempt's layout stood on, by kernel names."""

    disks: tuple[str, ...]
    # the topmost; "" if there is none or its name is unknown
    volume: str = ""


def find_full_stations(lines: Sequence[Group]) -> dict[int, FullStation]:
    """Return {index of a line: what is full at its deepest point}, without lines for which that is unknown."""
    ends_by_line = {
        index: ends for index, line in enumerate(lines) if (ends := _deepest_repeats(line))
    }
    queues = _read_queues(
        sample.attempt for ends in ends_by_line.values() for end in ends for sample in end
    )
    stations = {index: _station_at_end(*ends, queues) for index, ends in ends_by_line.items()}
    return {index: station for index, station in stations.items() if station is not None}


def _deepest_repeats(line: Group) -> tuple[list[Sample], list[Sample]] | None:
    """Return the repeats at the last two depths, if both are past the knee and the last is double the one before."""
    by_depth: dict[int, list[Sample]] = defaultdict(list)
    for sample in line.samples:
        if sample.outstanding and "iops" in sample.values:
            by_depth[sample.outstanding].append(sample)
    if not line.over or len(by_depth) < 2:
        return None
    half, last = sorted(by_depth)[-2:]
    knee = curve_answer(line).knee
    past = knee is not None and (knee.flat or (knee.at is not None and knee.at <= half))
    if (
        last != 2 * half
        or not past
        or not all(map(_reached_depth, (by_depth[half], by_depth[last])))
    ):
        return None
    return by_depth[half][:MAX_REPEATS], by_depth[last][:MAX_REPEATS]


def _reached_depth(repeats: Sequence[Sample]) -> bool:
    """True if as many I/Os were in flight as configured: by Little's law, if latency is known."""
    measured = [(s.values["iops"], s.values["lat.mean"]) for s in repeats if "lat.mean" in s.values]
    return not measured or little(repeats[0].outstanding or 0, measured).holds


def _read_queues(attempts: Iterable[int]) -> dict[int, AttemptQueues]:
    """Queues of the attempts whose disks are known."""
    rows = Attempt.objects.filter(pk__in=set(attempts)).select_related("layout", "run")
    wanted_of = ("windows", "facts_id", "meta", "layout__plan", "layout__stack", "run__stage")
    attempts_by_id = {row.pk: row for row in rows.only(*wanted_of)}
    stands = {
        pk: layout
        for pk, layout in _layout_devices(attempts_by_id.values()).items()
        if layout.disks
    }
    names = {name for layout in stands.values() for name in (*layout.disks, layout.volume) if name}
    if not names:
        return {}
    metrics = Q(metric="queue", device__in=names) | (Q(metric__in=CORE_METRICS) & ~Q(device=""))
    series = Series.objects.filter(metrics, attempt__in=stands.keys())
    tracks: dict[int, list[Track]] = defaultdict(list)
    for pk, device, metric, times, values in series.values_list(
        "attempt", "device", "metric", "times", "values"
    ):
        tracks[pk].append(Track(device, metric, "1", times, values))
    return {pk: _attempt_queues(attempts_by_id[pk], stands[pk], tracks[pk]) for pk in tracks}


def _layout_devices(attempts: Collection[Attempt]) -> dict[int, LayoutDevices]:
    nodes: dict[int, str] = {}
    disks: dict[int, tuple[str, ...]] = {}
    for attempt in attempts:
        disks[attempt.pk], nodes[attempt.pk] = _disks_and_volume(attempt)
    snapshots = {attempt.facts_id for attempt in attempts if nodes[attempt.pk] and attempt.facts_id}
    rows = (
        FactSnapshot.objects.filter(pk__in=snapshots) if snapshots else FactSnapshot.objects.none()
    )
    devices = dict(rows.values_list("pk", "facts__devices"))
    return {
        attempt.pk: LayoutDevices(
            disks[attempt.pk],
            _kernel_name(nodes[attempt.pk], devices.get(attempt.facts_id or 0) or ()),
        )
        for attempt in attempts
    }


def _disks_and_volume(attempt: Attempt) -> tuple[tuple[str, ...], str]:
    """Return (its layout's bottom disks, its volume's node); of an imported attempt those that its source names."""
    disks = tuple(dict.fromkeys(name for use in read_disk_uses(attempt) for name in use.members))
    placed = reversed(read_placed_layers(attempt) or ())
    return disks, next((layer.gives.volume for layer in placed if layer.gives.volume), "")


def _kernel_name(node: str, devices: Iterable[Mapping[str, Any]]) -> str:
    """Its kernel name, where a single device has that path."""
    names = [
        device["name"]
        for device in devices
        if node in (device.get("path"), *device.get("links", ()))
    ]
    return str(names[0]) if node and len(names) == 1 else ""


def _attempt_queues(
    attempt: Attempt, stands: LayoutDevices, tracks: Sequence[Track]
) -> AttemptQueues:
    part = sampled_tracks.select_part(tracks, sampled_tracks.parse_windows(attempt.windows))
    means = {(t.device, t.metric): weighted_mean(t.values, t.durations) for t in part.tracks}
    queues = {name: means.get((name, "queue"), float("nan")) for name in stands.disks}
    entered = None if stands.volume in stands.disks else means.get((stands.volume, "queue"))
    busy = [
        1 - idle - means.get((device, CORE_METRICS[1]), 0.0)
        for (device, metric), idle in means.items()
        if metric == CORE_METRICS[0]
    ]
    return AttemptQueues(
        queues, max((core for core in busy if not isnan(core)), default=None), entered
    )


def _station_at_end(
    half: Sequence[Sample], last: Sequence[Sample], queues: Mapping[int, AttemptQueues]
) -> FullStation | None:
    ends = _deepest_point(half, queues), _deepest_point(last, queues)
    return full_station(ends[0], ends[1]) if ends[0] and ends[1] else None


def _deepest_point(
    repeats: Sequence[Sample], queues: Mapping[int, AttemptQueues]
) -> Deepest | None:
    """Medians of those that were sampled; None without any, or where their disks are not the same."""
    sampled = [(sample, queues[sample.attempt]) for sample in repeats if sample.attempt in queues]
    names = {tuple(sorted(each.queues)) for _, each in sampled}
    if len(names) != 1:
        return None
    busy = [cpu for sample, each in sampled if (cpu := _cpu_load(sample, each)) is not None]
    entered = [each.entry_queue for _, each in sampled if each.entry_queue is not None]
    return Deepest(
        repeats[0].outstanding or 0,
        median_of([sample.values["iops"] for sample, _ in sampled]),
        {name: median_of([each.queues[name] for _, each in sampled]) for name in next(iter(names))},
        median_of(busy) if len(busy) == len(sampled) else None,
        median_of(entered) if len(entered) == len(sampled) else None,
    )


def _cpu_load(sample: Sample, queues: AttemptQueues) -> float | None:
    """The busier of the busiest core and the tool's own thread, where any is known."""
    own = [sample.values[name] for name in ("cpu.user", "cpu.system") if name in sample.values]
    loads = [
        load
        for load in (queues.busiest_core, sum(own) if len(own) == 2 else None)
        if load is not None
    ]
    return max(loads, default=None)


def _queued_share(queued: float) -> str:
    """Format a share limited to 0 to 100 %: noise between the two depths may put it outside."""
    return device_work.percent_text(min(max(queued, 0.0), 1.0))


def full_station_text(station: FullStation, cap: Cap | None = None) -> str:
    """ "the disks, where 92 % of the I/Os wait that the last doubling added"."""
    share = _queued_share(station.queued)
    disks_text = (
        f"{share} of the I/Os that the last doubling added wait at the disks, {_cpu_text(station)}"
    )
    if station.full == Full.NOT_YET:
        return f"nothing yet, it has {device_work.percent_text(station.gain)} more IOPS than at half, so measure deeper"
    if station.full == Full.CPU:
        return f"the CPU, {_busy_text(station)}"
    if station.full == Full.DEVICES:
        which = f"{station.device}, of the disks," if station.device else "the disks,"
        own = " or a cap on them," if cap else ""
        return f"{which}{own} where {share} of the I/Os wait that the last doubling added"
    if station.full == Full.LAYERS:
        inside = _queued_share(station.inside or 0.0)
        return f"the layers above the disks, where {inside} of the I/Os wait that the last doubling added; {disks_text}"
    if station.full == Full.NOTHING:
        return f"nothing that is seen, but a lock, a log, a link or a limit above the disks; {disks_text}"
    return f"cannot be told; {disks_text}"


def _cpu_text(station: FullStation) -> str:
    return (
        "nobody looked at the CPU" if station.cpu is None else f"the CPU was {_busy_text(station)}"
    )


def _busy_text(station: FullStation) -> str:
    return f"{device_work.percent_text(station.cpu or 0.0)} busy (its busiest core, or the tool's own thread)"
