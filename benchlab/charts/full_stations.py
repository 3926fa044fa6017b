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
from benchlab.charts import device_work, windows
from benchlab.charts.attempt_layers import read_disk_uses, read_placed_layers
from benchlab.charts.curve_answers import curve_answer
from benchlab.charts.queries import Group, Sample
from benchlab.charts.tracks import Track
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Series

# of each depth, the first ones: a host of many cores has many series
MAX_REPEATS = 3
CORE_METRICS = ("cpu.idle", "cpu.iowait")


@dataclass(frozen=True, slots=True)
class AttemptQueues:
    """Of one attempt, over what it measured: requests in flight at each bottom disk and, where it has one, at the
    volume on top, and its busiest core."""

    queues: Mapping[str, float]
    busiest_core: float | None
    entry_queue: float | None = None


@dataclass(frozen=True, slots=True)
class LayoutDevices:
    """Devices that an attempt's layout stood on, by kernel names."""

    disks: tuple[str, ...]
    # the topmost; "" without one, or where nobody tells its name
    volume: str = ""


def find_full_stations(lines: Sequence[Group]) -> dict[int, FullStation]:
    """{index of a line: what is full at its deepest point}; lines of which it cannot be said are left out."""
    wanted = {index: ends for index, line in enumerate(lines) if (ends := _deepest_repeats(line))}
    seen = _read_queues(
        sample.attempt for ends in wanted.values() for end in ends for sample in end
    )
    found = {index: _station_at_end(*ends, seen) for index, ends in wanted.items()}
    return {index: one for index, one in found.items() if one is not None}


def _deepest_repeats(line: Group) -> tuple[list[Sample], list[Sample]] | None:
    """The repeats at the last depth but one and at the last, where both are past the knee and one doubles the other."""
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
    """True when as many I/Os were in flight as was told: by Little's law, where latency is known."""
    known = [(s.values["iops"], s.values["lat.mean"]) for s in repeats if "lat.mean" in s.values]
    return not known or little(repeats[0].outstanding or 0, known).holds


def _read_queues(attempts: Iterable[int]) -> dict[int, AttemptQueues]:
    """Of those whose disks are known."""
    rows = Attempt.objects.filter(pk__in=set(attempts)).select_related("layout", "run")
    wanted_of = ("windows", "facts_id", "meta", "layout__plan", "layout__stack", "run__stage")
    found = {row.pk: row for row in rows.only(*wanted_of)}
    stands = {pk: one for pk, one in _layout_devices(found.values()).items() if one.disks}
    names = {name for one in stands.values() for name in (*one.disks, one.volume) if name}
    if not names:
        return {}
    wanted = Q(metric="queue", device__in=names) | (Q(metric__in=CORE_METRICS) & ~Q(device=""))
    series = Series.objects.filter(wanted, attempt__in=stands.keys())
    tracks: dict[int, list[Track]] = defaultdict(list)
    for pk, device, metric, times, values in series.values_list(
        "attempt", "device", "metric", "times", "values"
    ):
        tracks[pk].append(Track(device, metric, "1", times, values))
    return {pk: _attempt_queues(found[pk], stands[pk], tracks[pk]) for pk in tracks}


def _layout_devices(attempts: Collection[Attempt]) -> dict[int, LayoutDevices]:
    nodes: dict[int, str] = {}
    disks: dict[int, tuple[str, ...]] = {}
    for one in attempts:
        disks[one.pk], nodes[one.pk] = _disks_and_volume(one)
    wanted = {one.facts_id for one in attempts if nodes[one.pk] and one.facts_id}
    rows = FactSnapshot.objects.filter(pk__in=wanted) if wanted else FactSnapshot.objects.none()
    known = dict(rows.values_list("pk", "facts__devices"))
    return {
        one.pk: LayoutDevices(
            disks[one.pk], _kernel_name(nodes[one.pk], known.get(one.facts_id or 0) or ())
        )
        for one in attempts
    }


def _disks_and_volume(attempt: Attempt) -> tuple[tuple[str, ...], str]:
    """(disks at the bottom of its layout, its volume's node); of one from elsewhere those that its source tells."""
    disks = tuple(dict.fromkeys(name for use in read_disk_uses(attempt) for name in use.members))
    placed = reversed(read_placed_layers(attempt) or ())
    return disks, next((one.gives.volume for one in placed if one.gives.volume), "")


