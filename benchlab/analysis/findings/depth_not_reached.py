# SPDX-License-Identifier: Apache-2.0
"""Fewer or more I/Os were in flight than asked, by Little's law (docs/method.md, numbers; benchlab.analysis.curves)."""

from __future__ import annotations

from math import isfinite

from benchlab.analysis.curves import LITTLE_TOLERANCE, Little, little
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._stacks import held_back
from benchlab.analysis.formats import rate, share

LABEL = "Depth not reached"
METHOD = "Findings"

WAYS = ("read.", "write.")


def applies(run: Run) -> list[Finding]:
    """Compare the depth with the requested one.

    A whole multiple means so many workers of that depth each. There is no finding if flushes take time that no latency
    includes, nor if a few I/Os are the whole run.
    """
    requested, flight = run.access.outstanding, _iops_and_latency(run)
    if not requested or flight is None or run.access.synced or "sync.lat.mean" in run.figures:
        return []
    iops, latency = flight
    law, runtime = little(requested, [flight]), run.figures.get("runtime") or run.access.runtime_s
    # the last I/Os of all, which finish after the end
    edge = latency / runtime if runtime else 0.0
    if law.holds or _whole_workers(law) or abs(law.ratio - 1) <= LITTLE_TOLERANCE + edge:
        return []
    limit = held_back(run)
    word = (
        "asked, so the depth was not reached"
        if law.ratio < 1
        else "told, so the numbers do not agree"
    )
    if limit and law.ratio < 1:
        word = f"asked, as its {limit} wants it"
    return [
        Finding(
            f"{law.implied:.3g} I/Os were in flight on average ({rate(iops, 'op/s')} x {rate(latency, 's')}), "
            f"{share(law.ratio)} of the {requested} {word}",
            Severity.NOTE if limit and law.ratio < 1 else Severity.DOUBT,
            {
                "implied": Number(law.implied, "1", "I/Os in flight: IOPS x mean latency"),
                "asked": Number(requested, "1", "outstanding I/Os asked"),
                "iops": Number(iops, "op/s", "IOPS, by the tool", figure="iops"),
                "latency": Number(latency, "s", "mean latency, by the tool", figure="lat.mean"),
            },
        )
    ]


def _whole_workers(law: Little) -> bool:
    whole = round(law.ratio)
    return whole >= 2 and abs(law.ratio - whole) <= LITTLE_TOLERANCE * whole


def _iops_and_latency(run: Run) -> tuple[float, float] | None:
    """IOPS and mean total latency: of all I/Os, else of both directions with the latency weighted by their I/Os."""
    figures = run.figures
    pairs = [(figures.get("iops"), figures.get("lat.mean"))]
    if None in pairs[0]:
        ways = [way for way in WAYS if f"{way}iops" in figures]
        pairs = [(figures[f"{way}iops"], figures.get(f"{way}lat.mean")) for way in ways]
    complete = [(i, s) for i, s in pairs if i is not None and s is not None]
    if len(complete) < len(pairs) or not all(
        isfinite(number) for pair in complete for number in pair
    ):
        return None
    iops = sum(i for i, _ in complete)
    busy = sum(i * s for i, s in complete)
    return (iops, busy / iops) if iops > 0 and busy > 0 else None
