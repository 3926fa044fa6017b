"""What a person wants to see in a chart. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchlab.charts import naming
from benchlab.charts.naming import METRICS
from benchlab.charts.queries import Group

OPERATIONS = {"": "", "read": "reads", "write": "writes"}
LATENCIES = {"mean": "solid", "p50": "dash", "p99": "dot", "p99.9": "dashdot"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person wants to see of the groups."""

    metric: str = "iops"
    operation: str = ""
    latencies: tuple[str, ...] = ()  # empty: all for one line, mean and p99 for several

    def name(self, base: str) -> str:
        """The metric of that base; a metric that is no rate of both directions has no other."""
        its_own = base == self.metric and base not in METRICS
        return f"{self.operation}.{base}" if self.operation and not its_own else base

    def quantity(self, groups: Iterable[Group]) -> tuple[str, str]:
        """Word and unit of the metric, for the axis."""
        if self.metric in METRICS:
            return METRICS[self.metric]
        known = [group.units[self.metric] for group in groups if self.metric in group.units]
        return naming.word(self.metric), naming.shown_unit(self.metric, known[0] if known else "1")

    def shown(self, lines: int) -> tuple[str, ...]:
        return self.latencies or (tuple(LATENCIES) if lines == 1 else ("mean", "p99"))
