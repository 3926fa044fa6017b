# SPDX-License-Identifier: Apache-2.0
"""ZFS's cache in memory (ARC) and on disks (L2ARC), for the whole host: from the arcstats counters.

Linux: /proc/spl/kstat/zfs/arcstats, "NAME TYPE VALUE". FreeBSD: sysctl, "kstat.zfs.misc.arcstats.NAME: VALUE". Ratios
are NaN in an interval without requests. An L2ARC has series only if it holds data or was accessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import (
    counter_rate,
    file_intervals,
    hit_ratio,
    is_count,
    rows_to_series,
)

LABEL = "ZFS's ARC (arcstats)"
FILES = ("/proc/spl/kstat/zfs/arcstats",)
PREFIX = "kstat.zfs.misc.arcstats."
WATCHES = (Watch(("sysctl", PREFIX.rstrip(".")), families=("freebsd",), where=("/dev/zfs",)),)

OPS, BYTES, RATIO = Unit.OPS_PER_SECOND, Unit.BYTES, Unit.RATIO
COUNTERS = {
    "arc.hits": "hits",
    "arc.misses": "misses",
    "l2arc.hits": "l2_hits",
    "l2arc.misses": "l2_misses",
}
GAUGES = {"arc.size": "size", "arc.target": "c", "l2arc.size": "l2_size"}
UNITS = {
    "arc.hit_ratio": RATIO,
    "arc.hits": OPS,
    "arc.misses": OPS,
    "arc.size": BYTES,
    "arc.target": BYTES,
    "l2arc.hit_ratio": RATIO,
    "l2arc.hits": OPS,
    "l2arc.misses": OPS,
    "l2arc.size": BYTES,
}
READ_COUNTERS = {*COUNTERS.values(), *GAUGES.values()}


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """Series of the whole host, device "". Raises ParseError."""
    spans = file_intervals(frames, (FILES[0], WATCHES[0].file_key))
    read = {id(f): _stats(f) for i in spans for f in (i.before, i.after)}
    rows = [
        (i.end, _interval_figures(read[id(i.before)], read[id(i.after)], i.seconds)) for i in spans
    ]
    used = any(stats.get("l2_size", 0) > 0 for stats in read.values())
    units = {n: u for n, u in UNITS.items() if used or not n.startswith("l2arc.")}
    return rows_to_series("", rows, units)


def _stats(frame: Frame) -> dict[str, int]:
    text = frame.files.get(FILES[0])
    lines = (text if text is not None else frame.files.get(WATCHES[0].file_key, "")).splitlines()
    values: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        words = line.removeprefix(PREFIX).replace(":", " ").split()
        if words[:1] and words[0] in READ_COUNTERS:
            if not is_count(words[-1]) or len(words) > 3 or len(words) < 2:
                raise ParseError("not a line of arcstats", number, line)
            values[words[0]] = int(words[-1])
    if lines and not {"hits", "misses", "size"} <= values.keys():
        raise ParseError("not ZFS's arcstats: hits, misses or size is missing", 1, lines[0])
    return values


def _interval_figures(
    before: dict[str, int], after: dict[str, int], seconds: float
) -> dict[str, float]:
    rates = {name: counter_rate(before, after, key, seconds) for name, key in COUNTERS.items()}
    return {
        **rates,
        **{name: float(after[key]) for name, key in GAUGES.items() if key in after},
        "arc.hit_ratio": hit_ratio(rates["arc.hits"], rates["arc.misses"]),
        "l2arc.hit_ratio": hit_ratio(rates["l2arc.hits"], rates["l2arc.misses"]),
    }
