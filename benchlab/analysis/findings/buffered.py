# SPDX-License-Identifier: Apache-2.0
"""It went through the page cache: what it wrote, or part of it, was the memory's when the tool had ended."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import rate, share

LABEL = "Buffered"
METHOD = "Findings"

# of what it wrote, not on the disks while it measured
LATER = 0.10
# B/s
LEAST = 1 << 20
# intervals
ENOUGH = 5
# of the memory
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
    """By the disks' own count where they were watched, else by the size against the memory."""
    if run.access.direct or run.access.synced or run.access.writes is not True:
        return []
    said = _stacks.tool_rate(run, "write")
    if not said or said < LEAST:
        return []
    tracks = run.measured_tracks("write.bandwidth", _stacks.active_disks(run))
    if tracks:
        short = not run.windows or min(len(track.times) for track in tracks) < ENOUGH
        return [] if short else _late_writes(run, said)
    return _fits_in_memory(run, said)


def _late_writes(run: Run, said: float) -> list[Finding]:
    given = run.total_rate("write.bandwidth", _stacks.active_disks(run))
    if given is None or given > (1 - LATER) * said or _stacks.packing(run):
        return []
    return [
        Finding(
            f"{share(1 - given / said)} of what it wrote was still in memory when it ended: the tool counted "
            f"{rate(said)}, the disks got {rate(given)}",
            Severity.DOUBT,
            {
                "tool": Number(
                    said, "B/s", "write, by the tool", figure=_stacks.tool_figure(run, "write")
                ),
                "disks": Number(given, "B/s", "write, by the disks", metric="write.bandwidth"),
            },
        )
    ]


def _fits_in_memory(run: Run, said: float) -> list[Finding]:
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
                    said, "B/s", "write, by the tool", figure=_stacks.tool_figure(run, "write")
                ),
            },
        )
    ]


def _flushes_itself(run: Run) -> bool:
    """True when the tool makes it durable now and then, or at the end of what it measures."""
    told = run.options.get("conv") or ()
    return any(run.options.get(name) for name in FLUSHES) or any(name in told for name in FLUSHES)
