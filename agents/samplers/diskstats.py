# SPDX-License-Identifier: Apache-2.0
"""Every block device: rates, await, queue and util from /proc/diskstats, by iostat's formulas.

Fields: the kernel's Documentation/admin-guide/iostats.rst. 11 counters up to Linux 4.17, 15 with
discards, 17 with flushes (5.5). Counts are longs, milliseconds wrap at 32 bits. `await` of a
direction is NaN in an interval without such requests. util is capped at 1, as rounding may pass it.

A wait that cannot be is NaN, too. Of devices without a queue of their own (dm, md) many kernels count a request when it
begins, and its time when it ends: a second in which one began and 500 ended, after 0.2 s each, has 100 s for one. Two
contradictions tell it. More requests left the device, by those in flight at both ends, than were counted: then no wait
of that interval is known. Or requests waited, on average, for longer than since the device was last seen with none in
flight: then this wait is not. Where the first does not hold, `await` is below twice what it is. The reverse, many that
begin and few that end, makes a wait too short, and nothing contradicts that.

Disks are kept also when idle (an idle member is a finding); ram, loop, zram, floppy and optical
devices only if they did something during the run, nbd only if connected, which makes it read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf, nan

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import Interval, intervals, is_count

LABEL = "Block devices (/proc/diskstats)"
FILES = ("/proc/diskstats",)
WATCHES: tuple[Watch, ...] = ()

# bytes, whatever the device's own sector size
SECTOR = 512
WRAP = 1 << 32
MILLISECONDS = (3, 7, 9, 10, 14, 16)
# requests in flight: no counter
GAUGE = 8
# All that is counted of requests: of each way, and flushes; those merged into others leave with these.
REQUESTS = (0, 1, 4, 5, 11, 12, 15)
WAITS = ("read.await", "write.await", "await")
# a frame's time is from before it is read; old kernels round each wait to a tick of 10 ms at most
SLACK_S = 0.1
ONLY_IF_USED = re.compile(r"(ram|loop|zram|fd|sr)\d")
ONLY_IF_CONNECTED = re.compile(r"nbd\d")

OPS, BPS, S, RATIO = Unit.OPS_PER_SECOND, Unit.BYTES_PER_SECOND, Unit.SECONDS, Unit.RATIO
UNITS = {
    "read.iops": OPS,
    "write.iops": OPS,
    "read.bandwidth": BPS,
    "write.bandwidth": BPS,
    "read.await": S,
    "write.await": S,
    "await": S,
    "queue": RATIO,
    "util": RATIO,
    "read.merges": OPS,
    "write.merges": OPS,
    "discard.iops": OPS,
    "discard.bandwidth": BPS,
    "flush.iops": OPS,
}

Counters = tuple[int, ...]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per device and metric, over all intervals; NaN where the device was absent or reset."""
    between = intervals([frame for frame in frames if FILES[0] in frame.files])
    tables = {id(f): _counter_table(f) for i in between for f in (i.before, i.after)}
    all_series: list[Series] = []
    for device in dict.fromkeys(name for table in tables.values() for name, _ in table):
        rows = list(_device_rows(device, between, tables))
        if ONLY_IF_USED.match(device) and not any(v > 0 for row in rows for v in row.values()):
            continue
        if ONLY_IF_CONNECTED.match(device) and not _ever_counted(device, tables):
            continue
        metrics = [metric for metric in UNITS if any(metric in row for row in rows)]
        times = tuple(interval.end for interval in between)
        all_series += [
            Series(device, m, UNITS[m], times, tuple(row.get(m, nan) for row in rows))
            for m in metrics
        ]
    return all_series


def _ever_counted(device: str, tables: Mapping[int, Table]) -> bool:
    return any(
        any(c) for table in tables.values() for (name, _), c in table.items() if name == device
    )


# (device, major:minor) -> counters
Table = dict[tuple[str, str], Counters]


def _counter_table(frame: Frame) -> Table:
    table: Table = {}
    for number, line in enumerate(frame.files[FILES[0]].splitlines(), start=1):
        words = line.split()
        name, counters = "".join(words[2:3]), words[3:]
        if len(counters) == 4:
            # a partition before Linux 2.6.25: no times
            continue
        if len(counters) < 11 or not all(map(is_count, counters)):
            raise ParseError("not a line of /proc/diskstats", number, line)
        table[name, ":".join(words[:2])] = tuple(map(int, counters))
    return table


def _device_rows(
    device: str, between: Sequence[Interval], tables: dict[int, Table]
) -> Iterator[dict[str, float]]:
    # when the device was last seen with nothing in flight
    idle_at: float | None = None
    for interval in between:
        before, after = tables[id(interval.before)], tables[id(interval.after)]
        # The number is part of the key: another disk under the same name is another device.
        both = [key for key in after if key[0] == device and key in before]
        deltas = _deltas(before[both[0]], after[both[0]]) if both else None
        if deltas is None:
            idle_at = None
            yield {}
            continue
        if before[both[0]][GAUGE] == 0:
            idle_at = interval.before.at
        longest = inf if idle_at is None else interval.after.at - idle_at
        yield _possible(_interval_metrics(deltas, interval.seconds), deltas, longest)


def _possible(figures: dict[str, float], d: Counters, longest: float) -> dict[str, float]:
    """Figures without impossible waits. `longest` is the time (s) that a finished request may have waited."""
    # so many more left than came
    negative = -d[GAUGE]
    uncounted = negative > sum(d[index] for index in REQUESTS if index < len(d))
    cannot_be = [name for name in WAITS if uncounted or figures[name] > longest + SLACK_S]
    return figures | dict.fromkeys(cannot_be, nan)


def _deltas(before: Counters, after: Counters) -> Counters | None:
    """Differences, or None when the counters began anew."""
    deltas = []
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        delta = new - old
        if delta < 0 and index in MILLISECONDS and WRAP // 2 < old < WRAP:
            delta += WRAP
        if delta < 0 and index != GAUGE:
            return None
        deltas.append(delta)
    return tuple(deltas)


def _interval_metrics(d: Counters, seconds: float) -> dict[str, float]:
    figures = {
        "read.iops": d[0] / seconds,
        "write.iops": d[4] / seconds,
        "read.bandwidth": d[2] * SECTOR / seconds,
        "write.bandwidth": d[6] * SECTOR / seconds,
        "read.await": _mean_seconds(d[3], d[0]),
        "write.await": _mean_seconds(d[7], d[4]),
        "await": _mean_seconds(d[3] + d[7], d[0] + d[4]),
        "queue": d[10] / 1000 / seconds,
        "util": min(1.0, d[9] / 1000 / seconds),
        "read.merges": d[1] / seconds,
        "write.merges": d[5] / seconds,
    }
    if len(d) >= 15:
        figures["await"] = _mean_seconds(d[3] + d[7] + d[14], d[0] + d[4] + d[11])
        figures["discard.iops"] = d[11] / seconds
        figures["discard.bandwidth"] = d[13] * SECTOR / seconds
    if len(d) >= 17:
        figures["flush.iops"] = d[15] / seconds
    return figures


def _mean_seconds(milliseconds: int, requests: int) -> float:
    return milliseconds / 1000 / requests if requests else nan
