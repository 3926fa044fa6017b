# SPDX-License-Identifier: Apache-2.0
"""Disk x time, each field by its shade: which disks work, and when they did not. Pure: rows -> figure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from agents.contracts import Window
from benchlab.analysis.series import round_significant
from benchlab.charts import figure
from benchlab.charts.bands import window_bands
from benchlab.charts.device_work import DiskUse
from benchlab.charts.devices import DEVICE_PANELS, active_devices
from benchlab.charts.figure import Figure
from benchlab.charts.palette import HEAT, heat_swaps
from benchlab.charts.panels import Panel
from benchlab.charts.stack import StackedDevice, order_devices
from benchlab.runs.strips import MetricRows

DEFAULT_METRIC = "util"
HEAT_ROW_PX, HEAT_EDGE_PX, MIN_HEAT_PX = 22, 150, 240
HEAT_SCALE = [[place / (len(HEAT) - 1), colour] for place, colour in enumerate(HEAT)]


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
    figure_layout["meta"]["dark"] |= heat_swaps()
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
