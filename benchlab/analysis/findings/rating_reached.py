# SPDX-License-Identifier: Apache-2.0
"""A disk does what it is rated for: that limits the run, and no other layout on as many such disks is faster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import join_names, rate, share

LABEL = "Rating reached"
METHOD = "Findings"

REACHED = 0.95
RATINGS = (
    ("IOPS", "rated_iops", "iops", "op/s"),
    ("throughput", "rated_bandwidth", "bandwidth", "B/s"),
)


def applies(run: Run) -> list[Finding]:
    """Compare each rating with the kernel's count of each disk; if nobody watched, with the tool's over all disks."""
    return [finding for rating in RATINGS for finding in _rating_reached(run, *rating)]


def _rating_reached(run: Run, what: str, field: str, metric: str, unit: str) -> list[Finding]:
    rated = {
        name: float(limit)
        for name in _stacks.active_disks(run)
        if name in run.devices and (limit := getattr(run.devices[name], field))
    }
    if not rated:
        return []
    totals = _disk_totals(run, metric, _disks_near_rating(run, metric, rated))
    full = {name: rate_ for name, rate_ in totals.items() if rate_ >= REACHED * rated[name]}
    if full:
        return [_describe_rating(what, unit, metric, full, rated)]
    watched = any(track.device in rated for track in run.tracks)
    return [] if watched else _rating_by_tool(run, what, metric, unit, rated)


def _disks_near_rating(run: Run, metric: str, rated: Mapping[str, float]) -> tuple[str, ...]:
    """Disks that reached the rating in any interval at all; their means are expensive and come later."""
    most = dict.fromkeys(rated, 0.0)
    for track in run.tracks:
        if (
            track.device in rated
            and track.metric in (f"read.{metric}", f"write.{metric}")
            and track.values
        ):
            most[track.device] += float(np.fmax.reduce(np.asarray(track.values, dtype=float)))
    return tuple(name for name, value in most.items() if value >= REACHED * rated[name])


def _disk_totals(run: Run, metric: str, disks: tuple[str, ...]) -> dict[str, float]:
    """Reads and writes per second of each disk that was watched."""
    totals: dict[str, list[float]] = {}
    for way in ("read", "write"):
        for track in run.measured_tracks(f"{way}.{metric}", disks):
            totals.setdefault(track.device, []).append(track.mean())
    return {name: sum(ways) for name, ways in totals.items() if len(ways) == 2}


def _describe_rating(
    what: str, unit: str, metric: str, full: dict[str, float], rated: dict[str, float]
) -> Finding:
    which = tuple(full)
    mean, limit = (
        sum(full.values()) / len(full),
        sum(rated[disk_name] for disk_name in which) / len(full),
    )
    each = " each" if len(which) > 1 else ""
    return Finding(
        f"{join_names(which)} did {rate(mean, unit)}{each}, {share(mean / limit)} of the {rate(limit, unit)} that "
        f"{'they are' if each else 'it is'} rated for: that holds it back",
        Severity.LIMIT,
        {
            **{
                name: Number(value, unit, f"{what} of {name}", device=name, metric=metric)
                for name, value in full.items()
            },
            "rated": Number(limit, unit, f"rated {what} of a disk"),
        },
        about=what,
    )


def _rating_by_tool(
    run: Run, what: str, metric: str, unit: str, rated: dict[str, float]
) -> list[Finding]:
    counted, limit = run.figures.get(metric), sum(rated.values())
    once = _stacks.quiet(run) and _stacks.copies(run) == 1
    all_rated = once and len(rated) == len(_stacks.active_disks(run))
    if not counted or not all_rated or not REACHED * limit <= counted <= limit / REACHED:
        return []
    return [
        Finding(
            f"{rate(counted, unit)} is {share(counted / limit)} of the {rate(limit, unit)} that "
            f"{join_names(tuple(rated))} {'are' if len(rated) > 1 else 'is'} rated for: that holds it back",
            Severity.LIMIT,
            {
                "counted": Number(counted, unit, f"{what}, by the tool", figure=metric),
                "rated": Number(limit, unit, f"rated {what} of the disks, together"),
            },
            about=what,
        )
    ]
