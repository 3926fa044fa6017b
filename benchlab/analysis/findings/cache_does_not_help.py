# SPDX-License-Identifier: Apache-2.0
"""A layout with a cache is no faster than the same without it, at the depths that were measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import (
    Pair,
    comparable_pairs,
    depths_text,
    has_use,
    stack_signature,
)
from benchlab.analysis.verdicts import Conclusion

LABEL = "The cache does not help"
METHOD = "Findings"

CACHE = ("cache",)
# Single repeats: from this ratio on there is no finding.
HELPS = 1.05


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Compare set-ups that differ only in the cache (bcache, flashcache, LVM's, a pool's second level)."""
    return [
        finding
        for pair in comparable_pairs(lines, _adds_cache)
        if (finding := _describe_cache(pair))
    ]


def _adds_cache(without: Line, with_: Line) -> bool:
    if has_use(without, "cache") or not has_use(with_, "cache"):
        return False
    return stack_signature(without.layers, CACHE) == stack_signature(with_.layers, CACHE)


def _describe_cache(pair: Pair) -> Finding | None:
    """Report one pair. Single depths come before the mean of all, which may hide them."""
    severity = Severity.LIMIT
    slower = pair.certain_depths(Conclusion.SLOWER)
    if (
        pair.unanimous
        and (verdict := pair.certain_verdict())
        and verdict.conclusion == Conclusion.SLOWER
    ):
        sentence = f"the cache makes it slower: {pair.ratio_sentence()}"
    elif slower:
        where, pair = depths_text(slower), pair.at_worst_of(slower)
        sentence = f"the cache makes it slower {where}: {pair.ratio_sentence()}"
    elif pair.single:
        if pair.overall.ratio >= HELPS:
            return None
        sentence, severity = (
            f"whether the cache helps is open: {pair.ratio_sentence('did')}",
            Severity.NOTE,
        )
    elif pair.overall.conclusion == Conclusion.NONE and not pair.any_decided:
        sentence = f"the cache makes no difference: {pair.ratio_sentence()}"
    else:
        return None
    return pair.finding(sentence, severity)
