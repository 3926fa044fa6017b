# SPDX-License-Identifier: Apache-2.0
"""Turn groups of runs into lines: the runs that share a point, its median, its ratio to another line's. Pure.

A point is the median over the runs that share it (repeats and visits), and never a median of medians. What a line is
does not depend on how it looks: two workloads, hosts or sizes of block are never one line, unless that is an axis.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from benchlab.analysis.curves import Spread, median_of, spread
from benchlab.analysis.formats import shown_unit
from benchlab.charts import metric_naming
from benchlab.charts.explore import factors
from benchlab.charts.explore.factors import PERCENTILE as RANK
from benchlab.charts.explore.factors import Axes, Level
from benchlab.charts.line_analysis import Choice
from benchlab.charts.queries import OPERATION_PREFIXES, OUTSTANDING, Group, Sample
from benchlab.results.columns import PARAM

Key = tuple[Level, ...]
# of x, y and colour
Values = list[float | None]
# all percentiles of a latency: "clat.ranks" over the factor RANK
PERCENTILES_SUFFIX = ".ranks"
PERCENTILE = re.compile(r"\.(p\d{1,2}(?:\.\d{1,9})?)$")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric as it is drawn: shares in percent."""

    name: str
    word: str
    unit: str
    scale: float = 1.0

    def read_value(self, sample: Sample) -> float | None:
        """Return a run's figure; None if not measured. In a read-only run the figures of reads are those of all I/O."""
        value = sample.values.get(self.name)
        if _is_latency(self.name):
            value = Choice().read_value(self.name, sample.values)
        return None if value is None or math.isnan(value) else value * self.scale


def _is_latency(name: str) -> bool:
    return name.partition(".")[0] in metric_naming.LATENCY_KINDS


def latency_percentiles(name: str, measured: Iterable[str]) -> dict[str, str]:
    """Return {percentile: metric} of "clat.ranks", rising, of reads in a read-only run; {} for another metric."""
    base = name.removesuffix(PERCENTILES_SUFFIX)
    if base == name:
        return {}
    starts = tuple(f"{op}{base}.p" for op in OPERATION_PREFIXES)
    matches = (PERCENTILE.search(metric) for metric in measured if metric.startswith(starts))
    percentiles = {match[1] for match in matches if match}
    return {p: f"{base}.{p}" for p in sorted(percentiles, key=lambda p: float(p[1:]))}


def offered_percentiles(measured: Iterable[str]) -> list[str]:
    """Return the latencies with percentiles in any run: "clat.ranks", "read.clat.ranks"."""
    bases = dict.fromkeys(
        PERCENTILE.sub("", metric) for metric in measured if PERCENTILE.search(metric)
    )
    return [f"{base}{PERCENTILES_SUFFIX}" for base in bases]


def needed_metrics(axes: Axes, measured: Collection[str] = ()) -> set[str]:
    """Return the metrics to read for these axes."""
    axis_names = (axes.x, axes.y, axes.colour, axes.beside)
    names: set[str] = set()
    for name in axis_names:
        if name and not factors.is_factor(name):
            names.update(latency_percentiles(name, measured).values() or {name})
    latencies = [op + name for op in OPERATION_PREFIXES for name in names if _is_latency(name)]
    rates = [f"{op}iops" for op in OPERATION_PREFIXES if op and latencies]
    return names.union(latencies, rates)


def quantity(name: str, units: Mapping[str, str]) -> Quantity:
    """`units`: of what was measured."""
    if name.endswith(PERCENTILES_SUFFIX):
        return Quantity(name, _percentiles_word(name.removesuffix(PERCENTILES_SUFFIX)), "s")
    own = next((units[op + name] for op in OPERATION_PREFIXES if op + name in units), "1")
    if metric_naming.is_share(name, own):
        return Quantity(name, metric_naming.metric_title(name), "%", 100.0)
    unit = (
        metric_naming.METRICS[name][1] if name in metric_naming.METRICS else shown_unit(name, own)
    )
    return Quantity(name, metric_naming.metric_title(name), unit)


