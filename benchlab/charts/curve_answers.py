# SPDX-License-Identifier: Apache-2.0
"""Answers of a swept line as a whole, and their words: knee, flat, collapse, cap. Pure.

Charts, tables and cards ask here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from benchlab.analysis.knees import ENOUGH_DEPTHS, Knee, knee
from benchlab.analysis.plateaus import Cap, Collapse, cap, collapse
from benchlab.charts.chart_options import Choice
from benchlab.charts.queries import Group
from benchlab.web.units import si

# (outstanding I/Os, the figure of each repeat)
Cells = tuple[tuple[int, tuple[float, ...]], ...]
REPEAT_COUNTS = {1: "one repeat", 2: "two repeats"}


@dataclass(frozen=True, slots=True)
class CurveAnswer:
    """Of a line that is swept and over; `knee` is None where too little was measured."""

    knee: Knee | None = None
    collapse: Collapse | None = None
    cap: Cap | None = None


def curve_answer(group: Group, operation: str = "") -> CurveAnswer:
    """Of a campaign that is over: until then it would jump with each run."""
    if not (group.over and group.swept):
        return CurveAnswer()
    iops = _repeats_by_depth(group, Choice(operation=operation).metric_name("iops"))
    return _analyse_cells(iops, () if operation else _repeats_by_depth(group, "lat.mean"))


@lru_cache(maxsize=4096)
def _analyse_cells(iops: Cells, latencies: Cells) -> CurveAnswer:
    """Reckoned once: a page asks for each line three times, and everybody who looks at it for the same ones."""
    depths = dict(iops)
    return CurveAnswer(knee(depths), collapse(depths), cap(depths, dict(latencies)))


def _repeats_by_depth(group: Group, name: str) -> Cells:
    cells: dict[int, list[float]] = {}
    for sample in group.samples:
        if sample.outstanding and name in sample.values:
            cells.setdefault(sample.outstanding, []).append(sample.values[name])
    return tuple((depth, tuple(values)) for depth, values in cells.items())


def curve_answer_text(group: Group) -> str:
    """Words for what is known of a line, or why nothing is. Without a colon: a label with one stands before them."""
    if not group.over:
        return "not before the campaign is over"
    answer = curve_answer(group)
    parts = [knee_text(answer.knee)]
    if answer.collapse:
        parts.append(collapse_text(answer.collapse))
    if answer.cap:
        parts.append(cap_text(answer.cap))
    return "; ".join(parts)


def knee_text(found_knee: Knee | None) -> str:
    """Of fewer than three repeats with the reservation that it needs."""
    if found_knee is None:
        return f"at least {ENOUGH_DEPTHS} depths, each with IOPS, are needed"
    position = _knee_position(found_knee)
    if found_knee.drawn:
        return position
    return (
        f"{position}, by {REPEAT_COUNTS[found_knee.repeats]} a depth (three are needed to draw it)"
    )


def _knee_position(found_knee: Knee) -> str:
    if found_knee.flat:
        return "none, flat from the first depth on"
    if found_knee.low is None:
        return "not reached, measure deeper"
    between = (
        f"between {found_knee.low} and {found_knee.high}"
        if found_knee.low != found_knee.high
        else f"perhaps {found_knee.low}"
    )
    if found_knee.at is None:
        deeper = " or deeper than was measured, so measure deeper" if found_knee.beyond else ""
        return f"uncertain, {between}{deeper}"
    about = "" if found_knee.drawn else "about "
    return f"{about}{found_knee.at} outstanding{f' ({between}, 95 %)' if found_knee.low != found_knee.high else ''}"


def collapse_text(drop: Collapse) -> str:
    return f"falls past {drop.peak}, by {drop.share:.0%} at {drop.last}".replace("%", " %")


def cap_text(limit: Cap) -> str:
    return f"capped at {si(limit.iops, 'op/s')} from {limit.low} to {limit.high}, within 2 %"
