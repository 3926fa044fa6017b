# SPDX-License-Identifier: Apache-2.0
"""Options of a chart that a person may choose. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from benchlab.analysis.rate_words import shown_unit
from benchlab.charts import naming
from benchlab.charts.naming import METRICS
from benchlab.charts.queries import Group

OPERATIONS = {"": "", "read": "reads", "write": "writes"}
# What a chart is drawn over. Of "cdf" the depth may stand behind it: "cdf.16".
DRAWINGS = {
    "": "over outstanding I/Os",
    "latency": "latency against IOPS",
    "cdf": "CDF of latencies",
}
STATISTIC_DASHES = dict(zip(naming.STATISTICS, ("solid", "dash", "dot", "dashdot"), strict=True))
# what is shown of several lines
FEW_STATISTICS = ("mean", "p99")


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of a person of what to see of the groups."""

    metric: str = "iops"
    operation: str = ""
    # of naming.LATENCY_KINDS; empty: the first of them that was measured
    kind: str = ""
    # empty: all for one line, mean and p99 for several
    statistics: tuple[str, ...] = ()
    # of AGAINST
    against: str = ""
    # outstanding I/Os of a CDF
    depth: int | None = None

    def metric_name(self, base: str) -> str:
        """The metric of that base; a metric that is no rate of both directions has no other."""
        its_own = base == self.metric and base not in METRICS
        return f"{self.operation}.{base}" if self.operation and not its_own else base

    def quantity(self, groups: Iterable[Group]) -> tuple[str, str]:
        """Word and unit of the metric, for the axis."""
        if self.metric in METRICS:
            return METRICS[self.metric]
        units = [group.units[self.metric] for group in groups if self.metric in group.units]
        return naming.metric_word(self.metric), shown_unit(self.metric, units[0] if units else "1")

    def latency_kind(self, groups: Iterable[Group]) -> str:
        """The kind of latency of a chart: one for all of its lines, or they would not compare. "" for none."""
        every = [sample.values for group in groups for sample in group.samples]
        kinds = (self.kind,) if self.kind else naming.LATENCY_KINDS
        return next(
            (
                kind
                for kind in kinds
                if any(self.measured_statistics(kind, values) for values in every)
            ),
            "",
        )

    def measured_statistics(self, kind: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Statistics of that latency that a run told."""
        return tuple(
            name
            for name in STATISTIC_DASHES
            if self.read_value(f"{kind}.{name}", values) is not None
        )

    def read_value(self, base: str, values: Mapping[str, float]) -> float | None:
        """A run's figure. What a run of reads alone told of reads is that of all of its I/O, and likewise of writes."""
        value = values.get(self.metric_name(base))
        if value is None and not self.operation:
            both = [values[name] for op in OPERATIONS if op and (name := f"{op}.{base}") in values]
            rates = [op for op in OPERATIONS if op and values.get(f"{op}.iops")]
            return both[0] if len(both) == len(rates) == 1 else None
        return value

    def drawn_statistics(self, lines: int, measured: Collection[str]) -> tuple[str, ...]:
        """Statistics to draw, of those that were measured."""
        preferred = self.statistics or (tuple(STATISTIC_DASHES) if lines == 1 else FEW_STATISTICS)
        return tuple(name for name in preferred if name in measured)
