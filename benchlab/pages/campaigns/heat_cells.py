# SPDX-License-Identifier: Apache-2.0
"""The heat map's metric, each run's figure of it, and its cells: text, step of the colour and link."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.core.exceptions import BadRequest
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchlab.analysis.curves import Spread
from benchlab.analysis.formats import shown_unit
from benchlab.charts import metric_naming
from benchlab.charts.line_analysis import group_by_work, ratios_by_run
from benchlab.charts.queries import DEGRADED, Group
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.verdicts.answers import LOWER_IS_BETTER
from benchlab.web.units import factor, short_si, si

# --h0 to --h8 of static/benchlab.css
STEPS = 9
# it succeeded, and its tool told no such figure
NOT_REPORTED = "untold"
# What a cell without a figure says of its runs: the first of these that there is.
STATE_ORDER: tuple[str, ...] = (
    AttemptPhase.RUNNING,
    AttemptPhase.STARTING,
    AttemptPhase.COLLECTING,
    AttemptPhase.QUEUED,
    *(outcome for outcome in Outcome if outcome != Outcome.SUCCEEDED),
    NOT_REPORTED,
)
CSS: Mapping[str, str] = {
    AttemptPhase.RUNNING: "wait now",
    AttemptPhase.STARTING: "wait now",
    AttemptPhase.COLLECTING: "wait now",
    Outcome.FAILED: "fail",
    Outcome.ERRORED: "fail",
    Outcome.INTERRUPTED: "fail",
    NOT_REPORTED: "none",
}
WORDS = {NOT_REPORTED: "not told"}
CELL = '<a class="{}" href="{}" title="{}">{}{}</a>'
PART = "<small>{}/{}</small>"
NO_RUN = SafeString('<span class="none">–<span class="visually-hidden"> no run</span></span>')


@dataclass(frozen=True, slots=True)
class Spot:
    """The repeats of one point in one row. `spread` is None where none of them has the figure."""

    spread: Spread | None
    # largest over smallest repeat, where they differ more than noise explains
    differ: float | None
    # of the runs without the figure
    states: Counter[str]
    url: str
    # in words
    point: str = ""

    @property
    def run_count(self) -> int:
        return (self.spread.n if self.spread else 0) + self.states.total()


@dataclass(frozen=True, slots=True)
class Scale:
    """The colours of one metric, from the smallest to the largest median that is shown."""

    name: str
    unit: str
    low: float
    high: float

    @classmethod
    def from_spots(cls, name: str, unit: str, spots: Iterable[Spot]) -> Scale:
        medians = [spot.spread.median for spot in spots if spot.spread]
        return cls(name, unit, min(medians, default=0.0), max(medians, default=0.0))

    def colour_step(self, value: float) -> int:
        """Return 0 for the smallest value to 8 for the largest, by ratio; the middle if all are alike."""
        if self.low == self.high:
            return STEPS // 2
        if self.low > 0:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(share * (STEPS - 1))

    def with_unit(self, value: float) -> str:
        """Format a value with its unit."""
        return si(value, shown_unit(self.name, self.unit))

    def without_unit(self, value: float) -> str:
        """Format a value for a cell, without the name of what is counted: the head names it."""
        return short_si(value, shown_unit(self.name, self.unit))


def cell_html(spot: Spot | None, scale: Scale, folded: int = 0) -> SafeString:
    """Not by the template: there are hundreds, and it would be most of what a live page costs.

    `folded`: of how many points it is the best.
    """
    if spot is None:
        return NO_RUN
    title = spot_text(spot, scale)
    if folded:
        title = f"Best of {folded} points: {spot.point}; {title}"
    if spot.spread is None:
        state = _first_state(spot.states)
        css = CSS.get(state, "wait")
        return format_html(CELL, css, spot.url, title, WORDS.get(state, state), "")
    css = f"c{scale.colour_step(spot.spread.median)}{' shaky' if spot.differ else ''}"
    whole = spot.spread.n == spot.run_count
    part = "" if whole else format_html(PART, spot.spread.n, spot.run_count)
    return format_html(CELL, css, spot.url, title, scale.without_unit(spot.spread.median), part)


def spot_text(spot: Spot, scale: Scale) -> str:
    """Describe a spot in full: "5.1 k IOPS, median of 3 repeats, 5 k to 5.2 k IOPS; repeats differ 1.8 ×; 1 failed"."""
    parts = [_spread_text(spot.spread, scale)] if spot.spread else []
    if spot.differ:
        parts.append(f"repeats differ {factor(spot.differ)}")
    parts += [
        f"{spot.states[state]} {WORDS.get(state, state)}"
        for state in STATE_ORDER
        if spot.states[state]
    ]
    return "; ".join(parts)


def _spread_text(spread: Spread, scale: Scale) -> str:
    if spread.n == 1:
        return f"{scale.with_unit(spread.median)}, one repeat"
    text = f"{scale.with_unit(spread.median)}, median of {spread.n} repeats"
    if spread.low is None or spread.high is None:
        return text
    return f"{text}, {scale.without_unit(spread.low)} to {scale.with_unit(spread.high)}"


def _first_state(states: Counter[str]) -> str:
    return next(str(state) for state in STATE_ORDER if states[state])


def best_spot(spots: Sequence[Spot], lower_is_better: bool) -> Spot | None:
    """Return the spot with the best median. Without any median, return one with the states of all runs."""
    measured = [(spot.spread.median, spot) for spot in spots if spot.spread]
    if measured:
        sign = 1 if lower_is_better else -1
        return min(measured, key=lambda pair: sign * pair[0])[1]
    if not spots:
        return None
    every = sum((spot.states for spot in spots), Counter[str]())
    return Spot(None, None, every, spots[0].url, spots[0].point)


# the address's word for it
HEAT = "heat"
# What may be chosen, of what there is: rates, latencies and p99, and what a tool is asked for first.
NAMES = (
    *metric_naming.METRICS,
    *(f"{kind}.{statistic}" for statistic in ("mean", "p99") for kind in ("lat", "clat")),
    *(name for some in metric_naming.FIRST_METRICS.values() for name in some if "*" not in name),
)
STATISTIC_WORDS = {"mean": "Latency", "p99": "p99"}
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
    few = kind in metric_naming.LATENCY_KINDS and statistic in STATISTIC_WORDS
    return STATISTIC_WORDS[statistic] if few else metric_naming.metric_title(name)


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
