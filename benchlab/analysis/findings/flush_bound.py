# SPDX-License-Identifier: Apache-2.0
"""Most of a disk's writes are flushes, which move no bytes (article 000: 7,248 w/s with 0.3 MB/s)."""

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

# Share of the writes: if each write is followed by a flush, half of them are flushes.
MOST = 0.45
# least writes/s
LEAST = 10.0


def applies(run: Run) -> list[Finding]:
    """Report one finding per run: the window in which most disks are affected."""
    best: tuple[int, float, str, dict[str, Flushes]] | None = None
    for window, part in measured_parts(run):
        flushes_by_disk = {
            name: disk_flushes
            for name, disk_flushes in _disk_flushes(part)
            if disk_flushes.writes >= LEAST and disk_flushes.share >= MOST
        }
        if flushes_by_disk:
            rank = (
                len(flushes_by_disk),
                max(disk_flushes.share for disk_flushes in flushes_by_disk.values()),
            )
            if best is None or rank > best[:2]:
                best = (*rank, window if len(measured_parts(run)) > 1 else "", flushes_by_disk)
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
        if (disk_flushes := flushes(writes, moved, counted, block)) is not None:
            yield name, disk_flushes


def _describe_flushes(window: str, flushes_by_disk: dict[str, Flushes], total: int) -> Finding:
    name = max(flushes_by_disk, key=lambda disk_name: flushes_by_disk[disk_name].share)
    disk_flushes = flushes_by_disk[name]
    many = f"; {len(flushes_by_disk)} of {total} disks got mostly flushes" if total > 1 else ""
    return Finding(
        f"At least {share(disk_flushes.share)} of the {disk_flushes.writes:.0f} writes a second on {name}"
        f"{f' in {window}' if window else ''} were flushes, which move no bytes{many}",
        Severity.LIMIT,
        {
            "share": Number(
                disk_flushes.share,
                "1",
                f"flushes of the writes on {name}",
                device=name,
                metric="write.iops",
            ),
            "writes": Number(
                disk_flushes.writes, "op/s", f"writes on {name}", device=name, metric="write.iops"
            ),
        },
        about="flushes",
    )
