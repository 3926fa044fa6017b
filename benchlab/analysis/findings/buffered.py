# SPDX-License-Identifier: Apache-2.0
"""The run went through the page cache: its writes, or part of them, were still in memory when the tool had ended."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import rate, share

LABEL = "Buffered"
METHOD = "Findings"

# share of the writes that did not reach the disks while it measured
LATER = 0.10
# least B/s
LEAST = 1 << 20
# least number of intervals
ENOUGH = 5
# share of the memory that holds all of it
FITS = 0.5
FLUSHES = (
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "fsync_end",
    "fsync_all",
    "fsync_freq",
)


def applies(run: Run) -> list[Finding]:
    """Compare the tool's count with the disks' own if they were watched, else the size with the memory."""
    if run.access.direct or run.access.synced or run.access.writes is not True:
        return []
    counted = _stacks.tool_rate(run, "write")
    if not counted or counted < LEAST:
        return []
    tracks = run.measured_tracks("write.bandwidth", _stacks.active_disks(run))
    if tracks:
        short = not run.windows or min(len(track.times) for track in tracks) < ENOUGH
        return [] if short else _late_writes(run, counted)
    return _fits_in_memory(run, counted)


def _late_writes(run: Run, counted: float) -> list[Finding]:
    disk_rate = run.total_rate("write.bandwidth", _stacks.active_disks(run))
    if disk_rate is None or disk_rate > (1 - LATER) * counted or _stacks.packing(run):
        return []
    return [
        Finding(
            f"{share(1 - disk_rate / counted)} of what it wrote was still in memory when it ended: the tool counted "
            f"{rate(counted)}, the disks got {rate(disk_rate)}",
            Severity.DOUBT,
            {
                "tool": Number(
                    counted, "B/s", "write, by the tool", figure=_stacks.tool_figure(run, "write")
                ),
                "disks": Number(disk_rate, "B/s", "write, by the disks", metric="write.bandwidth"),
            },
        )
    ]


def _fits_in_memory(run: Run, counted: float) -> list[Finding]:
    size, memory = run.access.size, run.memory
    if (
        run.access.direct is None
        or not size
        or not memory
        or size > FITS * memory
        or _flushes_itself(run)
    ):
        return []
    return [
        Finding(
            f"it wrote {rate(size, 'B')} through the page cache of a host with {rate(memory, 'B')} of memory and never "
            "flushed it: the rate may be the memory's",
            Severity.DOUBT,
            {
                "size": Number(size, "B", "what it went over"),
                "memory": Number(memory, "B", "the host's memory"),
                "tool": Number(
                    counted, "B/s", "write, by the tool", figure=_stacks.tool_figure(run, "write")
                ),
            },
        )
    ]


def _flushes_itself(run: Run) -> bool:
    """True if the tool makes its writes durable now and then, or at the end of the measurement."""
    conversions = run.options.get("conv") or ()
    return any(run.options.get(name) for name in FLUSHES) or any(
        name in conversions for name in FLUSHES
    )
