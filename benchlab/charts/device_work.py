# SPDX-License-Identifier: Apache-2.0
"""The work of a run's disks in each measured window, and what is full where swept lines end.

The work: who carried the bytes, how many they were beside the tool's, how many writes were flushes, and what caches
answered.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from agents.plans.stack import BELOW
from benchlab.analysis.curves import little, median_of
from benchlab.analysis.devices import (
    MIN_CONCLUSIVE_WINDOWS,
    Balance,
    Deepest,
    Flushes,
    Full,
    FullStation,
    Spread,
    amplification,
    application_rates,
    balance_samples,
    byte_hit_ratio,
    flushes,
    full_station,
    request_hit_ratio,
)
from benchlab.analysis.evidence import MACHINE_BUSY, Layer, polls
from benchlab.analysis.knees import Cap
from benchlab.campaigns.models import Run
from benchlab.charts.device_stacks import (
    DiskUse,
    disk_uses,
    read_layout_disks,
    read_placed_layers,
    shorten_names,
)
from benchlab.charts.line_analysis import curve_answer
from benchlab.charts.queries import Group, Sample
from benchlab.charts.sampled_tracks import Part, Track, read_windows, select_part
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Series

# Caches that count themselves: (hits, misses, what they are of)
HIT_COUNTERS = (
    ("read.hits", "read.misses", "reads"),
    ("write.hits", "write.misses", "writes"),
    ("arc.hits", "arc.misses", "ARC, reads"),
    ("l2arc.hits", "l2arc.misses", "L2ARC, reads"),
)
# uses of disks behind a cache's
BACKING_USES = ("backing", "data", BELOW)


@dataclass(frozen=True, slots=True)
class DiskWork:
    """One use's disks in one window. None or "": not known, or nothing was moved."""

    # "measured", "one.fdatasync", "the whole run"
    window: str
    use: DiskUse
    read: Balance | None
    written: Balance | None
    # bytes read from these disks over those that the tool read
    reads: float | None
    writes: float | None
    # of each member that is known
    flushed: tuple[Flushes, ...]

    @property
    def read_text(self) -> str:
        return balance_text(self.read, self.use.members)

    @property
    def written_text(self) -> str:
        return balance_text(self.written, self.use.members)

    @property
    def flush_text(self) -> str:
        return flush_text(self.flushed)

    def __bool__(self) -> bool:
        cells = (self.read_text, self.written_text, self.reads, self.writes, self.flush_text)
        return any(cell not in ("", None) for cell in cells)


@dataclass(frozen=True, slots=True)
class CacheHits:
    window: str
    # the cached volume, or the layer; "" for the host
    device: str
    # "reads", "writes", "ARC, reads"
    requests: str
    # 0 to 1
    ratio: float
    # by the cache itself, in requests; else by the bytes that disks read
    counted: bool

    @property
    def ratio_percent(self) -> float:
        return 100 * self.ratio


def disk_work(
    layers: Sequence[Layer], parts: Sequence[Part], figures: Mapping[str, float], only: str = ""
) -> list[DiskWork]:
    """Return the known disk work for each part of the run and each use.

    `figures` are the tool's unlabelled ones, in base units. `only` is the single direction of the run's I/O, if it
    has one (benchlab.analysis.evidence.Access.only_direction).
    """
    alone = len(parts) == 1
    work = []
    for part in parts:
        tool_bytes = application_rates(figures, part.name, alone=alone, only=only)
        if part.is_whole_run:
            # It includes file layout and ramp, which the tool's figures do not.
            tool_bytes = {"read": None, "write": None}
        work += [_work_in_part(use, part, tool_bytes) for use in disk_uses(layers)]
    return list(filter(None, work))


def _work_in_part(use: DiskUse, part: Part, tool_bytes: Mapping[str, float | None]) -> DiskWork:
    moved = {way: _member_means(part, use.members, f"{way}.bandwidth") for way in tool_bytes}
    writes, counted = (
        _member_means(part, use.members, metric) for metric in ("write.iops", "flush.iops")
    )
    return DiskWork(
        part.name,
        use,
        read=_member_balance(use.members, part, "read", "write"),
        written=_member_balance(use.members, part, "write", "read"),
        reads=amplification(moved["read"], tool_bytes["read"]),
        writes=amplification(moved["write"], tool_bytes["write"]),
        flushed=tuple(filter(None, map(flushes, writes, moved["write"], counted))),
    )


