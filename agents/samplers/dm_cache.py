# SPDX-License-Identifier: Apache-2.0
"""Device mapper's caches: dm-cache (LVM's cache) and dm-writecache, from `dmsetup status`.

Fields: the kernel's Documentation/admin-guide/device-mapper/cache.rst and writecache.rst. Counters are of requests
(dm-cache) or blocks (writecache, whose counters came with Linux 5.15). A ratio is NaN in an interval without such
requests. What is in a writecache is not yet on its origin: all of it is dirty. Its block size stands in its table.

--noflush, for else each look would write a dm-cache's metadata out. /sys tells which dm-N has which name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import (
    Interval,
    counter_rate,
    file_intervals,
    hit_ratio,
    is_count,
    rows_to_series,
    stamped_lines,
)

LABEL = "LVM and device mapper caches (dmsetup status)"
FILES: tuple[str, ...] = ()
# Its own clock, for on a busy host a command comes long after the frame has begun.
LOOK = (
    'for f in /sys/block/dm-*/dm/name; do read -r n <"$f" && echo "$f $n"; done;'
    ' read -r up _ </proc/uptime; echo "uptime $up"; exec dmsetup status --noflush'
)
# Of LVM's mirrors too: agents.plans.layout_faults reads which legs they have
STACKS = ("/sys/module/dm_cache", "/sys/module/dm_writecache", "/sys/module/dm_raid")
STATUS = Watch(("sh", "-c", LOOK), where=STACKS)
TABLE = Watch(
    ("dmsetup", "table", "--target", "writecache"),
    lasting=True,
    where=("/sys/module/dm_writecache",),
)
WATCHES = (STATUS, TABLE)

# bytes
SECTOR = 512
UPTIME = re.compile(r"^uptime (\d{1,12}\.\d{1,3})$", re.M)
DEVICE_NAME = re.compile(r"/sys/block/(dm-\d+)/dm/name (\S.*)")
TARGET = re.compile(r"(\S.*?): (?:\d+) (?:\d+) (cache|writecache) (.*)")
# As printed, in their order: cache.rst and writecache.rst.
CACHE = ("read.hits", "read.misses", "write.hits", "write.misses", "demotions", "promotions")
WRITECACHE = ("reads", "read.hits", "writes", "hits.uncommitted", "hits.committed")

OPS, BYTES, RATIO = Unit.OPS_PER_SECOND, Unit.BYTES, Unit.RATIO
UNITS = {
    "read.hit_ratio": RATIO,
    "write.hit_ratio": RATIO,
    "hit_ratio": RATIO,
    "read.hits": OPS,
    "read.misses": OPS,
    "write.hits": OPS,
    "write.misses": OPS,
    "promotions": OPS,
    "demotions": OPS,
    "dirty": BYTES,
    "used": BYTES,
}

Status = Mapping[str, int]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per cached device and metric. Raises ParseError."""
    spans = file_intervals(frames, (STATUS.file_key,))
    blocks = _block_sizes(frames)
    status_of_frame = {id(f): _status(f, blocks) for i in spans for f in (i.before, i.after)}
    all_series: list[Series] = []
    for device in sorted({name for table in status_of_frame.values() for name in table}):
        rows = [
            (
                i.end,
                _interval_figures(
                    status_of_frame[id(i.before)].get(device),
                    status_of_frame[id(i.after)].get(device),
                    _interval_seconds(i),
                ),
            )
            for i in spans
        ]
        all_series += rows_to_series(device, rows, UNITS)
    return all_series


def _interval_seconds(span: Interval) -> float:
    """Between the two looks, by the clock that they read themselves."""
    looks = [UPTIME.search(frame.files[STATUS.file_key]) for frame in (span.before, span.after)]
    seconds = float(looks[1][1]) - float(looks[0][1]) if looks[0] and looks[1] else 0.0
    return seconds if seconds > 0 else span.seconds


def _block_sizes(frames: Sequence[Frame]) -> dict[str, int]:
    """Bytes of a writecache's block, by its dm name: "NAME: 0 204800 writecache s 254:5 254:4 4096 0"."""
    sizes = {}
    for line in stamped_lines(frames, TABLE):
        if line.text.strip() in ("", "No devices found"):
            continue
        match = TARGET.fullmatch(line.text.strip())
        words = match[3].split() if match else []
        if len(words) < 4 or not is_count(words[3]):
            raise ParseError("not a table of a writecache", line.number, line.text)
        assert match is not None
        sizes[match[1]] = int(words[3])
    return sizes


def _status(frame: Frame, blocks: Mapping[str, int]) -> dict[str, Status]:
    """Counters and gauges by kernel name. A target that is none of ours is passed over."""
    kernel: dict[str, str] = {}
    statuses: dict[str, Status] = {}
    for number, line in enumerate(frame.files.get(STATUS.file_key, "").splitlines(), start=1):
        if match := DEVICE_NAME.fullmatch(line):
            kernel[match[2]] = match[1]
        elif target := TARGET.fullmatch(line.strip()):
            name, kind, rest = target.groups()
            read = _cache(rest) if kind == "cache" else _writecache(rest, blocks.get(name))
            if read is None:
                raise ParseError(f"not the status of a {kind}", number, line)
            statuses[kernel.get(name, name)] = read
    return statuses


def _cache(rest: str) -> Status | None:
    words = rest.split()
    if words in (["Fail"], ["Error"]):
        return {}
    if len(words) < 11 or not all(map(is_count, (words[2], *words[4:11]))):
        return None
    used, slash, total = words[3].partition("/")
    if not slash or not is_count(used) or not is_count(total) or int(used) > int(total):
        return None
    block = int(words[2]) * SECTOR
    counts = dict(zip(CACHE, map(int, words[4:10]), strict=True))
    return {**counts, "dirty": int(words[10]) * block, "used": int(used) * block}


def _writecache(rest: str, block: int | None) -> Status | None:
    words = rest.split()
    if len(words) < 4 or not all(map(is_count, words)):
        return None
    total, free = int(words[1]), int(words[2])
    if free > total:
        return None
    counts = dict(zip(WRITECACHE, map(int, words[4:9]), strict=True)) if len(words) >= 9 else {}
    counters = (
        {} if block is None else {"dirty": (total - free) * block, "used": (total - free) * block}
    )
    if counts:
        hits = counts["hits.uncommitted"] + counts["hits.committed"]
        counters |= {
            "read.hits": counts["read.hits"],
            "write.hits": hits,
            "read.misses": counts["reads"] - counts["read.hits"],
            "write.misses": counts["writes"] - hits,
        }
    return counters


def _interval_figures(
    before: Status | None, after: Status | None, seconds: float
) -> dict[str, float]:
    if not after:
        return {}
    figures = {name: counter_rate(before, after, name, seconds) for name in CACHE if name in after}
    if figures:
        figures["read.hit_ratio"] = hit_ratio(figures["read.hits"], figures["read.misses"])
        figures["write.hit_ratio"] = hit_ratio(figures["write.hits"], figures["write.misses"])
        figures["hit_ratio"] = hit_ratio(
            figures["read.hits"] + figures["write.hits"],
            figures["read.misses"] + figures["write.misses"],
        )
    return figures | {n: float(after[n]) for n in ("dirty", "used") if n in after}
