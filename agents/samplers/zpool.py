# SPDX-License-Identifier: Apache-2.0
"""Every pool and vdev, log and cache device: what `zpool iostat -vpl -y 1` says of each second.

Devices are paths in the pool: "bl17", "bl17/mirror-0/sdb", "bl17/logs/sdc". Not -H, which would leave the indentation
and the names of the classes out, so that nobody could tell a log from a disk. Rates are cut to whole ones by zpool;
waits are NaN in a second without such requests: `wait` from the pool's queue to the end, `disk_wait` on the disk alone.
Needs ZFS on Linux 0.7, FreeBSD 13; an older one prints nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from math import nan

from agents.contracts import Frame, Series, Watch
from agents.outputs.zpool_iostat import UNITS, Report, heads, reports
from agents.samplers._frames import rows_to_series, stamped_lines

LABEL = "ZFS pools and vdevs (zpool iostat -v)"
# DEGRADED, for a while: agents.plans.layout_faults reads it
FILES = ("/proc/spl/kstat/zfs/*/state",)
LOOK = ("zpool", "iostat", "-vpl", "-y", "1")
BEGINS = "*capacity*operations*"
WATCHES = (
    # Linux has a directory here for each pool; without one there is nothing to look at.
    Watch(LOOK, lasting=True, begins=BEGINS, where=("/proc/spl/kstat/zfs/*/",)),
    Watch(LOOK, lasting=True, begins=BEGINS, where=("/dev/zfs",), families=("freebsd",)),
)


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """One series per pool or vdev and metric, over all reports that are whole. Raises ParseError."""
    # The frames of a live page may begin in the middle of a report.
    lines = list(dropwhile(lambda line: not heads(line.text), stamped_lines(frames, WATCHES[0])))
    came = {line.number: line.at for line in lines}
    all_reports = list(reports((line.number, line.text) for line in lines))
    if len(all_reports) > 1 and len(all_reports[-1].rows) < len(all_reports[-2].rows):
        # cut by the end of the run
        all_reports.pop()
    rows_of = [(came[report.at], report) for report in all_reports]
    devices = dict.fromkeys(name for report in all_reports for name in report.rows)
    return [
        series
        for device in devices
        for series in rows_to_series(
            device, [(at, _device_figures(report, device)) for at, report in rows_of], UNITS
        )
    ]


def _device_figures(report: Report, device: str) -> dict[str, float]:
    if device not in report.rows:
        return {}
    values = report.rows[device].values
    return {name: nan if value is None else value for name, value in values.items()}
