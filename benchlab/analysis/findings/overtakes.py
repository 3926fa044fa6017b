# SPDX-License-Identifier: Apache-2.0
"""One set-up is ahead at some depths and behind at others: which is better depends on the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import Pair, compare_lines, depths_text, figure_word
from benchlab.analysis.formats import ratio_range, times_text
from benchlab.analysis.verdicts import Conclusion

LABEL = "Overtaken"
METHOD = "Findings"

# least ratio of single repeats that is reported
APART = 1.05


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Find crossings by the verdicts of the depths; for single repeats only the ratios are reported."""
    held = (compare_lines(first, second) for first, second in combinations(lines, 2))
    return [finding for crossing in held if crossing and (finding := _describe_crossing(crossing))]


def _describe_crossing(pair: Pair) -> Finding | None:
    ratios = {depth: point.ratio for depth, point in pair.comparison.points.items()}
    if pair.overall.conclusion == Conclusion.OVERTAKES:
        conclusions = {depth: point.conclusion for depth, point in pair.comparison.points.items()}
        ahead = [depth for depth in ratios if conclusions[depth] == Conclusion.FASTER]
        behind = [depth for depth in ratios if conclusions[depth] == Conclusion.SLOWER]
    elif pair.overall.repeats[1] == 1:
        ahead = [depth for depth, ratio in ratios.items() if ratio >= APART]
        behind = [depth for depth, ratio in ratios.items() if ratio <= 1 / APART]
    else:
        return None
    if not ahead or not behind:
        return None
    decided = pair.overall.conclusion == Conclusion.OVERTAKES
    lower, higher = (
        _range_of_ratios([ratios[depth] for depth in some]) for some in (behind, ahead)
    )
    head = (
        f"{pair.second.name} {'does' if decided else 'did'} {lower} the {figure_word(pair.figure)} of {pair.first.name}"
        f" {depths_text(behind)}, and {higher} {depths_text(ahead)}"
    )
    most = max(ratios.values(), key=lambda ratio: max(ratio, 1 / ratio))
    numbers = pair.ratio_numbers()
    numbers["ratio"] = replace(numbers["ratio"], value=most)
    return Finding(
        f"{head} ({pair.overall.reason if decided else pair.interval_text()})",
        Severity.NOTE,
        numbers,
        about=pair.about,
        runs=pair.run_ids,
    )


def _range_of_ratios(ratios: Sequence[float]) -> str:
    low, high = min(ratios), max(ratios)
    return (
        times_text(low)
        if times_text(low) == times_text(high)
        else f"{ratio_range(low, high)} times"
    )
