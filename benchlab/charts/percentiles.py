# SPDX-License-Identifier: Apache-2.0
"""Percentiles of latency over a run, where its tool told them: a panel for each direction, logarithmic. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchlab.charts import figure
from benchlab.charts.latency_curves import DIRECTION_WORDS, KIND_WORDS
from benchlab.charts.panels import Panel, axis_name
from benchlab.charts.stack import StackedDevice
from benchlab.runs.strips import MetricRows

PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9", "p99.99")
PERCENTILE_BASES = {
    f"{direction}.{kind}" if direction else kind: f"{DIRECTION_WORDS[direction]}, {words}"
    for direction in DIRECTION_WORDS
    for kind, words in KIND_WORDS.items()
}
# metric -> (the panel that it is drawn in, which percentile it is)
PERCENTILE_METRICS = {
    f"{base}.{rank}": (base, rank) for base in PERCENTILE_BASES for rank in PERCENTILES
}
PERCENTILE_TITLES = {
    metric: f"{PERCENTILE_BASES[base]}, {rank}"
    for metric, (base, rank) in PERCENTILE_METRICS.items()
}


def percentile_lines(sampled: Sequence[MetricRows]) -> tuple[list[MetricRows], list[StackedDevice]]:
    """(percentiles as if each were a device of its panel, what those are called). Where several tools told any, each
    line names its own."""
    percentile_rows = [rows for rows in sampled if rows.metric in PERCENTILE_METRICS]
    several = len({name for rows in percentile_rows for name in rows.devices}) > 1
    as_devices = []
    for rows in percentile_rows:
        base, rank = PERCENTILE_METRICS[rows.metric]
        names = tuple(f"{rank}, {name}" if several else rank for name in rows.devices)
        as_devices.append(replace(rows, metric=base, devices=names))
    every = dict.fromkeys(name for rows in as_devices for name in rows.devices)
    ranked = sorted(every, key=lambda name: PERCENTILES.index(name.partition(",")[0]))
    return as_devices, [StackedDevice(name, 0, name) for name in ranked]


def percentile_panels(lines: Sequence[MetricRows]) -> list[Panel]:
    """`lines`: of `as_lines`."""
    has = {rows.metric for rows in lines}
    return [Panel(base, words, "s") for base, words in PERCENTILE_BASES.items() if base in has]


def use_log_axes(
    layout: dict[str, Any], every: Sequence[Panel], lines: Sequence[MetricRows]
) -> None:
    """The axes of those panels made logarithmic: what a p99.9 does, a median does not show."""
    numbers: Mapping[str, list[float]] = {panel.metric: [] for panel in every}
    for rows in lines:
        low = rows.buckets.low
        numbers[rows.metric].extend([*rows.most, *low[np.nan_to_num(low) > 0].tolist()])
    for number, panel in enumerate(every, start=1):
        if panel.metric not in PERCENTILE_BASES:
            continue
        axis = layout["yaxis" + axis_name("", number)]
        log_axis = figure.log_axis("", "s", numbers[panel.metric], dense=2)
        del log_axis["title"]
        layout["yaxis" + axis_name("", number)] = {
            k: axis[k] for k in ("domain", "anchor")
        } | log_axis
