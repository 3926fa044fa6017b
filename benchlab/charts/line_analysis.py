# SPDX-License-Identifier: Apache-2.0
"""Analysis of a chart's lines: options to draw them by, knees and caps, repeats that differ, equal workloads.

Charts, tables and cards ask here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agents.drivers import registry
from benchlab.analysis.formats import shown_unit
from benchlab.analysis.knees import ENOUGH_DEPTHS, Cap, Collapse, Knee, cap, collapse, knee
from benchlab.analysis.repeats import disagreement_ratios
from benchlab.charts import metric_naming
from benchlab.charts.metric_naming import METRICS
from benchlab.charts.queries import Group
from benchlab.web.units import si

OPERATIONS = {"": "", "read": "reads", "write": "writes"}
# What a chart is drawn over. Of "cdf" the depth may stand behind it: "cdf.16".
DRAWINGS = {
    "": "over outstanding I/Os",
    "latency": "latency against IOPS",
    "cdf": "CDF of latencies",
}
STATISTIC_DASHES = dict(
    zip(metric_naming.STATISTICS, ("solid", "dash", "dot", "dashdot"), strict=True)
)
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
        return metric_naming.metric_word(self.metric), shown_unit(
            self.metric, units[0] if units else "1"
        )

    def latency_kind(self, groups: Iterable[Group]) -> str:
        """The kind of latency of a chart: one for all of its lines, or they would not compare. "" for none."""
        every = [sample.values for group in groups for sample in group.samples]
        kinds = (self.kind,) if self.kind else metric_naming.LATENCY_KINDS
        return next(
            (
                kind
                for kind in kinds
                if any(self.measured_statistics(kind, values) for values in every)
            ),
            "",
        )

    def measured_statistics(self, kind: str, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the measured statistics of that latency."""
        return tuple(
            name
            for name in STATISTIC_DASHES
            if self.read_value(f"{kind}.{name}", values) is not None
        )

    def read_value(self, base: str, values: Mapping[str, float]) -> float | None:
        """Return a run's figure. A read-only run's figures of reads are those of all its I/O; likewise for writes."""
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


# (outstanding I/Os, the figure of each repeat)
Cells = tuple[tuple[int, tuple[float, ...]], ...]
REPEAT_COUNTS = {1: "one repeat", 2: "two repeats"}


@dataclass(frozen=True, slots=True)
class CurveAnswer:
    """The knee, collapse and cap of a finished sweep; `knee` is None if too little was measured."""

    knee: Knee | None = None
    collapse: Collapse | None = None
    cap: Cap | None = None


def curve_answer(group: Group, operation: str = "") -> CurveAnswer:
    """Analyse a line once its campaign is over; before that, the answer would jump with each run."""
    if not (group.over and group.swept):
        return CurveAnswer()
    iops = _repeats_by_depth(group, Choice(operation=operation).metric_name("iops"))
    return _analyse_cells(iops, () if operation else _repeats_by_depth(group, "lat.mean"))


@lru_cache(maxsize=4096)
def _analyse_cells(iops: Cells, latencies: Cells) -> CurveAnswer:
    """Compute an answer once: a page needs each line's three times, and all its readers need the same ones."""
    depths = dict(iops)
    waits = dict(latencies)
    return CurveAnswer(knee(depths, waits), collapse(depths), cap(depths, waits))


def _repeats_by_depth(group: Group, name: str) -> Cells:
    by_depth = group.values_by_depth(name).items()
    return tuple((depth, tuple(values)) for depth, values in by_depth if depth)


def curve_answer_text(group: Group) -> str:
    """Describe a line's answer, or why there is none. The text has no colon, for a label with a colon precedes it."""
    if not group.over:
        return "not before the campaign is over"
    answer = curve_answer(group)
    fall = [_collapse_text(answer.collapse)] if answer.collapse else []
    return "; ".join([*_knee_texts(answer.knee, answer.cap), *fall])