def _member_means(part: Part, members: Iterable[str], metric: str) -> list[float]:
    return [part.mean(name, metric) for name in members]


def _member_balance(members: Sequence[str], part: Part, way: str, other: str) -> Balance | None:
    def tracks_of(metric: str) -> list[Track]:
        return [part.by_key[name, metric] for name in members if (name, metric) in part.by_key]

    bandwidths, rates = tracks_of(f"{way}.bandwidth"), tracks_of(f"{way}.iops")
    if not bandwidths or not len(bandwidths) == len(rates) == len(members):
        return None
    first = bandwidths[0]
    if not all(map(first.shares_times, (*bandwidths, *rates))):
        return None
    return balance_samples(
        [track.values for track in bandwidths],
        [track.values for track in rates],
        first.durations,
        [track.values for track in tracks_of(f"{other}.bandwidth") if track.shares_times(first)],
    )


def balance_text(balance: Balance | None, members: Sequence[str]) -> str:
    """ "even", "2 of 12 do 95 %: sdb, sdc", "uneven: sdb 45 %, … sde 10 %"; "" where nothing is known.

    Too few samples are stated as such; "even, by one report" is a printed average.
    """
    if balance is None:
        return ""
    if balance.spread == Spread.EVEN and balance.averaged and balance.windows == 1:
        # an average over what it is of; unevenness it would not tell from chance
        return "even, by one report"
    if not balance.conclusive:
        samples = f"{balance.windows} sample{'' if balance.windows == 1 else 's'}"
        return f"not told by {samples}: {MIN_CONCLUSIVE_WINDOWS} are needed"
    if balance.spread == Spread.FEW:
        doers = [members[index] for index in balance.doers]
        carried = percent_text(sum(balance.shares[index] for index in balance.doers))
        verb = "do" if len(doers) > 1 else "does"
        return f"{len(doers)} of {len(members)} {verb} {carried}: {shorten_names(doers)}"
    if balance.spread == Spread.IN_TURN:
        return "even, but a few at a time, in turn"
    if balance.spread == Spread.EVEN:
        return "even"
    order = sorted(range(len(members)), key=lambda index: -balance.shares[index])
    most, least = (
        f"{members[index]} {percent_text(balance.shares[index])}" for index in (order[0], order[-1])
    )
    return f"uneven: {most} to {least}"


def flush_text(estimates: Sequence[Flushes]) -> str:
    """ "at least 91 % of the writes", or of the member with least and most; "" where there are hardly any."""
    shares = [estimate.share for estimate in estimates]
    if max(shares, default=0.0) < 0.05:
        return ""
    low, high = percent_text(min(shares)), percent_text(max(shares))
    if low == high:
        return f"{high} of the writes, or more"
    return f"{low} to {high} of each disk's writes, or more"


def percent_text(share: float) -> str:
    return f"{100 * share:.0f} %"


def cache_hits(
    layers: Sequence[Layer], parts: Iterable[Part], figures: Mapping[str, float], only: str = ""
) -> list[CacheHits]:
    """Return the hits that caches count in each part and, if the tool reads, those that the bytes of their disks imply.

    If the tool only writes, reads from the cache are its own housekeeping and no hits.
    """
    reads = (application_rates(figures, "", alone=True, only=only)["read"] or 0.0) > 0
    hits = []
    for part in parts:
        for device in dict.fromkeys(device for device, _ in part.by_key):
            for *counters, requests in HIT_COUNTERS:
                ratio = _counted_ratio(*(part.by_key.get((device, name)) for name in counters))
                if ratio is not None:
                    hits.append(CacheHits(part.name, device, requests, ratio, True))
        for layer in layers if reads else ():
            ratio = _byte_ratio(layer, part)
            if ratio is not None:
                hits.append(CacheHits(part.name, layer.kind, "bytes read", ratio, False))
    return hits


def _counted_ratio(hit: Track | None, missed: Track | None) -> float | None:
    if hit is None or missed is None or not hit.shares_times(missed):
        return None
    return request_hit_ratio(hit.values, missed.values, hit.durations)


