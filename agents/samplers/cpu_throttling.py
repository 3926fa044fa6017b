# SPDX-License-Identifier: Apache-2.0
"""CPU throttling: clock, heat (thermal_throttle), and the quota of a container's cgroup.

- `cpu.speed`: clock of its highest, mean of the first CPUs, at the end of the interval. Idle ones may be slow by right.
- `cpu.heat`: 1 where a count of throttling for heat grew in the interval, 0 where none did.
- `cpu.quota`: share of the quota's periods in which it was used up. Without a quota there are no periods.

Documentation/admin-guide/pm/cpufreq.rst, Documentation/ABI/testing/sysfs-devices-system-cpu and cgroup-v2.rst. Virtual
machines mostly have none of it: a missing file is no series. NaN: not reported, or the counter was reset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import file_intervals, is_count, rows_to_series

LABEL = "CPU throttling (cpufreq, thermal_throttle, cgroup)"
CPUS = "/sys/devices/system/cpu"
# The fewest that tell. Kernels before 5.18 wait 10 ms for the clock of each CPU that idles. A package's count is at
# each of its CPUs: numbers that end in 0 and 1 are some of every package, however firmware numbers them.
FILES = (
    f"{CPUS}/cpu[0-3]/cpufreq/scaling_cur_freq",
    f"{CPUS}/cpu[0-3]/cpufreq/cpuinfo_max_freq",
    f"{CPUS}/cpu[0-9]/thermal_throttle/core_throttle_count",
    f"{CPUS}/cpu*[01]/thermal_throttle/package_throttle_count",
    # of a container its own; of a whole host the root's, which has no quota
    "/sys/fs/cgroup/cpu.stat",
    # the same of version 1
    "/sys/fs/cgroup/cpu/cpu.stat",
)
WATCHES: tuple[Watch, ...] = ()

CLOCK = re.compile(rf"{CPUS}/cpu\d+/cpufreq/(scaling_cur|cpuinfo_max)_freq")
HEAT = re.compile(rf"{CPUS}/cpu\d+/thermal_throttle/(core|package)_throttle_count")
QUOTA = FILES[-2:]
UNTOLD = ("", "<unknown>")
UNITS = {"cpu.speed": Unit.RATIO, "cpu.heat": Unit.RATIO, "cpu.quota": Unit.RATIO}

Files = Mapping[str, str]


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """Convert the frames to series. Raises ParseError."""
    mine = {name for frame in frames for name in frame.files if _is_mine(name)}
    rows = [
        (interval.end, dict(_interval_figures(interval.before.files, interval.after.files)))
        for interval in file_intervals(frames, mine)
    ]
    return rows_to_series("", rows, UNITS)


def _is_mine(name: str) -> bool:
    return name in QUOTA or any(pattern.fullmatch(name) for pattern in (CLOCK, HEAT))


def _interval_figures(before: Files, after: Files) -> Iterator[tuple[str, float]]:
    """The known figures of one interval."""
    if speeds := list(_speeds(after)):
        yield "cpu.speed", fmean(speeds)
    if grown := list(_grown(before, after)):
        yield "cpu.heat", float(any(grown))
    for name in QUOTA:
        if name in before and name in after:
            old, new = _stat(name, before[name]), _stat(name, after[name])
            periods, used = (_count_since(old, new, key) for key in ("nr_periods", "nr_throttled"))
            if periods > 0 and used >= 0:
                yield "cpu.quota", used / periods
                return


def _speeds(files: Files) -> Iterator[float]:
    for name in files:
        if CLOCK.fullmatch(name) and name.endswith("scaling_cur_freq"):
            highest = name.replace("scaling_cur", "cpuinfo_max")
            now, most = _file_count(name, files), _file_count(highest, files)
            if now is not None and most:
                yield now / most


def _grown(before: Files, after: Files) -> Iterator[bool]:
    """Yield for each count in both frames whether it has grown.

    A count that fell is skipped: it was reset, as happens when a CPU comes back online.
    """
    for name in after:
        if HEAT.fullmatch(name):
            old, new = _file_count(name, before), _file_count(name, after)
            if old is not None and new is not None and new >= old:
                yield new > old


def _file_count(name: str, files: Files) -> int | None:
    text = files.get(name, "").strip()
    if text in UNTOLD:
        return None
    if not is_count(text):
        raise ParseError(f"not the number of {name}", 1, text[:80])
    return int(text)


def _stat(name: str, text: str) -> Mapping[str, int]:
    values = {}
    for number, line in enumerate(text.splitlines(), start=1):
        key, _, count = line.partition(" ")
        if not is_count(count):
            raise ParseError(f"not a line of {name}", number, line[:80])
        values[key] = int(count)
    return values


def _count_since(old: Mapping[str, int], new: Mapping[str, int], key: str) -> int:
    return new[key] - old[key] if key in old and key in new else -1
