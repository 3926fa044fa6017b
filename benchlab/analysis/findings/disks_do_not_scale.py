# SPDX-License-Identifier: Apache-2.0
"""More disks, and hardly more work: what is spread over them is held back by something else, or is not spread."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._set_ups import SIZES, Pair, depths, holding, pair, pairs, stack
from benchlab.analysis.verdicts import Says

LABEL = "More disks, no more work"
METHOD = "Findings"

# of what so many more disks could add: below it they do not scale
PART = 0.25
# more disks are more copies
COPIES = (("md", "level", 1), ("lvm", "type", "mirror"))


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Of layouts that differ in nothing but the number of disks, at depths that could keep all of them busy.

    One repeat decides nothing; its ratio is told all the same.
    """
    found = (_pair(one.first, one.second) for one in pairs(lines, _adds))
    return [told for one in found if one for told in _told(one)]


def _adds(fewer: Line, more: Line) -> bool:
    if not 0 < len(holding(fewer)) < len(holding(more)) or _copies(fewer):
        return False
    return _kind(fewer) == _kind(more)


def _kind(line: Line) -> object:
    """Kind of a line: its stack, with any number of disks, and how many of these hold nothing of their own."""
    spare = len(line.runs[0].disks()) - len(holding(line))
    return stack(line.layers, ignore=SIZES, counted=False), spare


def _copies(line: Line) -> bool:
    return any(
        layer.kind == k and layer.options.get(o) == v for layer in line.layers for k, o, v in COPIES
    )


def _pair(fewer: Line, more: Line) -> Pair | None:
    """By depths with a request for each disk; a stream has them by reading ahead."""
    least = len(holding(more))
    streams = all(run.access.random is False for line in (fewer, more) for run in line.runs)
    return pair(fewer, more, lambda depth: streams or depth >= least)


def _told(one: Pair) -> list[Finding]:
    fewer, more = len(holding(one.first)), len(holding(one.second))
    claim = _claim(one, 1 + PART * (more / fewer - 1))
    if claim is None:
        return []
    one, where, severity = claim
    numbers = one.numbers() | {
        "fewer": Number(fewer, "1", f"disks of {one.first.name}"),
        "more": Number(more, "1", f"disks of {one.second.name}"),
    }
    did = one.did("did" if severity == Severity.NOTE else "does")
    says = (
        f"with {more} disks instead of {fewer}{f' {where}:' if where else ''} {did} ({one.error()})"
    )
    return [Finding(says, severity, numbers, about=one.about, runs=one.runs)]


def _claim(one: Pair, most: float) -> tuple[Pair, str, Severity] | None:
    """Over all depths only where none of them is seen to gain that much, else of those that surely do not; the pair is
    then of the one that gains least."""
    high, points = one.over.high, one.held.points
    gains = any(point.says == Says.FASTER and point.ratio >= most for point in points.values())
    if not one.single and high is not None and high < most and not gains:
        return one, "", Severity.LIMIT
    if held := one.below(most):
        least = min(held, key=lambda depth: points[depth].ratio)
        return one.at([least]), depths(held), Severity.LIMIT
    if one.single and one.over.ratio < most:
        return one, "", Severity.NOTE
    return None
