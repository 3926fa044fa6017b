# SPDX-License-Identifier: Apache-2.0
"""Gain or cost of a log device (SLOG): the same layout with and without it."""

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

LABEL = "Log device"
METHOD = "Findings"

LOG = ("log",)


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Compare set-ups that differ only in the log device. For single repeats only the ratio is reported."""
    return [
        finding for pair in comparable_pairs(lines, _adds_log) if (finding := _describe_log(pair))
    ]


def _adds_log(without: Line, with_: Line) -> bool:
    if has_use(without, "log") or not has_use(with_, "log"):
        return False
    return stack_signature(without.layers, LOG) == stack_signature(with_.layers, LOG)


def _describe_log(pair: Pair) -> Finding | None:
    """Report one pair. Single depths come before the mean of all, which may hide them."""
    costs, gains = pair.certain_depths(Conclusion.SLOWER), pair.certain_depths(Conclusion.FASTER)
    severity = Severity.NOTE
    if pair.unanimous and (verdict := pair.certain_verdict()):
        slower = verdict.conclusion == Conclusion.SLOWER
        sentence = f"the log device {'costs' if slower else 'gains'}: {pair.ratio_sentence()}"
        severity = Severity.LIMIT if slower else Severity.NOTE
    elif costs or gains:
        sides = [("costs", costs), ("gains", gains)]
        where = " and ".join(f"{verb} {depths_text(some)}" for verb, some in sides if some)
        severity = Severity.LIMIT if costs else Severity.NOTE
        pair = pair.at_worst_of(costs or gains)
        sentence = f"the log device {where}: {pair.ratio_sentence()}"
    elif pair.single:
        sentence = f"whether the log device pays is open: {pair.ratio_sentence('did')}"
    elif pair.overall.conclusion == Conclusion.NONE and not pair.any_decided:
        sentence = f"the log device makes no difference: {pair.ratio_sentence()}"
    else:
        return None
    return pair.finding(sentence, severity)
