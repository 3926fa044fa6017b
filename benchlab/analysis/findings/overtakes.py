# SPDX-License-Identifier: Apache-2.0
"""One set-up is ahead at some depths and behind at others: which is better depends on the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import Pair, depths, pair, word
from benchlab.analysis.ratio_words import span, times
from benchlab.analysis.verdicts import Says

LABEL = "Overtaken"
METHOD = "Findings"

# what single repeats must differ by to be told at all
APART = 1.05


def compares(lines: Sequence[Line]) -> list[Finding]:
    """By the verdicts of the depths. Of one repeat each only the ratios are told."""
    held = (pair(first, second) for first, second in combinations(lines, 2))
    return [found for one in held if one and (found := _told(one))]


def _told(one: Pair) -> Finding | None:
    ratios = {depth: point.ratio for depth, point in one.held.points.items()}
    if one.over.says == Says.OVERTAKES:
        says = {depth: point.says for depth, point in one.held.points.items()}
        ahead = [depth for depth in ratios if says[depth] == Says.FASTER]
        behind = [depth for depth in ratios if says[depth] == Says.SLOWER]
    elif one.over.repeats[1] == 1:
        ahead = [depth for depth, ratio in ratios.items() if ratio >= APART]
        behind = [depth for depth, ratio in ratios.items() if ratio <= 1 / APART]
    else:
        return None
    if not ahead or not behind:
        return None
    decided = one.over.says == Says.OVERTAKES
    lower, higher = (_span([ratios[depth] for depth in some]) for some in (behind, ahead))
    head = (
        f"{one.second.name} {'does' if decided else 'did'} {lower} the {word(one.figure)} of {one.first.name}"
        f" {depths(behind)}, and {higher} {depths(ahead)}"
    )
    most = max(ratios.values(), key=lambda ratio: max(ratio, 1 / ratio))
    numbers = one.numbers()
    numbers["ratio"] = replace(numbers["ratio"], value=most)
    return Finding(
        f"{head} ({one.over.reason if decided else one.error()})",
        Severity.NOTE,
        numbers,
        about=one.about,
        runs=one.runs,
    )


def _span(ratios: Sequence[float]) -> str:
    low, high = min(ratios), max(ratios)
    return times(low) if times(low) == times(high) else f"{span(low, high)} times"
