# SPDX-License-Identifier: Apache-2.0
"""Gain or cost of a log device (SLOG): the same layout with and without it."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import Pair, depths, has, pairs, stack
from benchlab.analysis.verdicts import Says

LABEL = "Log device"
METHOD = "Findings"

LOG = ("log",)


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Findings where nothing but the log device differs. Of one repeat each only the ratio is told."""
    return [found for one in pairs(lines, _adds) if (found := _told(one))]


def _adds(without: Line, with_: Line) -> bool:
    if has(without, "log") or not has(with_, "log"):
        return False
    return stack(without.layers, LOG) == stack(with_.layers, LOG)


def _told(one: Pair) -> Finding | None:
    """Finding of one pair. A depth by itself comes before all of them together: their mean may hide it."""
    costs, gains = one.surely(Says.SLOWER), one.surely(Says.FASTER)
    severity = Severity.NOTE
    if one.everywhere and (verdict := one.differs()):
        slower = verdict.says == Says.SLOWER
        says = f"the log device {'costs' if slower else 'gains'}: {one.did()}"
        severity = Severity.LIMIT if slower else Severity.NOTE
    elif costs or gains:
        told = [("costs", costs), ("gains", gains)]
        where = " and ".join(f"{verb} {depths(some)}" for verb, some in told if some)
        severity = Severity.LIMIT if costs else Severity.NOTE
        one = one.at(costs or gains)
        says = f"the log device {where}: {one.did()}"
    elif one.single:
        says = f"whether the log device pays is open: {one.did('did')}"
    elif one.over.says == Says.NONE and not one.decided:
        says = f"the log device makes no difference: {one.did()}"
    else:
        return None
    return Finding(
        f"{says} ({one.error()})", severity, one.numbers(), about=one.about, runs=one.runs
    )
