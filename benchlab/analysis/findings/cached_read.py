# SPDX-License-Identifier: Apache-2.0
"""The tool read more than its disks gave: a cache above them answered (docs/method.md, believability)."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import rate, share

LABEL = "Read from a cache"
METHOD = "Findings"

# Share of the bytes read that come from the disks: below it the figure is that of the cache.
SHARE = 0.5
# Least B/s: a tool that reads less shows nothing.
LEAST = 1 << 20


def applies(run: Run) -> list[Finding]:
    """Compare bytes, as a cache answers in pieces of its own.

    Layers that compress read less by themselves and are left out.
    """
    counted, disks = _stacks.tool_rate(run, "read"), run.layout_disks
    disk_rate = run.total_rate("read.bandwidth", disks)
    if (
        counted is None
        or disk_rate is None
        or counted < LEAST
        or disk_rate >= SHARE * counted
        or _compresses(run)
    ):
        return []
    return [
        Finding(
            f"{share(1 - disk_rate / counted)} of what it read came from a cache: the tool counted {rate(counted)}, "
            f"the disks gave {rate(disk_rate)}",
            Severity.DOUBT,
            {
                "read": Number(
                    counted, "B/s", "read, by the tool", figure=_stacks.tool_figure(run, "read")
                ),
                "disks": Number(disk_rate, "B/s", "read, by the disks", metric="read.bandwidth"),
            },
        )
    ]


def _compresses(run: Run) -> bool:
    """True when a layer compresses what can be: fewer bytes on disk are then no cache."""
    if run.access.compressible is False:
        return False
    return any(layer.options.get("compression", "off") != "off" for layer in run.layers)