def _byte_ratio(layer: Layer, part: Part) -> float | None:
    """Hit ratio of a layer that has a cache and disks behind it, its own or those of the layers below."""
    cache = layer.uses.get("cache", ())
    behind = next((layer.uses[use] for use in BACKING_USES if layer.uses.get(use)), ())
    behind = tuple(name for name in behind if name not in cache)
    if not cache or not behind:
        return None
    from_cache, from_behind = (
        sum(_member_means(part, names, "read.bandwidth")) for names in (cache, behind)
    )
    if math.isnan(from_cache + from_behind):
        return None
    return byte_hit_ratio(from_cache, from_behind)


# of each depth, the first ones: a host of many cores has many series
MAX_REPEATS = 3
IDLE, IOWAIT = "cpu.idle", "cpu.iowait"


def find_full_stations(lines: Sequence[Group]) -> dict[int, FullStation]:
    """Return {index of a line: what is full at its deepest point}, without lines for which that is unknown.

    Only of lines that are over, whose knee is told and lies no deeper than the last depth but one. Their series are
    read for the last two depths alone: two queries for all lines, and a third for facts where a volume stands on disks.
    """
    ends = {index: repeats for index, line in enumerate(lines) if (repeats := _last_repeats(line))}
    samples = [sample for repeats in ends.values() for depth in repeats for sample in depth]
    points = _read_points(samples)
    stations = {}
    for index, repeats in ends.items():
        half, last = (_median_point(depth, points) for depth in repeats)
        if half and last and (station := full_station(half, last)):
            stations[index] = station
    return stations


def _last_repeats(line: Group) -> tuple[list[Sample], ...]:
    """Return the repeats at the last two depths, if both are past the knee and the last is double the one before."""
    by_depth: dict[int, list[Sample]] = defaultdict(list)
    for sample in line.samples:
        if sample.outstanding and "iops" in sample.values:
            by_depth[sample.outstanding].append(sample)
    if not line.over or len(by_depth) < 2:
        return ()
    half, last = sorted(by_depth)[-2:]
    knee = curve_answer(line).knee
    past = knee is not None and (knee.flat or (knee.at is not None and knee.at <= half))
    if last != 2 * half or not past:
        return ()
    repeats = by_depth[half], by_depth[last]
    if not all(map(_reached_depth, repeats)):
        return ()
    return tuple(samples[:MAX_REPEATS] for samples in repeats)


def _reached_depth(repeats: Sequence[Sample]) -> bool:
    """True if as many I/Os were in flight as configured: by Little's law, if latency is known."""
    measured = [(s.values["iops"], s.values["lat.mean"]) for s in repeats if "lat.mean" in s.values]
    return not measured or little(repeats[0].outstanding or 0, measured).holds


def _read_points(samples: Sequence[Sample]) -> dict[int, Deepest]:
    """{attempt: its point} of the attempts whose disks are known and sampled."""
    columns = (
        *("windows", "facts_id", "meta", "layout__plan", "layout__stack"),
        *("run__stage", "run__options"),
    )
    rows = Attempt.objects.filter(pk__in={sample.attempt for sample in samples})
    attempts = {row.pk: row for row in rows.select_related("layout", "run").only(*columns)}
    disks = {pk: sorted(names) for pk, row in attempts.items() if (names := read_layout_disks(row))}
    volumes = _volume_names([attempts[pk] for pk in disks])
    devices = {*volumes.values(), *(name for names in disks.values() for name in names)} - {""}
    if not devices:
        return {}
    metrics = Q(metric="queue", device__in=devices) | (Q(metric__in=(IDLE, IOWAIT)) & ~Q(device=""))
    series = Series.objects.filter(metrics, attempt__in=disks)
    tracks: dict[int, list[Track]] = defaultdict(list)
    for pk, device, metric, times, values in series.values_list(
        "attempt", "device", "metric", "times", "values"
    ):
        tracks[pk].append(Track(device, metric, "1", times, values))
    return {
        sample.attempt: _sampled_point(
            sample,
            attempts[sample.attempt].run,
            select_part(tracks[sample.attempt], read_windows(attempts[sample.attempt])),
            disks[sample.attempt],
            volumes[sample.attempt],
        )
        for sample in samples
        if sample.attempt in tracks
    }


