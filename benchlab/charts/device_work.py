# SPDX-License-Identifier: Apache-2.0
"""The stack of devices on a host, and the work of its disks in each measured window.

The work: who carried the bytes, how many they were beside the tool's, how many writes were flushes, and what caches
answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from agents.plans import chain
from agents.plans.chain import LayerSpec
from agents.plans.stack import BELOW, Placed
from benchlab.analysis.devices.amplification import amplification, application_rates
from benchlab.analysis.devices.balance import (
    MIN_CONCLUSIVE_WINDOWS,
    Balance,
    Spread,
    balance_samples,
)
from benchlab.analysis.devices.flushes import Flushes, flushes
from benchlab.analysis.devices.hit_ratio import byte_hit_ratio, request_hit_ratio
from benchlab.analysis.evidence import Layer
from benchlab.analysis.series import weighted_mean
from benchlab.charts.sampled_tracks import Part, Track


@dataclass(frozen=True, slots=True)
class StackedDevice:
    """A device in the drawing order; `depth` 0 is the top of a stack."""

    # kernel name, as in the series
    name: str
    depth: int
    label: str

    @property
    def indented(self) -> str:
        """Label for legends and tables: no-break spaces survive in SVG text."""
        return "\u00a0\u00a0" * (self.depth - 1) + "└ " + self.label if self.depth else self.label


def order_devices(names: Collection[str], facts: Mapping[str, Any]) -> list[StackedDevice]:
    """Every one of `names`, tops first, each followed by what it stands on. Unknown ones come last.

    `facts` is FactSnapshot.facts: {"devices": [{"name", "parents", "holders", "path", "type", "model"}]}.
    """
    devices = {d["name"]: d for d in facts.get("devices", ())}
    placed: dict[str, StackedDevice] = {}
    tops = [name for name, d in devices.items() if not d.get("holders")]
    for top in sorted(tops, key=lambda name: (not devices[name].get("parents"), name)):
        _place_device(top, 0, devices, set(names), placed)
    for name in sorted(names):
        placed.setdefault(name, StackedDevice(name, 0, _device_label(name, devices.get(name, {}))))
    return list(placed.values())


def devices_above(nodes: Collection[str], facts: Mapping[str, Any]) -> set[str]:
    """Kernel names of the devices at these nodes, and of all that stands on them."""
    devices = {d["name"]: d for d in facts.get("devices", ())}
    above: set[str] = set()
    more = {name for name, d in devices.items() if d.get("path") in nodes}
    while more:
        above |= more
        more = {n for n, d in devices.items() if above & set(d.get("parents", ()))} - above
    return above


def _place_device(
    name: str,
    depth: int,
    devices: Mapping[str, Mapping[str, Any]],
    names: set[str],
    placed: dict[str, StackedDevice],
) -> None:
    """Depth counts only devices that are drawn: an idle one in the middle leaves no gap."""
    if name in placed or name not in devices:
        return
    device = devices[name]
    if name in names:
        placed[name] = StackedDevice(name, depth, _device_label(name, device))
        depth += 1
    for parent in _sorted_names(device.get("parents", ())):
        _place_device(parent, depth, devices, names, placed)


def _sorted_names(names: Sequence[str]) -> list[str]:
    """sda … sdz, then sdaa: shorter names first."""
    return sorted(names, key=lambda name: (len(name), name))


def _device_label(name: str, device: Mapping[str, Any]) -> str:
    """ "bl17-data (dm-3, lvm)", "sdb (INTEL SSDSC2BB48)", "sdb"."""
    alias = str(device.get("path", "")).rpartition("/")[2]
    kind = str(device.get("type", ""))
    model = str(device.get("model", "")).strip()
    if alias and alias != name:
        return f"{alias} ({name}, {kind})"
    return f"{name} ({model})" if model else name


# members that a cell names
MAX_NAMES = 3
# Caches that count themselves: (hits, misses, what they are of)
HIT_COUNTERS = (
    ("read.hits", "read.misses", "reads"),
    ("write.hits", "write.misses", "writes"),
    ("arc.hits", "arc.misses", "ARC, reads"),
    ("l2arc.hits", "l2arc.misses", "L2ARC, reads"),
)
# in place of an unknown layer
IMPORTED = "imported"
# uses of disks that hold nothing for the layers above
NON_DATA_USES = ("cache", "log", "spare")
# a use of disks that carry nothing while all is well
SPARE = "spare"
# uses of disks behind a cache's
BACKING_USES = ("backing", "data", BELOW)


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Disks that do the same work in a layer."""

    # kind: "lvm"
    layer: str
    # "data"
    use: str
    # kernel names
    members: tuple[str, ...]

    @property
    def members_text(self) -> str:
        """ "sdb, sdc", "sdb, sdc, sdd and 9 more"."""
        return shorten_names(self.members)


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


