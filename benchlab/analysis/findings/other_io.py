# SPDX-License-Identifier: Apache-2.0
"""Somebody else used the disks, or the tool did something unrequested: reported only if the stack explains none of it.

Three cases are certain: reads during writes alone, and writes during reads alone, past the page cache, on stacks of
which no layer does that by itself (raw, LVM, mirrors, xfs, ext4; not parity, pools, caches); more than was requested
where each byte requested is one of one disk; and I/O on such disks before the tool began.
"""

from __future__ import annotations

import numpy as np

from benchlab.analysis.evidence import NEAR, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import join_names, rate, times_text

LABEL = "Other I/O on the disks"
METHOD = "Findings"

# Share of the requested I/O that a file system's metadata may reach.
STRAYS = 0.10
# Ratio to the request in the same direction: the windows of the tool and the samples end at different times.
MORE = 1.25
# least B/s
LEAST = 1 << 20
# least number of intervals
ENOUGH = 5
# B: a smaller write makes a file system read the page first
PAGE = 4096
OTHER = {"read": "write", "write": "read"}


def applies(run: Run) -> list[Finding]:
    way = _single_direction(run)
    if way is None or not _stacks.quiet(run) or _resyncs(run):
        return []
    tool_rate = _stacks.tool_rate(run, way)
    if not tool_rate or tool_rate < LEAST:
        return []
    return [
        *_opposite_direction(run, way, tool_rate),
        *_more_than_requested(run, way, tool_rate),
        *_before_start(run, tool_rate),
    ]


def _single_direction(run: Run) -> str | None:
    """Direction of a tool that only reads or only writes, past the page cache; None for others."""
    reads, writes = run.access.reads, run.access.writes
    if not run.access.direct or None in (reads, writes) or reads == writes:
        return None
    way = "read" if reads else "write"
    does_other = run.figures.get(f"{OTHER[way]}.bandwidth") or run.figures.get("trim.bandwidth")
    small = (run.access.block or 0) < PAGE and not _stacks.straight(run)
    return None if does_other or (way == "write" and small) else way


def _resyncs(run: Run) -> bool:
    tracks = run.measured_tracks("sync.bandwidth")
    return bool(run.meta.get("during")) or any(np.nansum(track.values) > 0 for track in tracks)


def _opposite_direction(run: Run, way: str, tool_rate: float) -> list[Finding]:
    other = OTHER[way]
    disk_rate = _disk_rate(run, other)
    if disk_rate is None or disk_rate < max(STRAYS * tool_rate, LEAST):
        return []
    verb = "wrote" if way == "write" else "read"
    did = "read" if other == "read" else "written"
    return [
        Finding(
            f"{rate(disk_rate)} were {did} on {join_names(_stacks.active_disks(run))} while the tool only {verb} "
            f"({rate(tool_rate)}){_explain_other_io(run, other)}",
            Severity.DOUBT,
            {
                "disks": Number(
                    disk_rate, "B/s", f"{other}, by the disks", metric=f"{other}.bandwidth"
                ),
                "tool": Number(
                    tool_rate, "B/s", f"{way}, by the tool", figure=_stacks.tool_figure(run, way)
                ),
            },
            about=other,
        )
    ]


def _explain_other_io(run: Run, way: str) -> str:
    """Explain the I/O by inode tables, if possible.

    By default mke2fs leaves these to be zeroed after the mount, which takes minutes on a large disk.
    """
    lazy = any(
        layer.kind == "filesystem"
        and layer.options.get("type") == "ext4"
        and "lazy_itable_init=0" not in ",".join(map(str, layer.options.get("mkfs_options") or ()))
        for layer in run.layers
    )
    if lazy and way == "write":
        return ": a new ext4 may still have written its inode tables (lazy_itable_init)"
    return ", and no layer does that"


def _more_than_requested(run: Run, way: str, tool_rate: float) -> list[Finding]:
    if not _stacks.straight(run):
        return []
    disk_rate = _disk_rate(run, way)
    if disk_rate is None or disk_rate < MORE * tool_rate:
        return []
    return [
        Finding(
            f"the disks {'wrote' if way == 'write' else 'read'} {rate(disk_rate)}, "
            f"{times_text(disk_rate / tool_rate)} the {rate(tool_rate)} of the tool, and no layer adds to it",
            Severity.DOUBT,
            {
                "disks": Number(
                    disk_rate, "B/s", f"{way}, by the disks", metric=f"{way}.bandwidth"
                ),
                "tool": Number(
                    tool_rate, "B/s", f"{way}, by the tool", figure=_stacks.tool_figure(run, way)
                ),
            },
            about=way,
        )
    ]


def _disk_rate(run: Run, way: str) -> float | None:
    disks = _stacks.active_disks(run)
    tracks = run.measured_tracks(f"{way}.bandwidth", disks)
    if not run.windows or not tracks or min(len(track.times) for track in tracks) < ENOUGH:
        return None
    return run.total_rate(f"{way}.bandwidth", disks)


def _before_start(run: Run, tool_rate: float) -> list[Finding]:
    """Report I/O before the tool began, on disks without a file system: nothing is laid out on these."""
    begin = min((window.start for window in run.windows), default=0.0)
    if begin <= NEAR or not _stacks.straight(run):
        return []
    total, seconds = 0.0, 0.0
    for way in OTHER:
        for name in _stacks.active_disks(run):
            for device in (
                track
                for track in run.tracks
                if (track.device, track.metric) == (name, f"{way}.bandwidth")
            ):
                ends, spans = (
                    np.asarray(device.times, dtype=float),
                    np.asarray(device.spans(), dtype=float),
                )
                values = np.asarray(device.values, dtype=float)
                early = (ends <= begin) & np.isfinite(values)
                total += float((values * spans)[early].sum())
                seconds = max(seconds, float(spans[early].sum()))
    if seconds <= 0 or total / seconds < max(STRAYS * tool_rate, LEAST):
        return []
    return [
        Finding(
            f"{rate(total / seconds)} were read or written on {join_names(_stacks.active_disks(run))} in the "
            f"{seconds:.0f} s before the tool began",
            Severity.DOUBT,
            {
                "before": Number(total / seconds, "B/s", "by the disks, before the tool began"),
                "tool": Number(tool_rate, "B/s", "by the tool"),
            },
            about="before",
        )
    ]
