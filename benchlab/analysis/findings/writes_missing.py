# SPDX-License-Identifier: Apache-2.0
"""The tool counted direct writes, and the disks counted next to none: its rate is of no disk (fio's null engine)."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import names, rate

LABEL = "Writes that reached no disk"
METHOD = "Findings"

# Of what the tool wrote. Blocks that are overwritten before a pool's transaction group ends are fewer on the disks, and
# so is data that compresses; neither brings them down this far while direct I/O goes on for ENOUGH intervals.
SHARE = 0.01
# B/s: a tool that writes less tells nothing
LEAST = 1 << 20
# intervals
ENOUGH = 5


def applies(run: Run) -> list[Finding]:
    """Only past the page cache: what goes through it is written later (`buffered`)."""
    claimed = _stacks.asked(run, "write")
    if run.access.writes is not True or run.access.direct is not True or not claimed:
        return []
    disks = _stacks.disks(run)
    tracks = run.measured("write.bandwidth", disks)
    if claimed < LEAST or not tracks or min(len(one.times) for one in tracks) < ENOUGH:
        return []
    written = run.total("write.bandwidth", disks)
    if written is None or written >= SHARE * claimed or _shrinks(run):
        return []
    return [
        Finding(
            f"the tool counted {rate(claimed)} of direct writes, and {names(disks)} wrote {rate(written)}: "
            "its rate is not that of the disks",
            Severity.DOUBT,
            {
                "tool": Number(
                    claimed, "B/s", "write, by the tool", figure=_stacks.figure(run, "write")
                ),
                "disks": Number(written, "B/s", "write, by the disks", metric="write.bandwidth"),
            },
        )
    ]


def _shrinks(run: Run) -> bool:
    """True when a layer compresses or deduplicates data that allows it: zeros may take no room at all."""
    return bool(_stacks.packing(run)) and run.access.compressible is not False