def _knee_texts(found_knee: Knee | None, limit: Cap | None) -> Iterator[str]:
    """Describe the knee and the cap, with a reservation if they rest on fewer than three repeats."""
    capped = [_cap_text(limit)] if limit else []
    if found_knee is None:
        yield f"unknown, as it takes at least {ENOUGH_DEPTHS} depths with IOPS"
        yield from capped
        return
    if limit and found_knee.uncertain:
        yield (
            f"capped at {si(limit.iops, 'op/s')} from {limit.low} on; "
            f"add depths below {limit.low} to see where it bends"
        )
    elif limit and found_knee.at == limit.low:
        level = f"{si(limit.iops, 'op/s')}, within {_within_text(limit)}"
        yield f"{_knee_position(found_knee)}, from there on {level}"
    else:
        yield _knee_position(found_knee)
        yield from capped
    if found_knee.irregular:
        yield f"irregular, off any smooth curve by {found_knee.misfit:.0%}".replace("%", " %")
    if not found_knee.drawn:
        yield f"from {REPEAT_COUNTS[found_knee.repeats]} per depth (three are needed to draw it)"


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
        deeper = " or deeper than was measured; measure deeper" if found_knee.beyond else ""
        return f"uncertain, {between}{deeper}"
    about = "" if found_knee.drawn else "about "
    return f"{about}{found_knee.at} outstanding{f' ({between}, 95 %)' if found_knee.low != found_knee.high else ''}"


def _collapse_text(drop: Collapse) -> str:
    return f"falls past {drop.peak}, by {drop.share:.0%} at {drop.last}".replace("%", " %")


def _cap_text(limit: Cap) -> str:
    level = si(limit.iops, "op/s")
    return f"capped at {level} from {limit.low} to {limit.high}, within {_within_text(limit)}"


def _within_text(limit: Cap) -> str:
    """The range of the capped IOPS, to a tenth of a percent."""
    return f"{max(0.1, round(limit.within * 100, 1)):g} %"


JUDGED_RATES = ("iops", "bandwidth")


def ratios_by_depth(group: Group, name: str) -> dict[int, float]:
    """{outstanding: largest over smallest repeat} of the points of a sweep whose repeats differ."""
    cells = group.values_by_depth(name)
    ratios = zip(cells, disagreement_ratios(list(cells.values())), strict=True)
    return {depth: ratio for depth, ratio in ratios if ratio}


def ratios_by_line(groups: Sequence[Group], name: str) -> list[float | None]:
    """Return the disagreement of each line without a sweep: one cell a line, against the noise of the others."""
    return disagreement_ratios([group.values(name) for group in groups])


def has_depth_rows(lines: Sequence[Group]) -> bool:
    """True for a table with a row for each depth of a line; else it has one for each metric, the lines side by side."""
    return any(line.swept or not METRICS.keys().isdisjoint(line.units) for line in lines)


def ratios_by_run(lines: Sequence[Group], name: str) -> dict[int, float]:
    """{run: largest over smallest repeat of its point} where those differ, of one chart's lines as its table has it."""
    if has_depth_rows(lines):
        cells = [(line.samples, ratios_by_depth(line, name)) for line in lines]
        return {
            sample.run: by_depth[sample.outstanding or 0]
            for samples, by_depth in cells
            for sample in samples
            if (sample.outstanding or 0) in by_depth
        }
    ratios = zip(lines, ratios_by_line(lines, name), strict=True)
    return {sample.run: ratio for line, ratio in ratios if ratio for sample in line.samples}


def judged_rate(group: Group) -> str:
    """Rate by which a line's points are judged: the first that it has."""
    measured = (name for name in JUDGED_RATES if group.values(name))
    return next(measured, JUDGED_RATES[0])


WorkKey = tuple[Any, ...]


def group_by_work(groups: Iterable[Group]) -> list[list[Group]]:
    """The lines of each chart. Lines of one workload stay together; of several campaigns, those that did the same."""
    by_workload: dict[int, list[Group]] = {}
    for group in groups:
        by_workload.setdefault(group.workload, []).append(group)
    if len({group.campaign for lines in by_workload.values() for group in lines}) < 2:
        return list(by_workload.values())
    by_deed: dict[WorkKey, list[Group]] = {}
    for lines in by_workload.values():
        by_deed.setdefault(_work_key(lines), []).extend(lines)
    return list(by_deed.values())


def _work_key(lines: Sequence[Group]) -> WorkKey:
    """Return the tool, its relevant options and the swept axes. A workload of unknown options is like no other."""
    first = lines[0]
    swept = any(group.swept for group in lines)
    options = registry.canonical_options(first.tool, first.options, ours=first.measured_here)
    work = registry.same_work(first.tool, options)
    fixed = [name for name in work.options if name not in first.varied_options] if work else []
    if work is None or any(options.get(name) is None for name in fixed):
        return "workload", first.workload
    matters = *((name, options[name]) for name in fixed), *work.more
    counts = not swept and registry.depth_options(first.tool)
    depth = first.samples[0].outstanding if counts else None
    return first.tool, matters, tuple(sorted(set(first.varied_options))), swept, depth
