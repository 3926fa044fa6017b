# SPDX-License-Identifier: Apache-2.0
"""Metric of the heat map, the other ones on offer, and each run's figure of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts import metric_naming
from benchlab.charts.line_analysis import group_by_work, ratios_by_run
from benchlab.charts.queries import DEGRADED, Group
from benchlab.verdicts.answers import LOWER_IS_BETTER

# the address's word for it
HEAT = "heat"
# What may be chosen, of what there is: rates, latencies and p99, and what a tool is asked for first.
NAMES = (
    *metric_naming.METRICS,
    *(f"{kind}.{statistic}" for statistic in ("mean", "p99") for kind in ("lat", "clat")),
    *(name for name in metric_naming.FIRST_METRICS.values() if "*" not in name),
)
WORDS = {"mean": "Latency", "p99": "p99"}
# of metrics that are none of these
MAX_OTHER_METRICS = 6


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """One metric of every run that has it; `name` is empty while nothing is measured."""

    name: str
    unit: str
    values: Mapping[int, float]
    # Largest over smallest repeat, of runs whose point's repeats differ
    differ: Mapping[int, float]
    # runs that succeeded
    measured: frozenset[int]
    # of those, on a layout that was not in order
    degraded: frozenset[int]

    @property
    def lower_is_better(self) -> bool | None:
        """None where nobody can say."""
        return LOWER_IS_BETTER.get(self.unit)


def requested_metric(query: QueryDict) -> str:
    """The metric that the address names; "" for none. Raises BadRequest for what is not the name of a metric."""
    metric = query.get(HEAT, "")
    if metric and not metric_naming.is_metric_name(metric):
        raise BadRequest(f"{HEAT}: {metric[:100]!r} is not the name of a metric")
    return metric


def metric_names(query: QueryDict) -> frozenset[str]:
    """All that has to be known of a campaign's lines where they are read for the heat map alone."""
    return frozenset(filter(None, (*NAMES, requested_metric(query))))


def metric_choices(groups: Sequence[Group]) -> dict[str, str]:
    """Metric -> word, what a chart shows first first. Where none of NAMES was measured, some of what was."""
    units = {name: unit for line in groups for name, unit in line.units.items()}
    usual = [name for name in NAMES if name in units and not _has_total(name, units)]
    usual = (
        usual
        or [name for name, unit in units.items() if unit in LOWER_IS_BETTER][:MAX_OTHER_METRICS]
    )
    if not usual:
        return {}
    in_order = metric_naming.order_choices(
        usual, groups[0].tool, any(line.swept for line in groups)
    )
    return {name: _metric_label(name) for name in in_order if name in usual}


def _has_total(name: str, units: Collection[str]) -> bool:
    """Completion latency is for those that tell no total."""
    kind, _, statistic = name.partition(".")
    return kind == "clat" and f"lat.{statistic}" in units


def _metric_label(name: str) -> str:
    kind, _, statistic = name.partition(".")
    few = kind in metric_naming.LATENCY_KINDS and statistic in WORDS
    return WORDS[statistic] if few else metric_naming.metric_title(name)


def metric_figures(groups: Sequence[Group], name: str) -> MetricFigures:
    """Those of the charts: of each run its last attempt that succeeded."""
    samples = [(line, sample) for line in groups for sample in line.samples]
    values = {sample.run: sample.values[name] for _, sample in samples if name in sample.values}
    differ: dict[int, float] = {}
    for lines in group_by_work(groups):
        differ |= ratios_by_run(lines, name)
    return MetricFigures(
        name,
        next((line.units[name] for line in groups if name in line.units), ""),
        {run: value for run, value in values.items() if math.isfinite(value)},
        differ,
        frozenset(sample.run for _, sample in samples),
        frozenset(sample.run for line, sample in samples if line.condition == DEGRADED),
    )