def plan_layers(layers: Sequence[Placed]) -> list[Layer]:
    """Layers as a plan has them; the disks below a layer are its use BELOW."""
    return [
        Layer(
            layer.spec.kind,
            uses={
                # The kernel writes cciss!c0d0 for /dev/cciss/c0d0.
                use: tuple(claim.node.removeprefix("/dev/").replace("/", "!") for claim in claims)
                for use, claims in layer.target.devices.items()
            },
        )
        for layer in layers
    ]


def imported_layers(specs: Sequence[LayerSpec], disks: Mapping[str, Sequence[str]]) -> list[Layer]:
    """Return the layers of an imported result on its source's `disks`, by role.

    Disks that no layer asks for are left out. If no layer asks for any, each role is a layer of its own use.
    """
    layers: list[Layer] = []
    holding: tuple[str, ...] = ()
    for spec, roles in zip(specs, chain.assign_source_disks(specs, disks), strict=True):
        below = {BELOW: holding} if holding else {}
        layers.append(Layer(spec.kind, uses={**roles, **below}))
        holding += tuple(
            n for use, names in roles.items() if use not in NON_DATA_USES for n in names
        )
    if any(disk_uses(layers)):
        return layers
    return [Layer(IMPORTED, uses={role: tuple(names)}) for role, names in disks.items()]


def disk_uses(layers: Sequence[Layer]) -> list[DiskUse]:
    """Uses of each layer that was given disks, bottom up; without spares."""
    return [
        DiskUse(layer.kind, use, names)
        for layer in layers
        for use, names in layer.uses.items()
        if use not in (BELOW, SPARE) and names
    ]


def disk_work(
    layers: Sequence[Layer], parts: Sequence[Part], figures: Mapping[str, float], only: str = ""
) -> list[DiskWork]:
    """Return the known disk work for each part of the run and each use.

    `figures` are the tool's unlabelled ones, in base units. `only` is the single direction of the run's I/O, if it
    has one (benchlab.analysis.evidence.Access.only_direction).
    """
    alone = len(parts) == 1
    rows = (
        _work_in_window(use, part, figures, alone, only)
        for part in parts
        for use in disk_uses(layers)
    )
    return [row for row in rows if row is not None]


def _work_in_window(
    use: DiskUse, part: Part, figures: Mapping[str, float], alone: bool, only: str
) -> DiskWork | None:
    by_key = {(track.device, track.metric): track for track in part.tracks}
    tool_bytes = (
        # A whole run includes file layout and ramp, which the tool's figures do not.
        {"read": None, "write": None}
        if part.is_whole_run
        else application_rates(figures, part.name, alone=alone, only=only)
    )
    work = DiskWork(
        part.name,
        use,
        read=_member_balance(use.members, by_key, "read"),
        written=_member_balance(use.members, by_key, "write"),
        reads=amplification(
            _member_means(use.members, by_key, "read.bandwidth"), tool_bytes["read"]
        ),
        writes=amplification(
            _member_means(use.members, by_key, "write.bandwidth"), tool_bytes["write"]
        ),
        flushed=tuple(_member_flushes(use.members, by_key)),
    )
    cells = (work.read_text, work.written_text, work.reads, work.writes, work.flush_text)
    return work if any(cell not in ("", None) for cell in cells) else None


def _member_balance(
    members: Sequence[str], by_key: Mapping[tuple[str, str], Track], way: str
) -> Balance | None:
    bandwidths = [by_key.get((name, f"{way}.bandwidth")) for name in members]
    rates = [by_key.get((name, f"{way}.iops")) for name in members]
    other = "write" if way == "read" else "read"
    across = [track for n in members if (track := by_key.get((n, f"{other}.bandwidth")))]
    tracks = [track for track in (*bandwidths, *rates) if track is not None]
    if len(tracks) < 2 * len(members) or not all(map(tracks[0].shares_times, tracks)):
        return None
    count = len(members)
    first = tracks[0]
    return balance_samples(
        [track.values for track in tracks[:count]],
        [track.values for track in tracks[count:]],
        first.durations,
        [track.values for track in across if track.shares_times(first)],
    )