def _percentiles_word(base: str) -> str:
    operation, _, kind = base.rpartition(".")
    return metric_naming.LATENCY_KINDS.get(kind, base) + (f" of {operation}s" if operation else "")


@dataclass(frozen=True, slots=True)
class Point:
    """`at`: what its runs share, of the axes that are factors; in base units but for shares.

    `values`: y of each run, as `runs`; `x`, `y`, `colour` None where the axis is a factor.
    """

    at: Key
    runs: tuple[int, ...]
    values: tuple[float, ...] = ()
    x: float | None = None
    y: float | None = None
    colour: float | None = None
    xs: tuple[float, ...] = ()

    @property
    def spread(self) -> Spread:
        return spread(self.values)

    @property
    def nearest(self) -> int:
        """Return the run nearest to the median."""
        if self.y is None:
            return self.runs[0]
        y = self.y
        return min(zip(self.values, self.runs, strict=True), key=lambda pair: abs(pair[0] - y))[1]


@dataclass(frozen=True, slots=True)
class Line:
    id: str
    # of what makes it a line
    levels: Mapping[str, Level]
    points: tuple[Point, ...]
    label: str = ""

    @property
    def run_count(self) -> int:
        return len({run for point in self.points for run in point.runs})


def point_factors(axes: Axes) -> tuple[str, ...]:
    """The factors whose values a point is at; of two metrics the depth, as of latency against IOPS."""
    return tuple(dict.fromkeys(filter(factors.is_factor, (axes.x, axes.y)))) or (OUTSTANDING,)


def build_lines(groups: Sequence[Group], axes: Axes, units: Mapping[str, str]) -> list[Line]:
    """Lines in the order of what makes them. Lines without any point are left out."""
    at = point_factors(axes)
    looks = filter(factors.is_factor, (axes.colour, axes.dash, axes.marker, axes.facet))
    kinds = dict.fromkeys([*factors.IDENTITY, *factors.swept_options(groups), OUTSTANDING, *looks])
    names = [name for name in kinds if name not in at]
    metrics = [
        None if not name or factors.is_factor(name) else quantity(name, units)
        for name in (axes.x, axes.y, axes.colour)
    ]
    cells: dict[Key, dict[Key, list[tuple[int, Values]]]] = {}
    ids: dict[Key, str] = {}
    for group in groups:
        options = factors.line_options(group)
        own = {*factors.FIXED_NAMES, *(PARAM + option for option in group.varied_options)}
        for sample in group.samples:
            key, place = (
                tuple(factors.factor_level(name, group, sample, options) for name in some)
                for some in (names, at)
            )
            for rank, values in _run_values(metrics, sample, units, ranked=RANK in at):
                where = tuple(
                    rank if rank and name == RANK else level
                    for name, level in zip(at, place, strict=True)
                )
                cells.setdefault(key, {}).setdefault(where, []).append((sample.run, values))
            if key in cells and key not in ids:
                ids[key] = _line_id(names, key, names if "workload" in at else own)
    built = [
        Line(
            ids[key],
            dict(zip(names, key, strict=True)),
            tuple(_median_point(place, points[place]) for place in sorted(points, key=sort_keys)),
        )
        for key, points in sorted(cells.items(), key=lambda item: sort_keys(item[0]))
    ]
    return _with_labels(built, names)


def sort_keys(levels: Iterable[Level]) -> list[tuple[bool, tuple[Any, ...]]]:
    return [level.sort_key for level in levels]