def _kernel_name(node: str, devices: Iterable[Mapping[str, Any]]) -> str:
    """Its kernel name, where a single device has that path."""
    found = [one["name"] for one in devices if node in (one.get("path"), *one.get("links", ()))]
    return str(found[0]) if node and len(found) == 1 else ""


def _attempt_queues(
    attempt: Attempt, stands: LayoutDevices, tracks: Sequence[Track]
) -> AttemptQueues:
    part = windows.select_part(tracks, windows.parse_windows(attempt.windows))
    means = {(t.device, t.metric): weighted_mean(t.values, t.durations) for t in part.tracks}
    queues = {name: means.get((name, "queue"), float("nan")) for name in stands.disks}
    entered = None if stands.volume in stands.disks else means.get((stands.volume, "queue"))
    busy = [
        1 - idle - means.get((device, CORE_METRICS[1]), 0.0)
        for (device, metric), idle in means.items()
        if metric == CORE_METRICS[0]
    ]
    return AttemptQueues(
        queues, max((one for one in busy if not isnan(one)), default=None), entered
    )


def _station_at_end(
    half: Sequence[Sample], last: Sequence[Sample], seen: Mapping[int, AttemptQueues]
) -> FullStation | None:
    ends = _deepest_point(half, seen), _deepest_point(last, seen)
    return full_station(ends[0], ends[1]) if ends[0] and ends[1] else None


def _deepest_point(repeats: Sequence[Sample], seen: Mapping[int, AttemptQueues]) -> Deepest | None:
    """Medians of those that were sampled; None without any, or where their disks are not the same."""
    known = [(one, seen[one.attempt]) for one in repeats if one.attempt in seen]
    names = {tuple(sorted(each.queues)) for _, each in known}
    if len(names) != 1:
        return None
    busy = [cpu for one, each in known if (cpu := _cpu_load(one, each)) is not None]
    entered = [each.entry_queue for _, each in known if each.entry_queue is not None]
    return Deepest(
        repeats[0].outstanding or 0,
        median_of([one.values["iops"] for one, _ in known]),
        {name: median_of([each.queues[name] for _, each in known]) for name in next(iter(names))},
        median_of(busy) if len(busy) == len(known) else None,
        median_of(entered) if len(entered) == len(known) else None,
    )


def _cpu_load(sample: Sample, seen: AttemptQueues) -> float | None:
    """The busier of the busiest core and the tool's own thread, where any is known."""
    own = [sample.values[name] for name in ("cpu.user", "cpu.system") if name in sample.values]
    known = [
        one for one in (seen.busiest_core, sum(own) if len(own) == 2 else None) if one is not None
    ]
    return max(known, default=None)


def _queued_share(queued: float) -> str:
    """Two depths are measured apart: by their noise more may wait than was added, or less than none."""
    return device_work.percent_text(min(max(queued, 0.0), 1.0))


def full_station_text(found: FullStation, cap: Cap | None = None) -> str:
    """ "the disks, where 92 % of the I/Os wait that the last doubling added"."""
    share = _queued_share(found.queued)
    seen = f"{share} of the I/Os that the last doubling added wait at the disks, {_cpu_text(found)}"
    if found.full == Full.NOT_YET:
        return f"nothing yet, it has {device_work.percent_text(found.gain)} more IOPS than at half, so measure deeper"
    if found.full == Full.CPU:
        return f"the CPU, {_busy_text(found)}"
    if found.full == Full.DEVICES:
        which = f"{found.device}, of the disks," if found.device else "the disks,"
        own = " or a cap on them," if cap else ""
        return f"{which}{own} where {share} of the I/Os wait that the last doubling added"
    if found.full == Full.LAYERS:
        inside = _queued_share(found.inside or 0.0)
        return f"the layers above the disks, where {inside} of the I/Os wait that the last doubling added; {seen}"
    if found.full == Full.NOTHING:
        return f"nothing that is seen, but a lock, a log, a link or a limit above the disks; {seen}"
    return f"cannot be told; {seen}"


def _cpu_text(found: FullStation) -> str:
    return "nobody looked at the CPU" if found.cpu is None else f"the CPU was {_busy_text(found)}"


def _busy_text(found: FullStation) -> str:
    return f"{device_work.percent_text(found.cpu or 0.0)} busy (its busiest core, or the tool's own thread)"