def _member_means(
    members: Sequence[str], by_key: Mapping[tuple[str, str], Track], metric: str
) -> list[float]:
    tracks = [by_key.get((name, metric)) for name in members]
    return [weighted_mean(t.values, t.durations) if t is not None else float("nan") for t in tracks]


def _member_flushes(
    members: Sequence[str], by_key: Mapping[tuple[str, str], Track]
) -> Iterator[Flushes]:
    columns = [
        _member_means(members, by_key, m) for m in ("write.iops", "write.bandwidth", "flush.iops")
    ]
    for writes, moved, counted in zip(*columns, strict=True):
        if (estimate := flushes(writes, moved, counted)) is not None:
            yield estimate


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
    count = len(members)
    carried = sum(balance.shares[index] for index in balance.doers)
    if balance.spread == Spread.FEW:
        doers = [members[index] for index in balance.doers]
        verb = "do" if len(doers) > 1 else "does"
        return f"{len(doers)} of {count} {verb} {percent_text(carried)}: {shorten_names(doers)}"
    if balance.spread == Spread.IN_TURN:
        return "even, but a few at a time, in turn"
    if balance.spread == Spread.EVEN:
        return "even"
    order = sorted(range(count), key=lambda index: -balance.shares[index])
    most, least = order[0], order[-1]
    return (
        f"uneven: {members[most]} {percent_text(balance.shares[most])} to"
        f" {members[least]} {percent_text(balance.shares[least])}"
    )


def flush_text(estimates: Sequence[Flushes]) -> str:
    """ "at least 91 % of the writes", or of the member with least and most; "" where there are hardly any."""
    if not estimates or max(estimate.share for estimate in estimates) < 0.05:
        return ""
    low, high = (
        min(estimate.share for estimate in estimates),
        max(estimate.share for estimate in estimates),
    )
    if percent_text(low) == percent_text(high):
        return f"{percent_text(high)} of the writes, or more"
    return f"{percent_text(low)} to {percent_text(high)} of each disk's writes, or more"


def percent_text(share: float) -> str:
    return f"{100 * share:.0f} %"


def shorten_names(names: Sequence[str]) -> str:
    if len(names) <= MAX_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"


def cache_hits(
    layers: Sequence[Layer], parts: Iterable[Part], figures: Mapping[str, float], only: str = ""
) -> list[CacheHits]:
    """Return the hits that caches count in each part and, if the tool reads, those that the bytes of their disks imply.

    If the tool only writes, reads from the cache are its own housekeeping and no hits.
    """
    reads = (application_rates(figures, "", alone=True, only=only)["read"] or 0.0) > 0
    return [hit for part in parts for hit in _hits_in_window(layers if reads else (), part)]


def _hits_in_window(layers: Sequence[Layer], part: Part) -> list[CacheHits]:
    by_key = {(track.device, track.metric): track for track in part.tracks}
    ratios = [
        CacheHits(part.name, device, requests, ratio, True)
        for device in dict.fromkeys(device for device, _ in by_key)
        for hit, miss, requests in HIT_COUNTERS
        if (ratio := _counted_ratio(by_key.get((device, hit)), by_key.get((device, miss))))
        is not None
    ]
    for layer in layers:
        ratio = _byte_ratio(layer, by_key)
        if ratio is not None:
            ratios.append(CacheHits(part.name, layer.kind, "bytes read", ratio, False))
    return ratios


def _counted_ratio(hit: Track | None, missed: Track | None) -> float | None:
    if hit is None or missed is None or not hit.shares_times(missed):
        return None
    return request_hit_ratio(hit.values, missed.values, hit.durations)


def _byte_ratio(layer: Layer, by_key: Mapping[tuple[str, str], Track]) -> float | None:
    """Hit ratio of a layer that has a cache and disks behind it, its own or those of the layers below."""
    cache = layer.uses.get("cache", ())
    behind = next((layer.uses[use] for use in BACKING_USES if layer.uses.get(use)), ())
    behind = tuple(name for name in behind if name not in cache)
    if not cache or not behind:
        return None
    sums = [sum(_member_means(names, by_key, "read.bandwidth")) for names in (cache, behind)]
    return None if any(map(isnan, sums)) else byte_hit_ratio(*sums)
