# SPDX-License-Identifier: Apache-2.0
"""Answers for single lines: knee, cap, fall and the full resource of a swept line, else its best figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchlab.analysis.devices import FullStation
from benchlab.analysis.formats import shown_unit
from benchlab.charts import cards, device_work, line_analysis, metric_naming
from benchlab.charts.line_analysis import CurveAnswer, group_by_work
from benchlab.charts.queries import Group, line_labels
from benchlab.verdicts.answers import LOWER_IS_BETTER, medians_of
from benchlab.web.units import si


@dataclass(frozen=True, slots=True)
class LineSummary:
    """Summary of one line. `full`: the resource that is full at its deepest point; None if that is unknown."""

    group: Group
    label: str
    answer: CurveAnswer
    full: FullStation | None

    @property
    def text(self) -> str:
        if self.group.swept:
            return f"Knee of {self.label}: {line_analysis.curve_answer_text(self.group)}"
        metrics = metric_naming.order_choices(self.group.units, self.group.tool, False)
        units = self.group.units
        name = next(
            (
                n
                for n in metrics
                if n in units and units[n] in LOWER_IS_BETTER and medians_of(self.group, n)
            ),
            "",
        )
        return f"{self.label}: {best_text(self.group, name)}" if name else ""

    @property
    def full_text(self) -> str:
        """ "Full at 64 outstanding: the disks, where …"; "" if that is unknown."""
        if self.full is None:
            return ""
        words = device_work.full_station_text(self.full, self.answer.cap)
        return f"Full at {self.full.depth} outstanding: {words}"


@dataclass(frozen=True, slots=True)
class SummaryCard:
    """Lines of one workload, with the key of its chart on the page."""

    key: str
    title: str
    lines: tuple[LineSummary, ...]


def summarize_workloads(groups: Sequence[Group]) -> list[SummaryCard]:
    """Summarize the lines of each workload.

    Two queries, and a third one if there is a volume on the disks; none without a swept line that is over.
    """
    summaries = {id(summary.group): summary for summary in summarize_curves(groups)}
    return [
        SummaryCard(
            cards.card_dom_id(lines[0].workload, any(line.swept for line in lines)),
            " · ".join(dict.fromkeys(line.workload_name for line in lines)),
            tuple(
                summaries.get(id(line)) or LineSummary(line, name, CurveAnswer(), None)
                for line, name in zip(lines, line_labels(lines), strict=True)
            ),
        )
        for lines in group_by_work(groups)
    ]


def summarize_curves(groups: Sequence[Group]) -> list[LineSummary]:
    """Summarize the swept lines only, with the queries of `summarize_workloads`."""
    lines = [
        (line, name)
        for some in group_by_work(groups)
        for line, name in zip(some, line_labels(some), strict=True)
    ]
    swept = [(line, name) for line, name in lines if line.swept]
    full = device_work.find_full_stations([line for line, _ in swept])
    return [
        LineSummary(line, name, line_analysis.curve_answer(line), full.get(at))
        for at, (line, name) in enumerate(swept)
    ]


def best_text(line: Group, name: str) -> str:
    """Describe the best median of a metric, and the depth at which it was reached."""
    medians, unit = medians_of(line, name), line.units[name]
    sign = 1 if LOWER_IS_BETTER.get(unit) else -1
    depth = min(medians, key=lambda depth: sign * medians[depth])
    at = f" at best, at {depth} outstanding" if len(medians) > 1 else ""
    return f"{si(medians[depth], shown_unit(name, unit))}{at}"


def why_not_compared(groups: Sequence[Group]) -> str:
    """Explain why none of these lines is compared with another, and what would give an answer."""
    if not groups:
        return "Nothing is measured yet: the answer comes with the first results."
    if not all(line.over for line in groups):
        return "So far there is nothing to compare: the campaign is not over."
    if len({line.topology for line in groups}) == 1:
        return (
            "One layout: nothing to compare it with. Measure another one with the same workloads, or compare this"
            " campaign with one of yours or of the library."
        )
    return (
        "No two of these lines had the same workload and were in order, so none is held against another. Measure the"
        " layouts with the same workloads."
    )
