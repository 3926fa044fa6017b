# SPDX-License-Identifier: Apache-2.0
"""The host's clock was set during the run: what a tool computes from it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import rate

LABEL = "Clock jumped"
METHOD = "Findings"

# s by which two readings of both clocks may differ
STEP = 0.25
# s per second by which a time service may correct a clock without a step
SLEW = 500e-6


def applies(run: Run) -> list[Finding]:
    step = clock_step(run.meta)
    if not step:
        return []
    where = "forward" if step > 0 else "back"
    numbers = {"step": Number(step, "s", "the host's clock against its monotonic one")}
    return [
        Finding(
            f"the host's clock was set {where} by {rate(abs(step), 's')} during the run: times and rates that the tool "
            "reckoned by it are wrong",
            Severity.DOUBT,
            numbers,
        )
    ]


def clock_step(meta: Mapping[str, object]) -> float:
    """Seconds by which the clock was set during a run, according to its runner; 0.0 if it was not set."""
    step = meta.get("clock_step")
    if not isinstance(step, int | float) or not isfinite(step):
        return 0.0
    return step if abs(step) >= STEP + SLEW * _run_seconds(meta) else 0.0


def _run_seconds(meta: Mapping[str, object]) -> float:
    start, end = meta.get("started_mono"), meta.get("ended_mono")
    if isinstance(start, int | float) and isinstance(end, int | float):
        return max(0.0, end - start)
    return 0.0
