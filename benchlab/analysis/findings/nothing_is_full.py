# SPDX-License-Identifier: Apache-2.0
"""The disks are idle most of the time, and no core is full: the limit is elsewhere (article 001, 2 to 4 % busy)."""

from __future__ import annotations

from math import isnan

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._stacks import active_disks, held_back
from benchlab.analysis.findings.cpu_bound import BUSY, busiest, own_thread
from benchlab.analysis.formats import share

LABEL = "Nothing that is seen is full"
METHOD = "Findings"

# busy share of each disk
IDLE = 0.10
# B/s on the disks: less means that nothing reached them
LEAST = 1 << 16


def applies(run: Run) -> list[Finding]:
    """Check a run unless it was slowed down on purpose. A busy disk need not be full, but an idle one is not."""
    members = active_disks(run)
    means = {track.device: track.mean() for track in run.measured_tracks("util", members)}
    busy = [means.get(name, float("nan")) for name in members]
    if not busy or any(map(isnan, busy)) or max(busy) >= IDLE or held_back(run):
        return []
    moved = [run.total_rate(f"{way}.bandwidth", members) for way in ("read", "write")]
    core, own = busiest(run)[1], own_thread(run)
    if any(amount is None for amount in moved) or sum(amount or 0.0 for amount in moved) < LEAST:
        return []
    if core >= BUSY or (own is not None and own >= BUSY):
        return []
    low, high = share(min(busy)), share(max(busy))
    between = high if low == high else f"{low} to {high}"
    numbers = {"disks": Number(max(busy), "1", "busy time of the busiest disk", metric="util")}
    cpu = "nobody looked at the CPU"
    if not isnan(core):
        cpu = f"the busiest core {share(core)}"
        numbers["core"] = Number(core, "1", "busy time of the busiest core", metric="cpu.idle")
    return [
        Finding(
            f"The disks were {between} busy, {cpu}: the limit is elsewhere (one request at a time, a lock, a log,"
            " memory, a link)",
            Severity.LIMIT,
            numbers,
        )
    ]
