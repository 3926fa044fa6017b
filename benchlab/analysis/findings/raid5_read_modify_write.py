# SPDX-License-Identifier: Apache-2.0
"""Members are read under a load of writes: parity, or a record, is made anew of what was there (docs/method.md).

A write smaller than a stripe costs RAID 4 and 5 two reads and two writes, RAID 6 three of each.
"""

from __future__ import annotations

from benchlab.analysis.evidence import Layer, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import (
    PARITY,
    is_resyncing,
    md_parity,
    measured_parts,
    only_writes,
    tool_rates,
)
from benchlab.analysis.formats import join_names, rate, ratio_number

LABEL = "Parity costs reads"
METHOD = "Findings"

# Share of the bytes that the tool writes: a file system's metadata is below it.
SHARE = 0.25
# least B/s
LEAST = 1 << 20


def applies(run: Run) -> list[Finding]:
    """Report the most expensive of several windows, but none while an array resyncs, which reads all members."""
    if not only_writes(run) or is_resyncing(run):
        return []
    findings = []
    for layer in run.layers:
        if not _parity_disks(layer) or len(layer.uses.get("data", ())) < 2:
            continue
        costs = [
            cost
            for window, part in measured_parts(run)
            if (cost := _parity_cost(part, window, run, layer))
        ]
        if costs:
            findings.append(
                _describe_parity(layer, *max(costs, key=lambda cost: (cost[1] + cost[2]) / cost[0]))
            )
    return findings


def _parity_disks(layer: Layer) -> int:
    if layer.kind == "md":
        return md_parity(layer)
    return PARITY.get(str(layer.options.get("layout", "")), 0) if layer.kind == "zpool" else 0


def _parity_cost(
    part: Run, window: str, run: Run, layer: Layer
) -> tuple[float, float, float] | None:
    """B/s that the tool wrote, that the members read, and that they wrote; None if there is no such cost."""
    wrote, members = tool_rates(part, window, run)["write"], layer.uses["data"]
    read, written = (
        part.total_rate("read.bandwidth", members),
        part.total_rate("write.bandwidth", members),
    )
    if wrote is None or read is None or written is None:
        return None
    return (wrote, read, written) if wrote > 0 and read >= max(LEAST, SHARE * wrote) else None


def _describe_parity(layer: Layer, wrote: float, read: float, written: float) -> Finding:
    members = layer.uses["data"]
    kind = (
        f"RAID {layer.options.get('level', 5)}"
        if layer.kind == "md"
        else str(layer.options["layout"])
    )
    why = (
        "parity is made of what was read before (read-modify-write)"
        if layer.kind == "md"
        else "records are read before a part of them is written"
    )
    return Finding(
        f"Each byte written costs {ratio_number((read + written) / wrote)} bytes on the members of {kind}:"
        f" the tool wrote {rate(wrote)}, they read {rate(read)} and wrote {rate(written)}; {why}",
        Severity.LIMIT,
        {
            "tool": Number(wrote, "B/s", "written, by the tool", figure="write.bandwidth"),
            "read": Number(read, "B/s", f"read of {join_names(members)}", metric="read.bandwidth"),
            "written": Number(
                written, "B/s", f"written to {join_names(members)}", metric="write.bandwidth"
            ),
        },
        about=f"{layer.kind} {kind}",
    )
