# SPDX-License-Identifier: Apache-2.0
"""bcache: hits of reads, and dirty data, from /sys/fs/bcache. Only devices that have a cache.

The kernel adds to stats_total every 13 s or so, in one go, and counts reads only (seen on Linux 6.1; stats.c). So the
rates are points at the frames where the counters moved, each the mean since they moved before; what came before the
first move may be older than the run and gives no point. dirty_data is printed like 1.2G, in powers of 1024 and rounded
down to one digit. `bypassed` are reads past the cache, by the cache mode or sequential_cutoff: neither hit nor miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import counter_rate, hit_ratio, in_time, is_count, rows_to_series

LABEL = "bcache (/sys/fs/bcache)"
COUNTERS = ("cache_hits", "cache_misses", "cache_bypass_hits", "cache_bypass_misses")
# /sys/fs/bcache first: where there is no bcache, the shell finds that out by one look.
FILES = (
    "/sys/fs/bcache/*/bdev*/dev/uevent",
    "/sys/fs/bcache/*/bdev*/state",
    "/sys/fs/bcache/*/bdev*/dirty_data",
    *(f"/sys/fs/bcache/*/bdev*/stats_total/{name}" for name in COUNTERS),
    # Of a backing device that lost its cache, too: agents.plans.layout_faults reads them
    "/sys/class/block/*/bcache/state",
    "/sys/class/block/*/bcache/running",
)
WATCHES: tuple[Watch, ...] = ()

PATH = re.compile(r"(/sys/fs/bcache/[^/]+/bdev\d+)/(?:dev|stats_total)?/?(\w+)")
HUMAN = re.compile(r"(\d{1,20})(?:\.(\d))?([kKMGTPEZY]?)", re.ASCII)
PREFIXES = " KMGTPEZY"
STATES = {"clean", "dirty", "inconsistent", "no cache"}
GAUGES = {"dirty": Unit.BYTES}
RATES = {
    "read.hit_ratio": Unit.RATIO,
    "read.hits": Unit.OPS_PER_SECOND,
    "read.misses": Unit.OPS_PER_SECOND,
    "bypassed": Unit.OPS_PER_SECOND,
}

# one device in one frame: counters, "dirty" in bytes
Counters = Mapping[str, int]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per bcache device and metric. Raises ParseError."""
    devices_by_time = [(frame.at - frames[0].at, _devices(frame)) for frame in in_time(frames)]
    all_series: list[Series] = []
    for device in sorted({name for _, devices in devices_by_time for name in devices}):
        rows = [(at, devices[device]) for at, devices in devices_by_time if device in devices]
        dirty = [(at, {"dirty": float(row["dirty"])}) for at, row in rows if "dirty" in row]
        all_series += rows_to_series(device, dirty, GAUGES)
        all_series += rows_to_series(device, list(_moves(rows)), RATES)
    return all_series


def _devices(frame: Frame) -> dict[str, Counters]:
    """Counters by kernel name ("bcache0"), without a device that disappeared while it was read."""
    texts: dict[str, dict[str, str]] = {}
    for path, text in frame.files.items():
        if where := PATH.fullmatch(path):
            texts.setdefault(where[1], {})[where[2]] = text
    devices = {}
    for place in texts.values():
        match = re.search(r"^DEVNAME=(\S+)$", place.get("uevent", ""), re.M)
        if match:
            devices[match[1]] = _read_counters(place)
    return devices


def _read_counters(place: Mapping[str, str]) -> Counters:
    counters: dict[str, int] = {}
    if (state := place.get("state", "clean").strip()) not in STATES:
        raise ParseError("not a state of bcache", 1, state)
    for name in COUNTERS:
        if text := place.get(name, "").strip():
            if not is_count(text):
                raise ParseError(f"{name} of bcache is not a number", 1, text)
            counters[name] = int(text)
    if text := place.get("dirty_data", "").strip():
        counters["dirty"] = parse_size(text)
    return counters


def parse_size(text: str) -> int:
    """ "1.2G" in bytes, exactly as far as it is printed. Raises ParseError."""
    human = HUMAN.fullmatch(text)
    if not human:
        raise ParseError("not a size as bcache prints it", 1, text)
    whole, tenth, prefix = human.groups()
    scale = 1 << 10 * PREFIXES.index(prefix.upper() or " ")
    return int(whole) * scale + int(tenth or 0) * scale // 10


def _moves(rows: Sequence[tuple[float, Counters]]) -> Iterator[tuple[float, dict[str, float]]]:
    """A point for each time that the counters moved, but for the first."""
    at, last, moved = 0.0, None, False
    for now, row in rows:
        counts = {name: row[name] for name in COUNTERS if name in row}
        if len(counts) < len(COUNTERS) or counts == last:
            continue
        if last is not None and moved:
            yield now, _counter_rates(last, counts, now - at)
        # A counter that fell began anew: so does the time of what it counts.
        moved = last is not None and all(counts[name] >= last[name] for name in COUNTERS)
        at, last = now, counts


def _counter_rates(before: Counters, after: Counters, seconds: float) -> dict[str, float]:
    each = {name: counter_rate(before, after, name, seconds) for name in COUNTERS}
    return {
        "read.hits": each["cache_hits"],
        "read.misses": each["cache_misses"],
        "read.hit_ratio": hit_ratio(each["cache_hits"], each["cache_misses"]),
        "bypassed": each["cache_bypass_hits"] + each["cache_bypass_misses"],
    }
