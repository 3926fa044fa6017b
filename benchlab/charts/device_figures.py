# SPDX-License-Identifier: Apache-2.0
"""Figures of a run over time: devices, latency percentiles, CPU, and a heat map of disks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agents.contracts import Window
from benchlab.analysis.series import round_significant
from benchlab.charts import figure, palette
from benchlab.charts.device_work import DiskUse, StackedDevice, order_devices
from benchlab.charts.figure import Figure, axis_name
from benchlab.charts.latency_distributions import DIRECTION_WORDS, KIND_WORDS
from benchlab.charts.palette import HEAT_SCALE
from benchlab.charts.panels import (
    UNIFIED_HOVER,
    DiskBand,
    Panel,
    any_above_zero,
    device_lines,
    disk_bands,
    panel_axes,
    panels_height,
    window_bands,
)
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
    """Return (percentiles as if each were a device of its panel, their names). If several tools report any, each
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
    """Return the panels of the lines of `percentile_lines`."""
    has = {rows.metric for rows in lines}
    return [Panel(base, words, "s") for base, words in PERCENTILE_BASES.items() if base in has]


def use_log_axes(
    layout: dict[str, Any], every: Sequence[Panel], lines: Sequence[MetricRows]
) -> None:
    """Make the axes of these panels logarithmic, so that a p99.9 does not flatten the median."""
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


# times, and a share of each in percent
TimedShares = tuple[list[float | None], list[float | None]]

# metric of the samplers -> title, unit on the axis
DEVICE_PANELS: dict[str, tuple[str, str]] = {
    "read.iops": ("Reads", "r/s"),
    "write.iops": ("Writes", "w/s"),
    "read.bandwidth": ("Read throughput", "B/s"),
    "write.bandwidth": ("Write throughput", "B/s"),
    "await": ("Wait per request, await", "s"),
    "queue": ("Requests in flight, aqu-sz", "1"),
    "util": ("Time busy, util", "%"),
}
# bottom up
CPU_STATES = {
    "cpu.user": "user",
    "cpu.system": "system",
    "cpu.irq": "interrupts",
    "cpu.steal": "steal",
    "cpu.iowait": "I/O wait",
}
# beside them, where the host tells
CPU_LIMITS = {
    "cpu.speed": "clock, of its highest",
    "cpu.heat": "throttled for heat",
    "cpu.quota": "quota used up",
}

HOST_METRICS = (*CPU_STATES, *CPU_LIMITS)


def active_devices(sampled: Iterable[MetricRows]) -> set[str]:
    """Return the devices that did anything at all."""
    return {
        name
        for rows in sampled
        if rows.metric in DEVICE_PANELS
        for name, most in zip(rows.devices, rows.most, strict=True)
        if most > 0
    }


def build_device_figure(
    title: str,
    sampled: Sequence[MetricRows],
    facts: Mapping[str, Any],
    windows: Sequence[Window] = (),
    *,
    every: bool = False,
    uses: Iterable[DiskUse] = (),
) -> Figure:
    """A panel per metric that is not all zero; a line per device, volumes above the disks they stand on.

    Disks that do the same work are a band where they are many; those of no `uses` are lines. `every`: idle ones, too.
    Which panels and lines there are does not depend on which part is drawn: who zooms keeps what they look at.
    """
    device_rows = [rows for rows in sampled if rows.metric in DEVICE_PANELS]
    ranked, ranks = percentile_lines(sampled)
    busy = active_devices(device_rows)
    names = {name for rows in device_rows for name in rows.devices} if every else busy
    if not names and not ranked:
        return figure.empty_figure(title, "No device did any I/O while this was measured.")
    bundled = [band for band in disk_bands(uses, device_rows) if band.members & names]
    within = {name for band in bundled for name in band.members}
    placed = order_devices(names - within, facts)
    panels = [
        Panel(m, *DEVICE_PANELS[m], 100.0 if DEVICE_PANELS[m][1] == "%" else 1.0)
        for m in DEVICE_PANELS
        if any_above_zero(device_rows, m)
    ] + percentile_panels(ranked)
    idle = sorted({name for rows in device_rows for name in rows.devices} - names)
    data, thinned = device_lines(device_rows, placed, panels, bundled)
    own, some = device_lines(ranked, ranks, panels, first=len(placed) + len(bundled))
    data += own
    layout = figure.base_layout(
        f"{'Every device' if names else 'Latency'} over the run · {title}",
        _device_subtitle(
            [p.metric for p in panels], idle, bundled, _percentile_sources(sampled), thinned or some
        ),
        height=panels_height(panels, [*placed, *ranks]),
    )
    layout |= panel_axes(panels)
    use_log_axes(layout, panels, ranked)
    layout["shapes"] = window_bands(windows, len(panels), sampled)
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}}
    layout["margin"] = {"l": 72, "r": 16, "t": 88, "b": 64}
    layout |= UNIFIED_HOVER
    return {"data": data, "layout": layout}