def _volume_names(attempts: Collection[Attempt]) -> dict[int, str]:
    """{attempt: kernel name of the topmost volume}; "" if it has none, or if no single device has its path."""
    nodes: dict[int, str] = {}
    for attempt in attempts:
        layers = reversed(read_placed_layers(attempt) or ())
        nodes[attempt.pk] = next((row.gives.volume for row in layers if row.gives.volume), "")
    snapshots = {attempt.facts_id for attempt in attempts if nodes[attempt.pk] and attempt.facts_id}
    devices = (
        dict(FactSnapshot.objects.filter(pk__in=snapshots).values_list("pk", "facts__devices"))
        if snapshots
        else {}
    )
    volumes = {}
    for attempt in attempts:
        node = nodes[attempt.pk]
        names = [
            str(device["name"])
            for device in devices.get(attempt.facts_id or 0) or ()
            if node in (device.get("path"), *device.get("links", ()))
        ]
        volumes[attempt.pk] = names[0] if node and len(names) == 1 else ""
    return volumes


def _sampled_point(
    sample: Sample, run: Run, part: Part, disks: Iterable[str], volume: str
) -> Deepest:
    """One run: requests in flight at each disk and at the volume, and its busiest core or the tool's own thread.

    A thread that polls keeps a core busy whatever it has to do, so then the CPU is unknown.
    """
    cores = [
        1 - track.mean - (part.mean(device, IOWAIT) if (device, IOWAIT) in part.by_key else 0.0)
        for (device, metric), track in part.by_key.items()
        if metric == IDLE
    ]
    loads = [core for core in cores if not math.isnan(core)]
    thread = [sample.values[name] for name in ("cpu.user", "cpu.system") if name in sample.values]
    if len(thread) == 2 and MACHINE_BUSY not in sample.values:
        loads.append(sum(thread))
    entered = None if volume in disks else part.by_key.get((volume, "queue"))
    return Deepest(
        sample.outstanding or 0,
        sample.values["iops"],
        {name: part.mean(name, "queue") for name in disks},
        None if polls(run.options) else max(loads, default=None),
        entered.mean if entered else None,
    )


def _median_point(repeats: Sequence[Sample], points: Mapping[int, Deepest]) -> Deepest | None:
    """Medians of those that were sampled; None without any, or where their disks are not the same."""
    sampled = [points[sample.attempt] for sample in repeats if sample.attempt in points]
    if len({frozenset(point.queues) for point in sampled}) != 1:
        return None
    return Deepest(
        sampled[0].depth,
        median_of([point.iops for point in sampled]),
        {name: median_of([point.queues[name] for point in sampled]) for name in sampled[0].queues},
        _median_if_known([point.cpu for point in sampled]),
        _median_if_known([point.entered for point in sampled]),
    )


def _median_if_known(values: Sequence[float | None]) -> float | None:
    """Median; None unless every value is known."""
    stated = [value for value in values if value is not None]
    return median_of(stated) if len(stated) == len(values) else None


def full_station_text(station: FullStation, cap: Cap | None = None) -> str:
    """ "the disks, where 92 % of the I/Os added after 32 outstanding wait"."""
    share = _queued_share(station.queued)
    busy = f"{percent_text(station.cpu or 0.0)} busy (its busiest core, or the tool's own thread)"
    cpu = "CPU use is unknown" if station.cpu is None else f"the CPU was {busy}"
    added = f"of the I/Os added after {station.depth // 2} outstanding"
    disks_text = f"{share} {added} wait at the disks, {cpu}"
    if station.full == Full.NOT_YET:
        gain = (
            f"IOPS are {percent_text(station.gain)} above those at {station.depth // 2} outstanding"
        )
        return f"nothing yet, {gain}; measure deeper"
    if station.full == Full.CPU:
        return f"the CPU, {busy}"
    if station.full == Full.DEVICES:
        which = f"{station.device}, one of the disks," if station.device else "the disks,"
        own = " or a cap on them," if cap else ""
        return f"{which}{own} where {share} {added} wait"
    if station.full == Full.LAYERS:
        inside = _queued_share(station.inside or 0.0)
        return f"the layers above the disks, where {inside} {added} wait; {disks_text}"
    if station.full == Full.NOTHING:
        limit = "the limit may be a lock, a log, a link or a cap above the disks"
        return f"nothing that was watched; {limit}; {disks_text}"
    return f"unclear; {disks_text}"


def _queued_share(queued: float) -> str:
    """Format a share limited to 0 to 100 %: noise between the two depths may put it outside."""
    return percent_text(min(max(queued, 0.0), 1.0))
