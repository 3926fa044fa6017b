# SPDX-License-Identifier: Apache-2.0
"""Most of what a disk gets to write are flushes, which move no bytes (article 000: 7,248 w/s with 0.3 MB/s)."""

from __future__ import annotations

from collections.abc import Iterator

from benchlab.analysis.devices.flushes import SECTOR, Flushes, flushes
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import measured_parts
from benchlab.analysis.findings._stacks import active_disks
from benchlab.analysis.formats import share

LABEL = "Disks mostly flush"
METHOD = "Findings"

# of the writes: where each write is followed by a flush, half of them are
MOST = 0.45
# writes/s
LEAST = 10.0


def applies(run: Run) -> list[Finding]:
    """One of a run: of several windows the one in which most disks do."""
    best: tuple[int, float, str, dict[str, Flushes]] | None = None
    for window, part in measured_parts(run):
        found = {
            name: one
            for name, one in _disk_flushes(part)
            if one.writes >= LEAST and one.share >= MOST
        }
        if found:
            rank = (len(found), max(one.share for one in found.values()))
            if best is None or rank > best[:2]:
                best = (*rank, window if len(measured_parts(run)) > 1 else "", found)
    return [] if best is None else [_describe_flushes(best[2], best[3], len(active_disks(run)))]


def _disk_flushes(part: Run) -> Iterator[tuple[str, Flushes]]:
    members = active_disks(part)
    columns = [
        {track.device: track.mean() for track in part.measured_tracks(metric, members)}
        for metric in ("write.iops", "write.bandwidth", "flush.iops")
    ]
    for name in members:
        writes, moved, counted = (column.get(name, float("nan")) for column in columns)
        device = part.devices.get(name)
        block = (device.logical_block if device else None) or SECTOR
        if (one := flushes(writes, moved, counted, block)) is not None:
            yield name, one


def _describe_flushes(window: str, found: dict[str, Flushes], of: int) -> Finding:
    name = max(found, key=lambda one: found[one].share)
    one = found[name]
    many = f"; {len(found)} of {of} disks got mostly flushes" if of > 1 else ""
    return Finding(
        f"At least {share(one.share)} of the {one.writes:.0f} writes a second on {name}"
        f"{f' in {window}' if window else ''} were flushes, which move no bytes{many}",
        Severity.LIMIT,
        {
            "share": Number(
                one.share, "1", f"flushes of the writes on {name}", device=name, metric="write.iops"
            ),
            "writes": Number(
                one.writes, "op/s", f"writes on {name}", device=name, metric="write.iops"
            ),
        },
        about="flushes",
    )