def _percentile_sources(sampled: Iterable[MetricRows]) -> str:
    """Return the names of the tools that report latency percentiles; "" if none does."""
    names = (name for rows in sampled if rows.metric in PERCENTILE_METRICS for name in rows.devices)
    return " and ".join(dict.fromkeys(names))


def _device_subtitle(
    panels: Sequence[str],
    idle: Sequence[str],
    bundled: Sequence[DiskBand],
    told_by: str,
    thinned: bool,
) -> str:
    parts = []
    if not PERCENTILE_BASES.keys() >= {*panels}:
        parts.append("1 s samples, from the host's own counters.")
    if told_by:
        parts.append(f"Percentiles of latency: {told_by}.")
    if bundled:
        bands_text = " and ".join(band.label for band in bundled)
        parts.append(f"Band: smallest to largest of {bands_text}, line: their median.")
    quiet = [DEVICE_PANELS[m][0].lower() for m in ("read.iops", "write.iops") if m not in panels]
    if quiet and not PERCENTILE_BASES.keys() >= {*panels}:
        parts.append(f"No {' and no '.join(quiet)}: no panel.")
    if idle:
        some = ", ".join(idle[:6]) + (f" and {len(idle) - 6} more" if len(idle) > 6 else "")
        parts.append(f"Idle and not drawn: {some}.")
    if thinned:
        parts.append(
            "Drawn thinned to the smallest and largest value per pixel: zoom in for every sample."
        )
    return " ".join(parts)


def build_cpu_figure(
    title: str, sampled: Sequence[MetricRows], windows: Sequence[Window] = ()
) -> Figure:
    """Figure of the CPU's time, stacked; the rest up to 100 % is idle. What holds it back is drawn over that."""
    # the whole host
    means = {rows.metric: _cpu_means(rows) for rows in sampled if "" in rows.devices}
    states = [
        metric for metric in CPU_STATES if metric in means and any_above_zero(sampled, metric)
    ]
    if not states:
        return figure.empty_figure(title, "No CPU samples.")
    over = [metric for metric in CPU_LIMITS if metric in means and any_above_zero(sampled, metric)]
    data = [
        *(
            _stacked_area(means[metric], CPU_STATES[metric], index)
            for index, metric in enumerate(states)
        ),
        *(
            _unstacked_line(means[m], CPU_LIMITS[m], index)
            for index, m in enumerate(over, len(CPU_STATES))
        ),
    ]
    layout = figure.base_layout(
        f"CPU of the host over the run · {title}",
        "Share of all CPUs, stacked; the rest is idle."
        + (" Lines: what held it back." if over else ""),
        height=300,
        xaxis={"title": {"text": "Seconds since the first sample"}, "zeroline": False},
        yaxis={"title": {"text": "CPU time (%)"}, "range": [0, 100], "zeroline": False},
        hovermode="x unified",
        shapes=window_bands(windows, 1, sampled),
    )
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "traceorder": "reversed"}
    return {"data": data, "layout": layout}


def _cpu_means(rows: MetricRows) -> TimedShares:
    """Means, for areas that are stacked: all get the same times."""
    at = rows.devices.index("")
    times = round_significant(rows.buckets.middles, 6)
    return times, round_significant(100 * rows.buckets.means[at])


def _unstacked_line(means: TimedShares, name: str, index: int) -> dict[str, Any]:
    """Not stacked: a share of something else than time."""
    stack_keys = {"stackgroup", "fillcolor"}
    return {
        key: value
        for key, value in _stacked_area(means, name, index).items()
        if key not in stack_keys
    }


