# SPDX-License-Identifier: Apache-2.0
"""A layout with a cache is no faster than the same without it, at the depths that were measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import Pair, depths, has, pairs, stack
from benchlab.analysis.verdicts import Says

LABEL = "The cache does not help"
METHOD = "Findings"

CACHE = ("cache",)
# single repeats: from here on there is nothing to say
HELPS = 1.05


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Findings where nothing but the cache differs (bcache, flashcache, LVM's, a pool's second level)."""
    return [found for one in pairs(lines, _adds) if (found := _told(one))]


def _adds(without: Line, with_: Line) -> bool:
    if has(without, "cache") or not has(with_, "cache"):
        return False
    return stack(without.layers, CACHE) == stack(with_.layers, CACHE)


def _told(one: Pair) -> Finding | None:
    """Finding of one pair. A depth by itself comes before all of them together: their mean may hide it."""
    severity = Severity.LIMIT
    slower = one.surely(Says.SLOWER)
    if one.everywhere and (verdict := one.differs()) and verdict.says == Says.SLOWER:
        says = f"the cache makes it slower: {one.did()}"
    elif slower:
        where, one = depths(slower), one.at(slower)
        says = f"the cache makes it slower {where}: {one.did()}"
    elif one.single:
        if one.over.ratio >= HELPS:
            return None
        says, severity = f"whether the cache helps is open: {one.did('did')}", Severity.NOTE
    elif one.over.says == Says.NONE and not one.decided:
        says = f"the cache makes no difference: {one.did()}"
    else:
        return None
    return Finding(
        f"{says} ({one.error()})", severity, one.numbers(), about=one.about, runs=one.runs
    )
