# SPDX-License-Identifier: Apache-2.0
"""A core, or the tool's own thread, has no time left: the CPU is what was measured (docs/analysis.md, section 6)."""

from __future__ import annotations

from math import isnan

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import share

LABEL = "The CPU is full"
METHOD = "Findings"

# Busy share of the time, without waiting for I/O.
BUSY = 0.90


def applies(run: Run) -> list[Finding]:
    """Check the tool's thread if it is known, else the busiest core."""
    own = own_thread(run)
    if own is not None and own >= BUSY:
        return [
            Finding(
                f"The tool's own threads were busy {share(own)} of the time: one more request finds no CPU",
                Severity.LIMIT,
                {"tool": Number(own, "1", "CPU time of the tool's jobs", figure="cpu.user")},
                about="tool",
            )
        ]
    name, busy = busiest(run)
    if isnan(busy) or busy < BUSY:
        return []
    return [
        Finding(
            f"{name} was busy {share(busy)} of the time: what runs there finds no CPU for one more request",
            Severity.LIMIT,
            {"core": Number(busy, "1", f"busy time of {name}", device=name, metric="cpu.idle")},
            about=name,
        )
    ]


def own_thread(run: Run) -> float | None:
    """Busy share of the tool's thread, a mean over its jobs; None unless it reports user and system time."""
    user, system = (run.figures.get(f"cpu.{kind}") for kind in ("user", "system"))
    return None if user is None or system is None else user + system


def busiest(run: Run) -> tuple[str, float]:
    """The busiest core, and the share of its time neither idle nor waiting; ("", NaN) if no core is known."""
    waits = {track.device: track.mean() for track in run.measured_tracks("cpu.iowait")}
    busy = {
        track.device: 1
        - track.mean()
        - (0.0 if isnan(wait := waits.get(track.device, 0.0)) else wait)
        for track in run.measured_tracks("cpu.idle")
        if track.device
    }
    measured = {name: value for name, value in busy.items() if not isnan(value)}
    return max(measured.items(), key=lambda pair: pair[1], default=("", float("nan")))
