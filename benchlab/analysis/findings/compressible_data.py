# SPDX-License-Identifier: Apache-2.0
"""Zeros or repeats, on a layer that packs them: hardly any of it reaches the disks (docs/method.md, before a run)."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import rate, share

LABEL = "Compressible data"
METHOD = "Findings"

RATES = (("bandwidth", "B/s"), ("iops", "op/s"), ("read.iops", "op/s"), ("write.iops", "op/s"))
# Share of the bytes: above it packing is not worth a number.
PACKED = 0.95


def applies(run: Run) -> list[Finding]:
    """Judge by the data that the tool is known to write; the disks' own count shows how much of it reached them."""
    layer = _stacks.packing(run)
    if run.access.compressible is not True or not layer:
        return []
    way = "write" if run.access.writes else "read"
    counted = _stacks.tool_rate(run, way)
    disk_rate = run.total_rate(f"{way}.bandwidth", _stacks.active_disks(run))
    numbers = {}
    words = f"its data are zeros or repeat themselves, and {layer} packs them"
    if counted:
        numbers["tool"] = Number(
            counted, "B/s", f"{way}, by the tool", figure=_stacks.tool_figure(run, way)
        )
    if counted and disk_rate is not None and disk_rate < PACKED * counted:
        numbers["disks"] = Number(
            disk_rate, "B/s", f"{way}, by the disks", metric=f"{way}.bandwidth"
        )
        verb = "wrote" if way == "write" else "read"
        words += f": of {rate(counted)} that it {verb} the disks saw {rate(disk_rate)} ({share(disk_rate / counted)})"
    if not numbers:
        numbers = _doubted_figure(run)
    return [Finding(words, Severity.DOUBT, numbers)] if numbers else []


def _doubted_figure(run: Run) -> dict[str, Number]:
    """The figure that this puts in doubt."""
    name, unit = next((rate for rate in RATES if run.figures.get(rate[0], 0) > 0), ("", ""))
    return (
        {"figure": Number(run.figures[name], unit, f"{name}, by the tool", figure=name)}
        if name
        else {}
    )
