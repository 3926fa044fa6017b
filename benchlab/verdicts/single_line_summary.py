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
from benchlab.web.units import short_si, si


@dataclass(frozen=True, slots=True)
class BestPoint:
    """Best median of a line. `depth`: None without a sweep. `latency`: mean there, "" if it was not measured.

    `amount`: the median in base units, negative if lower is better, so that the greatest is the best.
    """

    label: str
    value: str
    amount: float
    depth: int | None
    latency: str
    latency_word: str


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
        name = self._metric
        return f"{self.label}: {best_text(self.group, name)}" if name else ""

    @property
    def best(self) -> BestPoint | None:
        return best_point(self.group, self._metric, self.label) if self._metric else None

    @property
    def _metric(self) -> str:
        """First metric of the tool by which a line can be judged; "" without one."""
        units, swept = self.group.units, self.group.swept
        metrics = metric_naming.order_choices(units, self.group.tool, swept)
        return next(
            (
                name
                for name in metrics
                if name in units and units[name] in LOWER_IS_BETTER and medians_of(self.group, name)
            ),
            "",
        )

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

    @property
    def best(self) -> BestPoint | None:
        points = [line.best for line in self.lines]
        return max(filter(None, points), key=lambda point: point.amount, default=None)

    @property
    def is_over(self) -> bool:
        return all(line.group.over for line in self.lines)


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
    point = best_point(line, name)
    return f"{point.value} at best, at {point.depth} outstanding" if point.depth else point.value


def best_point(line: Group, name: str, label: str = "") -> BestPoint:
    """Best median of a metric that the line has, with the mean latency at that depth."""
    medians, unit = medians_of(line, name), line.units[name]
    sign = -1 if LOWER_IS_BETTER.get(unit) else 1
    depth = max(medians, key=lambda depth: sign * medians[depth])
    kinds = [kind for kind in metric_naming.LATENCY_KINDS if f"{kind}.mean" in line.units]
    latency = medians_of(line, f"{kinds[0]}.mean").get(depth) if kinds and unit != "s" else None
    return BestPoint(
        label,
        si(medians[depth], shown_unit(name, unit)),
        sign * medians[depth],
        depth if len(medians) > 1 else None,
        "" if latency is None else short_si(latency, "s"),
        metric_naming.LATENCY_KINDS[kinds[0]].lower() if kinds else "",
    )


def why_not_compared(groups: Sequence[Group]) -> str:
    """Explain why none of these lines is compared with another, and what would give an answer."""
    if not groups:
        return "Nothing is measured yet: the answer comes with the first results."
    if not all(line.over for line in groups):
        return "So far there is nothing to compare: the campaign is not over."
    if len({line.topology for line in groups}) == 1:
        return (
            "One layout: nothing to compare it with. Measure another with the same workloads, or compare this"
            " campaign with another of yours or one of the library."
        )
    return (
        "Nothing to compare: no two layouts that were in order (not degraded) ran the same workload. Measure them with"
        " the same workloads."
    )