def unite_lines(firsts: Sequence[Line], others: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Give two metrics with the same axes the same lines, in the same order and under the same names.

    A line for which a metric was not measured has no points there.
    """
    first, second = ({line.id: line for line in part} for part in (firsts, others))
    every = sorted({**second, **first}.values(), key=lambda line: sort_keys(line.levels.values()))
    labelled = _with_labels(every, list(every[0].levels)) if every else []
    united = [
        [replace(line, points=part[line.id].points if line.id in part else ()) for line in labelled]
        for part in (first, second)
    ]
    return united[0], united[1]


def _run_values(
    metrics: Sequence[Quantity | None], sample: Sample, units: Mapping[str, str], *, ranked: bool
) -> Iterator[tuple[Level | None, Values]]:
    """Yield a run's values for the axes if it measured all of them; over percentiles, once for each it reports."""
    every = [latency_percentiles(metric.name, units) if metric else {} for metric in metrics]
    for percentile in next(filter(None, every), {}) if ranked else [""]:
        values: Values = []
        for metric, names in zip(metrics, every, strict=True):
            if metric and ranked:
                metric = replace(metric, name=names.get(percentile, metric.name))
            values.append(metric.read_value(sample) if metric else None)
        if all(value is not None for metric, value in zip(metrics, values, strict=True) if metric):
            yield factors.percentile_level(percentile) if ranked else None, values


def _line_id(names: Sequence[str], key: Key, own: Collection[str]) -> str:
    """Return an id that is the same whatever other lines are shown: options that only those sweep do not count."""
    parts = [f"{name}={level.key}" for name, level in zip(names, key, strict=True) if name in own]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def _median_point(at: Key, samples: Sequence[tuple[int, Values]]) -> Point:
    x, y, colour = (
        tuple(value for _, values in samples if (value := values[place]) is not None)
        for place in range(3)
    )
    return Point(
        at,
        tuple(run for run, _ in samples),
        values=y,
        x=median_of(x) if x else None,
        y=median_of(y) if y else None,
        colour=median_of(colour) if colour else None,
        xs=x,
    )


def _with_labels(unlabelled: list[Line], names: Sequence[str]) -> list[Line]:
    """Label the lines by their differences, like the lines of other charts."""
    differing = [name for name in names if len({line.levels[name].key for line in unlabelled}) > 1]
    label_names = differing or [name for name in names if name == "topology"] or names[:1]
    labels = (
        " · ".join(_level_text(name, line.levels[name]) for name in label_names)
        for line in unlabelled
    )
    return [
        replace(line, label=label or "all runs")
        for line, label in zip(unlabelled, labels, strict=True)
    ]


def _level_text(name: str, level: Level) -> str:
    """Names speak for themselves; a number needs its factor."""
    plain = name in (*factors.IDENTITY, "tool", "date")
    return level.text if plain else f"{factors.lower_first(factors.factor_word(name))} {level.text}"


def ratio_lines(lines: Sequence[Line], baseline: Line) -> list[Line]:
    """Each run's y over the baseline's median at the same point; points that the baseline has not are left out."""
    base = medians_by_level(baseline)
    ratios = []
    for line in lines:
        points = []
        for point in line.points:
            if below := base.get(point.at):
                values = tuple(value / below for value in point.values)
                points.append(replace(point, values=values, y=median_of(values)))
        if points:
            ratios.append(replace(line, points=tuple(points)))
    return ratios


def medians_by_level(line: Line) -> dict[Key, float]:
    """{where: its median there}."""
    return {point.at: point.y for point in line.points if point.y is not None}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Over the runs of a line: the smallest, their median, the largest. `last`: the median at its last point."""

    min: float
    median: float
    max: float
    last: float


def line_statistics(line: Line, axis: str) -> Statistics | None:
    """Return the statistics of a line; None if the axis is no metric."""
    by_point = [point.xs if axis == "x" else point.values for point in line.points]
    values = list(chain.from_iterable(by_point))
    if not values:
        return None
    return Statistics(min(values), median_of(values), max(values), median_of(by_point[-1]))


def ratio_to_baseline(line: Line, base: Mapping[Key, float]) -> tuple[float, Key] | None:
    """Return (ratio of the medians, the point) at the last point that both have."""
    for point in reversed(line.points):
        if base.get(point.at) and point.y is not None:
            return point.y / base[point.at], point.at
    return None
