# SPDX-License-Identifier: Apache-2.0
"""Activity of every device and the CPU over an attempt: small panels on one time axis. Pure: rows -> figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.contracts import Window
from benchlab.analysis.series import round_significant
from benchlab.charts import figure, palette, percentiles
from benchlab.charts.bands import window_bands
from benchlab.charts.device_work import DiskUse
from benchlab.charts.figure import Figure
from benchlab.charts.overplotting import DiskBand, disk_bands
from benchlab.charts.panels import (
    UNIFIED_HOVER,
    Panel,
    any_above_zero,
    device_lines,
    panel_axes,
    panels_height,
)
from benchlab.charts.stack import order_devices
from benchlab.runs.strips import MetricRows

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
    """Devices that did anything at all."""
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
    ranked, ranks = percentiles.percentile_lines(sampled)
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
    ] + percentiles.percentile_panels(ranked)
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
    percentiles.use_log_axes(layout, panels, ranked)
    layout["shapes"] = window_bands(windows, len(panels), sampled)
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}}
    layout["margin"] = {"l": 72, "r": 16, "t": 88, "b": 64}
    layout |= UNIFIED_HOVER
    return {"data": data, "layout": layout}


def _percentile_sources(sampled: Iterable[MetricRows]) -> str:
    """Names of those that told percentiles of latency; "" for nobody."""
    names = (
        name
        for rows in sampled
        if rows.metric in percentiles.PERCENTILE_METRICS
        for name in rows.devices
    )
    return " and ".join(dict.fromkeys(names))


def _device_subtitle(
    panels: Sequence[str],
    idle: Sequence[str],
    bundled: Sequence[DiskBand],
    told_by: str,
    thinned: bool,
) -> str:
    parts = []
    if not percentiles.PERCENTILE_BASES.keys() >= {*panels}:
        parts.append("1 s samples, from the host's own counters.")
    if told_by:
        parts.append(f"Percentiles of latency: {told_by}.")
    if bundled:
        bands_text = " and ".join(band.label for band in bundled)
        parts.append(f"Band: smallest to largest of {bands_text}, line: their median.")
    quiet = [DEVICE_PANELS[m][0].lower() for m in ("read.iops", "write.iops") if m not in panels]
    if quiet and not percentiles.PERCENTILE_BASES.keys() >= {*panels}:
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
