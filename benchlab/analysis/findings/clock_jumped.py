"""The host's clock was set while it measured: what a tool reckons by it is wrong."""

from __future__ import annotations

from math import isfinite

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import rate

LABEL = "Clock jumped"
METHOD = "Findings"

STEP = 0.25  # s by which two looks at both clocks may differ
SLEW = 500e-6  # s a second, by which a time service may pull a clock right without a step


def applies(run: Run) -> list[Finding]:
    step, lasted = run.meta.get("clock_step"), _lasted(run)
    if not isinstance(step, int | float) or not isfinite(step) or abs(step) < STEP + SLEW * lasted:
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


def _lasted(run: Run) -> float:
    start, end = run.meta.get("started_mono"), run.meta.get("ended_mono")
    if isinstance(start, int | float) and isinstance(end, int | float):
        return max(0.0, end - start)
    return 0.0
