# SPDX-License-Identifier: Apache-2.0
"""The rate, or the latency, is at one of two levels for long spells: a limit that saves up credits.

A level that is left once and never again is an SSD's cache or a changed state, and not reported, unless it falls to the
disks' rating. Stacks that keep data themselves and buffered writes are left out: those come in bursts by nature.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.findings._pace import Array, Pace, latency_pace, paces
from benchlab.analysis.formats import rate, share

LABEL = "Two levels, as credits make them"
METHOD = "Findings"

# least number of intervals
FEWEST = 30
# s of the median spell at each level: the rhythm of a file system or pool is shorter
SPELL = 10.0
# least ratio of the two levels
APART = 1.25
# the gap, in standard deviations of a level
SHARP = 5.0
# largest share of the intervals in the middle half of the gap, and at the wrong level within a spell
BETWEEN = 0.05
# least share of the time at each level
LEAST = 0.08
# largest distance of a level from the rating
RATED = 0.05


@dataclass(frozen=True, slots=True)
class Levels:
    low: float
    high: float
    # share of the time at the low level
    at_low: float
    # True for a spell at the high level, in order of time
    spells: tuple[bool, ...]


def applies(run: Run) -> list[Finding]:
    bypasses_cache = run.access.direct or run.access.synced
    if not bypasses_cache or _stacks.cached(run):
        return []
    for pace in (*paces(run), *filter(None, [latency_pace(run)])):
        levels = _two_levels(pace)
        if levels and (len(levels.spells) > 2 or _fell_to_rating(run, pace, levels)):
            return [_describe_levels(pace, levels)]
    return []


def _two_levels(pace: Pace) -> Levels | None:
    if pace.values.size < FEWEST or (pace.values <= 0).any():
        return None
    logs = np.log(pace.values)
    edge = _class_border(logs)
    high = logs > edge
    if not high.any() or high.all():
        return None
    low_at, high_at = float(np.median(logs[~high])), float(np.median(logs[high]))
    gap = high_at - low_at
    noise = 1.4826 * max(
        float(np.median(np.abs(logs[high] - high_at))),
        float(np.median(np.abs(logs[~high] - low_at))),
    )
    between = np.abs(logs - (low_at + high_at) / 2) < gap / 4
    if gap < np.log(APART) or gap < SHARP * noise or between.mean() > BETWEEN:
        return None
    smooth = _majority(high)
    if (smooth != high).mean() > BETWEEN:
        return None
    return _level_spells(pace, smooth, low_at, high_at)


def _class_border(logs: Array) -> float:
    """Border between the two classes that differ most (Otsu)."""
    ordered = np.sort(logs)
    n = np.arange(1, ordered.size)
    sums = np.cumsum(ordered)
    means = sums[:-1] / n
    others = (sums[-1] - sums[:-1]) / (ordered.size - n)
    at = int(np.argmax(n * (ordered.size - n) * (others - means) ** 2))
    return float(ordered[at] + ordered[at + 1]) / 2


def _majority(high: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Majority of five neighbours: a lone interval is no spell."""
    padded = np.pad(high.astype(int), 2, mode="edge")
    return np.convolve(padded, np.ones(5, dtype=int), "valid") >= 3


def _level_spells(
    pace: Pace, high: NDArray[np.bool_], low_at: float, high_at: float
) -> Levels | None:
    cuts = [0, *(np.flatnonzero(np.diff(high)) + 1).tolist(), high.size]
    lengths = [float(pace.spans[a:b].sum()) for a, b in pairwise(cuts)]
    kinds = [bool(high[a]) for a in cuts[:-1]]
    for kind in (True, False):
        of_kind = [
            length for length, level_kind in zip(lengths, kinds, strict=True) if level_kind == kind
        ]
        if not of_kind or np.median(of_kind) < SPELL or sum(of_kind) < LEAST * pace.duration_s:
            return None
    at_low = float(pace.spans[~high].sum()) / pace.duration_s
    return Levels(float(np.exp(low_at)), float(np.exp(high_at)), at_low, tuple(kinds))


def _fell_to_rating(run: Run, pace: Pace, levels: Levels) -> bool:
    """True when it fell once, to what the disks are rated for."""
    ways = {"op/s": "rated_iops", "B/s": "rated_bandwidth"}
    names = _stacks.active_disks(run)
    if (
        levels.spells != (True, False)
        or pace.unit not in ways
        or not set(names) <= set(run.devices)
    ):
        return False
    rated = [getattr(run.devices[name], ways[pace.unit]) for name in names]
    return all(rated) and abs(levels.low / sum(rated) - 1) <= RATED


def _describe_levels(pace: Pace, levels: Levels) -> Finding:
    changes = len(levels.spells) - 1
    times = "once" if changes == 1 else f"{changes} times"
    return Finding(
        f"the {pace.label.split(',')[0]} changed {times} between {rate(levels.high, pace.unit)} and "
        f"{rate(levels.low, pace.unit)}, where it was for {share(levels.at_low)} of the time: so does a limit that "
        "saves up credits, and the mean is of neither level",
        Severity.DOUBT,
        {
            "high": Number(levels.high, pace.unit, f"{pace.label}, the higher level"),
            "low": Number(levels.low, pace.unit, f"{pace.label}, the lower level"),
            "at_low": Number(levels.at_low, "1", "share of the time at the lower level"),
        },
        about="" if pace.only_window else pace.window,
    )
