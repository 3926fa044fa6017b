# SPDX-License-Identifier: Apache-2.0
"""The host's CPUs were given to other virtual machines while it measured (cpu.steal of /proc/stat)."""

from __future__ import annotations

from math import isnan

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import share

LABEL = "CPU time stolen"
METHOD = "Findings"

# share of the host's CPU time
MIN_HOST_STEAL = 0.03
# Share of the time of a single CPU: a tool with one thread may run on it.
MIN_CPU_STEAL = 0.10


def applies(run: Run) -> list[Finding]:
    """Check the host as a whole, else its worst CPU."""
    means = {track.device: track.mean() for track in run.measured_tracks("cpu.steal")}
    measured = {name: mean for name, mean in means.items() if not isnan(mean)}
    whole = measured.pop("", 0.0)
    worst = max(measured, key=lambda name: measured[name], default="")
    if whole >= MIN_HOST_STEAL:
        device, mean, whose = "", whole, "the host's CPU time"
    elif worst and measured[worst] >= MIN_CPU_STEAL:
        device, mean, whose = worst, measured[worst], f"the time of {worst}"
    else:
        return []
    return [
        Finding(
            f"{share(mean)} of {whose} went to other virtual machines while it measured",
            Severity.DOUBT,
            {"steal": Number(mean, "1", f"steal of {whose}", device=device, metric="cpu.steal")},
        )
    ]
