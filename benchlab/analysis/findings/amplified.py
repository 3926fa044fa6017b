# SPDX-License-Identifier: Apache-2.0
"""The disks moved several times what the tool did: a journal, parity, copy on write, larger pieces (docs/method.md)."""

from __future__ import annotations

from benchlab.analysis.devices.amplification import amplification
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import (
    is_resyncing,
    measured_parts,
    tool_rates,
    write_multiple,
)
from benchlab.analysis.findings._stacks import active_disks
from benchlab.analysis.formats import join_names, rate, times_text

LABEL = "The disks move more than the tool"
METHOD = "Findings"

# ratio to the amplification of the layout itself
MORE = 1.5
# least B/s of the tool
LEAST = 1 << 20
# least number of samples
ENOUGH = 3


def applies(run: Run) -> list[Finding]:
    """Report one finding for each direction: the window with the highest amplification."""
    if is_resyncing(run):
        return []
    members, findings = active_disks(run), []
    for way, due in (("read", 1.0), ("write", write_multiple(run))):
        candidates = [
            (times, window, rates)
            for window, part in measured_parts(run)
            if (rates := _disk_and_tool_rates(part, window, run, way)) is not None
            and (times := amplification([rates[0]], rates[1])) is not None
            and times >= MORE * due
        ]
        if candidates:
            times, window, (moved, requested) = max(candidates)
            findings.append(
                _describe_amplification(
                    way,
                    times,
                    due,
                    window if len(measured_parts(run)) > 1 else "",
                    moved,
                    requested,
                    members,
                )
            )
    return findings


def _disk_and_tool_rates(part: Run, window: str, run: Run, way: str) -> tuple[float, float] | None:
    requested, members = tool_rates(part, window, run)[way], active_disks(part)
    tracks = part.measured_tracks(f"{way}.bandwidth", members)
    moved = part.total_rate(f"{way}.bandwidth", members)
    if requested is None or moved is None or requested < LEAST:
        return None
    return (moved, requested) if min(len(track.times) for track in tracks) >= ENOUGH else None


def _describe_amplification(
    way: str,
    times: float,
    due: float,
    window: str,
    moved: float,
    requested: float,
    members: tuple[str, ...],
) -> Finding:
    what = "reads" if way == "read" else "writes"
    own = f", of which the layout's own copies and parity make up to {due:g}" if due > 1 else ""
    return Finding(
        f"The {what} on disk are {times_text(times)} those of the tool{own}: {rate(moved)} on"
        f" {join_names(members)}, {rate(requested)} asked{f' in {window}' if window else ''}",
        Severity.NOTE,
        {
            "disks": Number(moved, "B/s", f"{what} on disk", metric=f"{way}.bandwidth"),
            "tool": Number(requested, "B/s", f"{what} of the tool", figure=f"{way}.bandwidth"),
        },
        about=way,
    )
