# SPDX-License-Identifier: Apache-2.0
"""The run may have read blocks that nothing ever wrote: a disk, or a layer, answers these without looking."""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity

LABEL = "Blocks that were never written"
METHOD = "Findings"

READ = (("read.bandwidth", "B/s"), ("bandwidth", "B/s"), ("read.iops", "op/s"), ("iops", "op/s"))


def applies(run: Run) -> list[Finding]:
    """Report why the run may have read blocks that nothing ever wrote, as the plan says, if it read anything."""
    name, unit = next((pair for pair in READ if run.figures.get(pair[0], 0) > 0), ("", ""))
    if not run.unwritten or not name:
        return []
    read = Number(run.figures[name], unit, "read, by the tool", figure=name)
    return [Finding(run.unwritten.rstrip("."), Severity.DOUBT, {"read": read})]