def _stacked_area(means: TimedShares, name: str, index: int) -> dict[str, Any]:
    look = palette.device_style(index)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "stackgroup": "cpu",
        "x": means[0],
        "y": means[1],
        "line": {"color": look.colour, "width": 1, "dash": look.dash},
        "fillcolor": look.faded(0.35),
        "hovertemplate": "%{y:.1f} %",
    }


DEFAULT_METRIC = "util"
HEAT_ROW_PX, HEAT_EDGE_PX, MIN_HEAT_PX = 22, 150, 240


def heat_map_disks(
    sampled_rows: Iterable[MetricRows], facts: Mapping[str, Any], uses: Iterable[DiskUse]
) -> list[StackedDevice]:
    """The layout's own that were sampled, idle ones too: one that does nothing is what this is for.

    Of an unknown plan those that did anything and stand on nothing.
    """
    device_rows = [rows for rows in sampled_rows if rows.metric in DEVICE_PANELS]
    own = {name for use in uses for name in use.members}
    sampled = {name for rows in device_rows for name in rows.devices}
    above = {d["name"] for d in facts.get("devices", ()) if d.get("parents")}
    return order_devices(own & sampled or active_devices(device_rows) - above, facts)


def build_heat_map(
    title: str,
    sampled: Sequence[MetricRows],
    disks: Sequence[StackedDevice],
    metric: str = DEFAULT_METRIC,
    windows: Sequence[Window] = (),
) -> Figure:
    """`metric` is one of devices.PANELS. A field is the mean of what is known in it; empty where nothing is."""
    panel = Panel(metric, *DEVICE_PANELS[metric], 100.0 if DEVICE_PANELS[metric][1] == "%" else 1.0)
    names = [disk.name for disk in disks]
    data = [
        _heat_cells(rows, names, panel)
        for rows in sampled
        if rows.metric == metric and not {*names}.isdisjoint(rows.devices)
    ]
    if not data:
        return figure.empty_figure(title, f"{panel.title}: not sampled of these disks.")
    thinned = any(rows.buckets.every > 1 for rows in sampled if rows.metric == metric)
    over = " over time, however many requests a second had" if metric == "await" else ""
    single = "zoom in for single samples"
    cell_text = f"each cell is a mean{over}; {single}" if thinned else "one cell per sample"
    figure_layout = figure.base_layout(
        f"Each disk over the run: {panel.title[0].lower()}{panel.title[1:]} · {title}",
        f"Stronger is more, {cell_text}.",
        height=max(MIN_HEAT_PX, HEAT_EDGE_PX + HEAT_ROW_PX * len(disks)),
        xaxis={"title": {"text": "Seconds since the first sample"}, "zeroline": False},
        yaxis={
            "type": "category",
            "categoryorder": "array",
            # the first one on top
            "categoryarray": names[::-1],
            "automargin": True,
            "zeroline": False,
        },
        shapes=window_bands(windows, 1, sampled),
    )
    heading = "" if panel.unit == "1" else panel.unit
    figure_layout["coloraxis"] = {
        "colorscale": HEAT_SCALE,
        "colorbar": {"title": {"text": heading}, "thickness": 12},
        "cmin": 0,
        "cmax": 100 if panel.unit == "%" else _largest_value(data),
    }
    return {"data": data, "layout": figure_layout}


def _largest_value(data: Iterable[Mapping[str, Any]]) -> float:
    """Above 0, or there would be no scale."""
    values = (value for trace in data for row in trace["z"] for value in row if value is not None)
    return max(values, default=0.0) or 1.0


def _heat_cells(rows: MetricRows, names: Collection[str], panel: Panel) -> dict[str, Any]:
    at = [(place, name) for place, name in enumerate(rows.devices) if name in names]
    return {
        "type": "heatmap",
        "x": round_significant(rows.buckets.middles, 6),
        "y": [name for _, name in at],
        "z": [round_significant(rows.buckets.means[place] * panel.scale) for place, _ in at],
        "coloraxis": "coloraxis",
        "ygap": 1,
        "hovertemplate": f"%{{y}}<br>%{{x:.3~f}} s: {panel.hover.replace('%{y', '%{z')}<extra></extra>",
    }
