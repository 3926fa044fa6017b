# SPDX-License-Identifier: Apache-2.0
"""The numbers of each chart as rows: for the table under it, for CSV, and for people who cannot see the chart. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchlab.analysis.curves import Little, Spread, little, spread
from benchlab.analysis.formats import shown_unit
from benchlab.analysis.series import Numbers
from benchlab.charts import metric_naming
from benchlab.charts.line_analysis import (
    Choice,
    curve_answer,
    judged_rate,
    ratios_by_depth,
    ratios_by_line,
)
from benchlab.charts.queries import BASE_METRICS, Group, Sample, are_unlike, line_labels
from benchlab.charts.sampled_tracks import Track
from benchlab.web.texts import csv_lines


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One line of the curve table: medians over the repeats at one depth."""

    label: str
    outstanding: int | None
    repeats: int
    iops: Spread | None
    bandwidth: Spread | None
    # of the columns that were asked for
    latencies: tuple[Spread | None, ...]
    little: Little | None
    knee: bool
    # whether those repeats were measured under unlike conditions
    unlike_conditions: bool
    # Largest over smallest repeat of the rate, where they differ more than noise explains
    repeat_ratio: float | None
    runs: tuple[int, ...]


def latency_columns(groups: Sequence[Group], operation: str = "") -> tuple[str, ...]:
    """Return every measured latency, total first: "lat.mean", "clat.p99"."""
    choice = Choice(operation=operation)
    values = [sample.values for group in groups for sample in group.samples]
    metrics = {
        name.removeprefix("read.").removeprefix("write.")
        for group in groups
        for name in group.units
    }
    every = [
        f"{kind}.{statistic}"
        for kind in metric_naming.LATENCY_KINDS
        for statistic in metric_naming.STATISTICS
    ]
    names = [name for name in every if name in metrics]
    return tuple(
        n
        for n in names
        if any(choice.read_value(n, run_values) is not None for run_values in values)
    )


def curve_points(groups: Sequence[Group], operation: str = "") -> list[CurvePoint]:
    """Rows in the order of the chart's legend, depths rising; a latency for each of `latency_columns`."""
    columns = latency_columns(groups, operation)
    return [
        point
        for group, label in zip(groups, line_labels(groups), strict=True)
        for point in _group_points(group, label, operation, columns)
    ]


def _group_points(
    group: Group, label: str, operation: str, columns: Sequence[str]
) -> list[CurvePoint]:
    choice = Choice(operation=operation)
    knee = curve_answer(group, operation).knee
    differ = ratios_by_depth(group, choice.metric_name(judged_rate(group)))
    depths = sorted({sample.outstanding or 0 for sample in group.samples})
    return [
        _curve_point(
            label,
            depth or None,
            [sample for sample in group.samples if (sample.outstanding or 0) == depth],
            choice,
            columns,
            knee is not None and knee.drawn and knee.at == depth,
            differ.get(depth),
        )
        for depth in depths
    ]


def _curve_point(
    label: str,
    depth: int | None,
    samples: list[Sample],
    choice: Choice,
    columns: Sequence[str],
    knee: bool,
    differ: float | None,
) -> CurvePoint:
    def base_spread(base: str) -> Spread | None:
        values = [
            v for sample in samples if (v := choice.read_value(base, sample.values)) is not None
        ]
        return spread(values) if values else None

    both = [
        (sample.values["iops"], sample.values["lat.mean"])
        for sample in samples
        if {"iops", "lat.mean"} <= sample.values.keys()
    ]
    return CurvePoint(
        label=label,
        outstanding=depth,
        repeats=len(samples),
        iops=base_spread("iops"),
        bandwidth=base_spread("bandwidth"),
        latencies=tuple(map(base_spread, columns)),
        little=little(depth, both) if depth and both and not choice.operation else None,
        knee=knee,
        unlike_conditions=are_unlike(samples),
        repeat_ratio=differ,
        runs=tuple(sample.run for sample in samples),
    )


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric over all lines; a cell is None where it was not measured, or n/a."""

    name: str
    title: str
    unit: str
    cells: tuple[Spread | None, ...]
    # of each cell as of a Point
    repeat_ratios: tuple[float | None, ...]

    @property
    def cells_with_ratios(self) -> list[tuple[Spread | None, float | None]]:
        return list(zip(self.cells, self.repeat_ratios, strict=True))


def metric_rows(groups: Sequence[Group], first: str = "") -> list[MetricRow]:
    """Every metric of lines without a sweep, in the tool's order; those of the choice `first` come first."""
    units = {name: unit for group in groups for name, unit in group.units.items()}
    chosen = metric_naming.family_members(first, units)
    return [
        MetricRow(
            name,
            metric_naming.metric_word(name),
            shown_unit(name, units[name]),
            tuple(_sample_spread(group.samples, name) for group in groups),
            tuple(ratios_by_line(groups, name)),
        )
        for name in dict.fromkeys([*chosen, *units])
    ]


def _sample_spread(samples: Sequence[Sample], name: str) -> Spread | None:
    values = [sample.values[name] for sample in samples if name in sample.values]
    return spread(values) if values else None


RUN_HEAD = (
    "campaign",
    "host",
    "topology",
    "moment",
    "workload",
    "point",
    "tool",
    "outstanding",
    "repeat",
    "visit",
    "run",
    "not in order",
    "fingerprint",
)
# of the first columns; all else of them is seconds
RATE_UNITS = {"iops": "op/s", "bandwidth": "B/s"}


def campaign_csv_lines(groups: Sequence[Group]) -> Iterator[str]:
    """Line by line: one row per run that succeeded, base units in the header."""
    names = [operation + base for operation in ("", "read.", "write.") for base in BASE_METRICS]
    columns = [n for n in names if any(n in s.values for group in groups for s in group.samples)]
    units = {name: RATE_UNITS.get(name.rpartition(".")[2], "s") for name in columns}
    units |= {name: unit for group in groups for name, unit in group.units.items()}
    columns = list(units)
    head = [*RUN_HEAD, *(f"{name} ({unit})" for name, unit in units.items())]
    return csv_lines(head, (_run_row(g, s, columns) for g in groups for s in g.samples))


def _run_row(group: Group, sample: Sample, names: Sequence[str]) -> list[object]:
    place = [group.campaign_name, group.host_name, group.topology_name]
    where = [*place, group.stage_name, group.workload_name]
    which = [group.rest, group.tool, sample.outstanding, sample.repeat, sample.visit, sample.run]
    which += [sample.degradation, sample.fingerprint]
    return [*where, *which, *(sample.values.get(name) for name in names)]


def _as_floats(numbers: Numbers) -> list[float]:
    floats: list[float] = np.asarray(numbers, dtype=float).tolist()
    return floats


def series_csv_lines(tracks: Iterable[Track]) -> Iterator[str]:
    """Line by line, in long form: one row per device, metric and sample; unknown values are empty."""
    rows = (
        (track.device, track.metric, track.unit, at, None if value != value else value)
        for track in tracks
        for at, value in zip(*map(_as_floats, (track.times, track.values)), strict=True)
    )
    return csv_lines(("device", "metric", "unit", "seconds", "value"), rows)
