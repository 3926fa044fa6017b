# SPDX-License-Identifier: Apache-2.0
"""Caches, ZFS pools and arrays over an attempt: the metrics of their own samplers. Pure: tracks -> figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.contracts import Window
from benchlab.charts import figure
from benchlab.charts.device_work import StackedDevice, order_devices
from benchlab.charts.figure import Figure
from benchlab.charts.panels import (
    UNIFIED_HOVER,
    Panel,
    device_lines,
    panel_axes,
    panels_height,
    window_bands,
)
from benchlab.charts.sampled_tracks import Track, rows_from_tracks

VDEV_CLASSES = ("logs", "cache", "special", "dedup")
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class CacheChart:
    # in its URL
    name: str
    title: str
    description: str
    # of the samplers -> title, unit on the axis
    metrics: Mapping[str, tuple[str, str]]


CACHE_CHARTS = (
    CacheChart(
        "caches",
        "Cache hit ratio and dirty data",
        "Hits of all that were asked; where nothing was asked, there is no point. Dirty data is not on the disks yet.",
        {
            "hit_ratio": ("Cache hit ratio", "%"),
            "read.hit_ratio": ("Cache hit ratio, reads", "%"),
            "write.hit_ratio": ("Cache hit ratio, writes", "%"),
            "dirty": ("Dirty data", "B"),
            "used": ("Cache in use", "B"),
            "promotions": ("Promotions", "op/s"),
            "demotions": ("Demotions", "op/s"),
            "bypassed": ("Reads past the cache", "op/s"),
        },
    ),
    CacheChart(
        "arc",
        "ARC",
        "ZFS's cache in memory, of the whole host, and on its cache devices (L2ARC).",
        {
            "arc.hit_ratio": ("ARC hit ratio", "%"),
            "arc.size": ("ARC size", "B"),
            "l2arc.hit_ratio": ("L2ARC hit ratio", "%"),
            "l2arc.size": ("L2ARC size", "B"),
        },
    ),
    CacheChart(
        "zpool",
        "zpool vdevs",
        "Every pool, vdev, log and cache device, as zpool iostat sees them.",
        {
            "zpool.read.iops": ("Reads", "r/s"),
            "zpool.write.iops": ("Writes", "w/s"),
            "zpool.read.bandwidth": ("Read throughput", "B/s"),
            "zpool.write.bandwidth": ("Write throughput", "B/s"),
            "zpool.read.wait": ("Wait per read, with the pool's queue", "s"),
            "zpool.write.wait": ("Wait per write, with the pool's queue", "s"),
        },
    ),
    CacheChart(
        "arrays",
        "Array resync",
        "Resync, recovery, reshape or check of md, as the kernel tells it.",
        {
            "sync.done": ("Done", "%"),
            "sync.bandwidth": ("Speed, mean of half a minute", "B/s"),
            "degraded": ("Members missing", "1"),
        },
    ),
)
CACHE_PANELS = {metric: panel for chart in CACHE_CHARTS for metric, panel in chart.metrics.items()}


def available_charts(tracks: Iterable[Track]) -> list[CacheChart]:
    """Return the charts that have something to show."""
    metrics = {track.metric for track in tracks if _has_values(track)}
    return [chart for chart in CACHE_CHARTS if metrics & chart.metrics.keys()]


def find_chart(name: str) -> CacheChart | None:
    return next((chart for chart in CACHE_CHARTS if chart.name == name), None)


def build_cache_figure(
    title: str,
    chart: CacheChart,
    tracks: Sequence[Track],
    facts: Mapping[str, Any],
    windows: Sequence[Window] = (),
) -> Figure:
    """A panel per metric, a line per device."""
    sampled = [track for track in tracks if track.metric in chart.metrics and _has_values(track)]
    if not sampled:
        return figure.empty_figure(title, f"{chart.title}: nothing was sampled of it.")
    placed = _ordered_devices({track.device for track in sampled}, facts)
    panels = [
        _cache_panel(m, *look, sampled)
        for m, look in chart.metrics.items()
        if any(track.metric == m for track in sampled)
    ]
    rows = rows_from_tracks(sampled)
    data, _ = device_lines(rows, placed, panels)
    # or the legend would scroll
    high = max(panels_height(panels, placed), 160 + 22 * len(placed))
    layout = figure.base_layout(f"{chart.title} · {title}", chart.description, height=high)
    layout |= panel_axes(panels)
    layout["shapes"] = window_bands(windows, len(panels), rows)
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}}
    layout["margin"] = {"l": 72, "r": 16, "t": 88, "b": 64}
    layout |= UNIFIED_HOVER | {"showlegend": True}
    return {"data": data, "layout": layout}


def _has_values(track: Track) -> bool:
    """True if there is something to draw: any known ratio, even 0, but only rates and sizes that are not always 0."""
    if CACHE_PANELS.get(track.metric, ("", ""))[1] == "%":
        return bool((~np.isnan(np.asarray(track.values, dtype=float))).any())
    return bool((np.asarray(track.values, dtype=float) > 0).any())


def _cache_panel(metric: str, title: str, unit: str, tracks: Sequence[Track]) -> Panel:
    if unit == "%":
        return Panel(metric, title, unit, 100.0)
    if unit != "B":
        return Panel(metric, title, unit)
    most = max((np.nanmax(t.values) for t in tracks if t.metric == metric), default=1.0)
    power = min(len(BINARY_UNITS) - 1, max(0, int(math.log2(most) / 10)))
    return Panel(metric, title, BINARY_UNITS[power], 1024.0**-power)


def _ordered_devices(names: set[str], facts: Mapping[str, Any]) -> list[StackedDevice]:
    """Order block devices as everywhere else, and pools with their vdevs below them; "" is the host."""
    blocks = {name for name in names if name and "/" not in name and not _is_pool(name, names)}
    rest = sorted(
        names - blocks, key=lambda name: [(part in VDEV_CLASSES, part) for part in name.split("/")]
    )
    return [*order_devices(blocks, facts), *(_placed_vdev(name) for name in rest)]


def _is_pool(name: str, names: set[str]) -> bool:
    return any(other.startswith(f"{name}/") for other in names)


def _placed_vdev(name: str) -> StackedDevice:
    """ "bl17/logs/sdb" is "sdb (logs)" below "bl17": its class is no row of its own."""
    *above, last = name.split("/")
    if len(above) > 1 and above[1] in VDEV_CLASSES:
        return StackedDevice(name, len(above) - 1, f"{last} ({above[1]})")
    return StackedDevice(name, len(above), last or "whole host")
