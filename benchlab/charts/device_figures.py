# SPDX-License-Identifier: Apache-2.0
"""Figures of a run over time: devices, latency percentiles, caches, pools, arrays and CPU.

The tables of panels say what is drawn, and what tables under the charts list (benchlab/charts/device_tables.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.contracts import Window
from benchlab.analysis.series import round_significant
from benchlab.charts import figure, palette
from benchlab.charts.device_stacks import (
    DiskUse,
    Facts,
    StackedDevice,
    order_devices,
    order_with_pools,
)
from benchlab.charts.figure import Figure, axis_name
from benchlab.charts.latency_distributions import DIRECTION_WORDS, KIND_WORDS
from benchlab.charts.panels import (
    UNIFIED_HOVER,
    Panel,
    any_above_zero,
    device_lines,
    disk_bands,
    panel_axes,
    panels_height,
    window_bands,
)
from benchlab.charts.sampled_tracks import (
    Track,
    rows_from_tracks,
)
from benchlab.runs.strips import MetricRows

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9", "p99.99")
TIME_AXIS = {"title": {"text": "Seconds since the first sample"}, "zeroline": False}


def _panels(*rows: tuple[str, str, str]) -> dict[str, Panel]:
    """{metric: its panel} of (metric, title, unit on the axis). Shares are drawn in percent."""
    return {
        metric: Panel(metric, title, unit, 100.0 if unit == "%" else 1.0)
        for metric, title, unit in rows
    }


DEVICE_PANELS = _panels(
    ("read.iops", "Reads", "r/s"),
    ("write.iops", "Writes", "w/s"),
    ("read.bandwidth", "Read throughput", "B/s"),
    ("write.bandwidth", "Write throughput", "B/s"),
    ("await", "Wait per request, await", "s"),
    ("queue", "Requests in flight, aqu-sz", "1"),
    ("util", "Time busy, util", "%"),
)
PERCENTILE_PANELS = _panels(
    *(
        (
            f"{direction}.{kind}" if direction else kind,
            f"{DIRECTION_WORDS[direction]}, {words}",
            "s",
        )
        for direction in DIRECTION_WORDS
        for kind, words in KIND_WORDS.items()
    )
)
# metric -> (the panel that it is drawn in, which percentile it is)
PERCENTILE_METRICS = {
    f"{base}.{rank}": (base, rank) for base in PERCENTILE_PANELS for rank in PERCENTILES
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
CPU_PANELS = _panels(*((metric, f"CPU {words}", "%") for metric, words in CPU_STATES.items()))


@dataclass(frozen=True, slots=True)
class CacheChart:
    # in its URL
    name: str
    title: str
    description: str
    panels: Mapping[str, Panel]


CACHE_CHARTS = (
    CacheChart(
        "caches",
        "Cache hit ratio and dirty data",
        "Hits of all that were asked; where nothing was asked, there is no point. Dirty data is not on the disks yet.",
        _panels(
            ("hit_ratio", "Cache hit ratio", "%"),
            ("read.hit_ratio", "Cache hit ratio, reads", "%"),
            ("write.hit_ratio", "Cache hit ratio, writes", "%"),
            ("dirty", "Dirty data", "B"),
            ("used", "Cache in use", "B"),
            ("promotions", "Promotions", "op/s"),
            ("demotions", "Demotions", "op/s"),
            ("bypassed", "Reads past the cache", "op/s"),
        ),
    ),
    CacheChart(
        "arc",
        "ARC",
        "ZFS's cache in memory, of the whole host, and on its cache devices (L2ARC).",
        _panels(
            ("arc.hit_ratio", "ARC hit ratio", "%"),
            ("arc.size", "ARC size", "B"),
            ("l2arc.hit_ratio", "L2ARC hit ratio", "%"),
            ("l2arc.size", "L2ARC size", "B"),
        ),
    ),
    CacheChart(
        "zpool",
        "zpool vdevs",
        "Every pool, vdev, log and cache device, as zpool iostat sees them.",
        _panels(
            ("zpool.read.iops", "Reads", "r/s"),
            ("zpool.write.iops", "Writes", "w/s"),
            ("zpool.read.bandwidth", "Read throughput", "B/s"),
            ("zpool.write.bandwidth", "Write throughput", "B/s"),
            ("zpool.read.wait", "Wait per read, with the pool's queue", "s"),
            ("zpool.write.wait", "Wait per write, with the pool's queue", "s"),
        ),
    ),
    CacheChart(
        "arrays",
        "Array resync",
        "Resync, recovery, reshape or check of md, as the kernel tells it.",
        _panels(
            ("sync.done", "Done", "%"),
            ("sync.bandwidth", "Speed, mean of half a minute", "B/s"),
            ("degraded", "Members missing", "1"),
        ),
    ),
)
CACHE_PANELS = {metric: panel for chart in CACHE_CHARTS for metric, panel in chart.panels.items()}
# of tables: each percentile by itself
TABLE_PANELS = {
    **DEVICE_PANELS,
    **CACHE_PANELS,
    **_panels(
        *(
            (metric, f"{PERCENTILE_PANELS[base].title}, {rank}", "s")
            for metric, (base, rank) in PERCENTILE_METRICS.items()
        )
    ),
}


def active_devices(sampled: Iterable[MetricRows]) -> set[str]:
    """Return the devices that did anything at all."""
    return {
        name
        for rows in sampled
        if rows.metric in DEVICE_PANELS
        for name, most in zip(rows.devices, rows.most, strict=True)
        if most > 0
    }


def active_panels(sampled: Sequence[MetricRows]) -> list[Panel]:
    """Return the panels of devices in which anything happened."""
    return [panel for panel in DEVICE_PANELS.values() if any_above_zero(sampled, panel.metric)]


def build_device_figure(
    title: str,
    sampled: Sequence[MetricRows],
    facts: Facts,
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
    all_names = {name for rows in device_rows for name in rows.devices}
    names = all_names if every else active_devices(device_rows)
    if not names and not ranked:
        return figure.empty_figure(title, "No device did any I/O while this was measured.")
    bundled = [band for band in disk_bands(uses, device_rows) if band.members & names]
    placed = order_devices(names.difference(*(band.members for band in bundled)), facts)
    measured = {rows.metric for rows in ranked}
    panels = active_panels(device_rows)
    rank_panels = [panel for base, panel in PERCENTILE_PANELS.items() if base in measured]
    subtitle = []
    if panels:
        subtitle.append("Samples of the host's own counters.")
    if sources := " and ".join(
        dict.fromkeys(
            name for rows in sampled if rows.metric in PERCENTILE_METRICS for name in rows.devices
        )
    ):
        subtitle.append(f"Percentiles of latency: {sources}.")
    if bundled:
        bands_text = " and ".join(band.label for band in bundled)
        subtitle.append(f"Band: smallest to largest of {bands_text}, line: their median.")
    drawn = {panel.metric for panel in panels}
    quiet = [DEVICE_PANELS[m].title.lower() for m in ("read.iops", "write.iops") if m not in drawn]
    if panels and quiet:
        subtitle.append(f"No {' and no '.join(quiet)}: no panel.")
    if idle := sorted(all_names - names):
        some = ", ".join(idle[:6]) + (f" and {len(idle) - 6} more" if len(idle) > 6 else "")
        subtitle.append(f"Idle and not drawn: {some}.")
    every_panel = [*panels, *rank_panels]
    data, thinned = device_lines(device_rows, placed, every_panel, bundled)
    rank_data, ranks_thinned = device_lines(
        ranked, ranks, every_panel, first=len(placed) + len(bundled)
    )
    if thinned or ranks_thinned:
        subtitle.append(
            "Drawn thinned to the smallest and largest value per pixel: zoom in for every sample."
        )
    layout = _panel_layout(
        f"{'Every device' if names else 'Latency'} over the run · {title}",
        " ".join(subtitle),
        every_panel,
        panels_height(every_panel, [*placed, *ranks]),
    )
    _use_log_axes(layout, every_panel, ranked)
    layout["shapes"] = window_bands(windows, len(every_panel), sampled)
    return {"data": [*data, *rank_data], "layout": layout}


def _panel_layout(
    title: str, subtitle: str, panels: Sequence[Panel], height: int
) -> dict[str, Any]:
    """Layout of panels on one time axis, with the legend beside them."""
    return {
        **figure.base_layout(title, subtitle, height=height),
        **panel_axes(panels),
        **UNIFIED_HOVER,
        "legend": {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}},
        "margin": {"l": 72, "r": 16, "t": 88, "b": 64},
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


def _use_log_axes(
    layout: dict[str, Any], panels: Sequence[Panel], lines: Sequence[MetricRows]
) -> None:
    """Make the axes of percentiles logarithmic, so that a p99.9 does not flatten the median."""
    for number, panel in enumerate(panels, start=1):
        if panel.metric not in PERCENTILE_PANELS:
            continue
        numbers = [
            value
            for rows in lines
            if rows.metric == panel.metric
            for value in (
                *rows.most,
                *rows.buckets.low[np.nan_to_num(rows.buckets.low) > 0].tolist(),
            )
        ]
        axis = layout["yaxis" + axis_name("", number)]
        log_axis = figure.log_axis("", "s", numbers, dense=2)
        del log_axis["title"]
        layout["yaxis" + axis_name("", number)] = {
            "domain": axis["domain"],
            "anchor": axis["anchor"],
            **log_axis,
        }


def available_charts(tracks: Iterable[Track]) -> list[CacheChart]:
    """Return the charts of caches, pools and arrays that have something to show."""
    metrics = {track.metric for track in tracks if _has_values(track)}
    return [chart for chart in CACHE_CHARTS if metrics & chart.panels.keys()]


def find_chart(name: str) -> CacheChart | None:
    return next((chart for chart in CACHE_CHARTS if chart.name == name), None)


def build_cache_figure(
    title: str,
    chart: CacheChart,
    tracks: Sequence[Track],
    facts: Facts,
    windows: Sequence[Window] = (),
) -> Figure:
    """A panel per metric, a line per device."""
    sampled = [track for track in tracks if track.metric in chart.panels and _has_values(track)]
    if not sampled:
        return figure.empty_figure(title, f"{chart.title}: nothing was sampled of it.")
    placed = order_with_pools({track.device for track in sampled}, facts)
    panels = [
        _in_binary_units(panel, shown)
        for metric, panel in chart.panels.items()
        if (shown := [track for track in sampled if track.metric == metric])
    ]
    rows = rows_from_tracks(sampled)
    data, _ = device_lines(rows, placed, panels)
    # or the legend would scroll
    height = max(panels_height(panels, placed), 160 + 22 * len(placed))
    layout = _panel_layout(f"{chart.title} · {title}", chart.description, panels, height)
    layout["shapes"] = window_bands(windows, len(panels), rows)
    layout["showlegend"] = True
    return {"data": data, "layout": layout}


def _has_values(track: Track) -> bool:
    """True if there is something to draw: any known ratio, even 0, but only rates and sizes that are not always 0."""
    panel = CACHE_PANELS.get(track.metric)
    if panel and panel.unit == "%":
        return bool((~np.isnan(track.array)).any())
    return bool((track.array > 0).any())


def _in_binary_units(panel: Panel, tracks: Sequence[Track]) -> Panel:
    """Bytes in the largest unit that the largest value fills."""
    if panel.unit != "B":
        return panel
    most = max(float(np.nanmax(track.array)) for track in tracks)
    power = min(len(BINARY_UNITS) - 1, max(0, int(math.log2(most) / 10)))
    return replace(panel, unit=BINARY_UNITS[power], scale=1024.0**-power)


def build_cpu_figure(
    title: str, sampled: Sequence[MetricRows], windows: Sequence[Window] = ()
) -> Figure:
    """Figure of the CPU's time, stacked; the rest up to 100 % is idle. What holds it back is drawn over that."""
    # the whole host
    by_metric = {rows.metric: rows for rows in sampled if "" in rows.devices}
    drawn = [metric for metric in by_metric if any_above_zero(sampled, metric)]
    states = [metric for metric in CPU_STATES if metric in drawn]
    if not states:
        return figure.empty_figure(title, "No CPU samples.")
    limits = [metric for metric in CPU_LIMITS if metric in drawn]
    data = [
        _cpu_trace(by_metric[metric], CPU_STATES[metric], index, stacked=True)
        for index, metric in enumerate(states)
    ]
    data += [
        _cpu_trace(by_metric[metric], CPU_LIMITS[metric], index, stacked=False)
        for index, metric in enumerate(limits, start=len(CPU_STATES))
    ]
    layout = figure.base_layout(
        f"CPU of the host over the run · {title}",
        "Share of all CPUs, stacked; the rest is idle."
        + (" Lines: what held it back." if limits else ""),
        height=300,
        xaxis=TIME_AXIS,
        yaxis={"title": {"text": "CPU time (%)"}, "range": [0, 100], "zeroline": False},
        hovermode="x unified",
        shapes=window_bands(windows, 1, sampled),
    )
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "traceorder": "reversed"}
    return {"data": data, "layout": layout}


def _cpu_trace(rows: MetricRows, name: str, index: int, *, stacked: bool) -> dict[str, Any]:
    """Draw means, since all areas of a stack get the same times. A share of something else than time is a line."""
    look = palette.device_style(index)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": round_significant(rows.buckets.middles, 6),
        "y": round_significant(100 * rows.buckets.means[rows.devices.index("")]),
        "line": {"color": look.colour, "width": 1, "dash": look.dash},
        "hovertemplate": "%{y:.1f} %",
    }
    return {**trace, "stackgroup": "cpu", "fillcolor": look.faded(0.35)} if stacked else trace
