# SPDX-License-Identifier: Apache-2.0
"""The tool counted direct writes, and the disks counted next to none: its rate is of no disk (fio's null engine)."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import join_names, rate

LABEL = "Writes that reached no disk"
METHOD = "Findings"

# Share of the bytes that the tool wrote. Blocks that are overwritten before a pool's transaction group ends reach the
# disks less often, and so does data that compresses; neither causes so little while direct I/O goes on for ENOUGH
# intervals.
SHARE = 0.01
# Least B/s: a tool that writes less shows nothing.
LEAST = 1 << 20
# least number of intervals
ENOUGH = 5


def applies(run: Run) -> list[Finding]:
    """Check writes past the page cache only: others reach the disks later (`buffered`)."""
    claimed = _stacks.tool_rate(run, "write")
    if run.access.writes is not True or run.access.direct is not True or not claimed:
        return []
    disks = _stacks.active_disks(run)
    tracks = run.measured_tracks("write.bandwidth", disks)
    if claimed < LEAST or not tracks or min(len(track.times) for track in tracks) < ENOUGH:
        return []
    written = run.total_rate("write.bandwidth", disks)
    if written is None or written >= SHARE * claimed or _shrinks_data(run):
        return []
    return [
        Finding(
            f"the tool counted {rate(claimed)} of direct writes, and {join_names(disks)} wrote {rate(written)}: "
            "its rate is not that of the disks",
            Severity.DOUBT,
            {
                "tool": Number(
                    claimed, "B/s", "write, by the tool", figure=_stacks.tool_figure(run, "write")
                ),
                "disks": Number(written, "B/s", "write, by the disks", metric="write.bandwidth"),
            },
        )
    ]


def _shrinks_data(run: Run) -> bool:
    """True when a layer compresses or deduplicates data that allows it: zeros may take no room at all."""
    return bool(_stacks.packing(run)) and run.access.compressible is not False
