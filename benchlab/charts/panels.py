# SPDX-License-Identifier: Apache-2.0
"""Small panels on one time axis: a line per device in each. Pure: rows -> parts of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.buckets import Floats
from benchlab.analysis.series import round_significant
from benchlab.charts import figure, palette
from benchlab.charts.overplotting import DiskBand
from benchlab.charts.overplotting import band_traces as of_crowd
from benchlab.charts.stack import StackedDevice
from benchlab.runs.strips import MetricRows

# One box for the panel one points at, what is most first; and a line through all panels (charts.js).
UNIFIED_HOVER = {"hovermode": "x unified", "hoversubplots": "axis", "hoversort": "value descending"}
# points that would not be seen without markers
MAX_MARKED_POINTS = 20


@dataclass(frozen=True, slots=True)
class Panel:
    metric: str
    title: str
    # on the axis
    unit: str
    # from base units to that
    scale: float = 1.0

    @property
    def hover(self) -> str:
        if self.unit == "%":
            return "%{y:.1f} %"
        # binary, which d3 has no prefixes for
        if self.unit.endswith("iB"):
            return f"%{{y:.4~g}} {self.unit}"
        return "%{y:.3s}" + ("" if self.unit == "1" else self.unit)


def any_above_zero(sampled: Iterable[MetricRows], metric: str) -> bool:
    """In the whole of it, whatever part is drawn."""
    return any(rows.metric == metric and any(value > 0 for value in rows.most) for rows in sampled)


def panels_height(panels: Sequence[Panel], placed: Sequence[StackedDevice]) -> int:
    return max(260, 116 + 150 * math.ceil(len(panels) / 2), 100 + 19 * len(placed))


def device_lines(
    sampled: Sequence[MetricRows],
    placed: Sequence[StackedDevice],
    panels: Sequence[Panel],
    crowds: Sequence[DiskBand] = (),
    first: int = 0,
) -> tuple[list[dict[str, Any]], bool]:
    """(a trace for each device and panel, then each crowd's; whether any shows fewer points than there are).

    `first`: how many looks others have taken.
    """
    by_key = {
        (name, rows.metric): (rows, at) for rows in sampled for at, name in enumerate(rows.devices)
    }
    data: list[dict[str, Any]] = []
    thinned = False
    for index, device in enumerate(placed, start=first):
        look = palette.device_style(index)
        for number, panel in enumerate(panels, start=1):
            rows, at = by_key.get((device.name, panel.metric), (None, 0))
            if rows is None:
                continue
            thinned = thinned or rows.buckets.every > 1
            data.append(_device_line(device, look, number, panel, *rows.buckets.device_line(at)))
    for index, crowd in enumerate(crowds, start=first + len(placed)):
        for number, panel in enumerate(panels, start=1):
            for rows in sampled:
                if rows.metric == panel.metric and crowd.members & set(rows.devices):
                    thinned = thinned or rows.buckets.every > 1
                    where = {"xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}
                    look = palette.device_style(index)
                    data += of_crowd(crowd, rows, panel.scale, panel.hover, look, where)
    names: set[str] = set()
    # one legend entry a device, at its first panel
    for trace in data:
        trace["showlegend"] = trace.get("showlegend", True) and trace["name"] not in names
        names.add(trace["name"])
    return data, thinned


def _device_line(
    device: StackedDevice,
    look: palette.Style,
    number: int,
    panel: Panel,
    times: Floats,
    values: Floats,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(times) <= MAX_MARKED_POINTS else "lines",
        "name": device.indented,
        "legendgroup": device.name,
        "x": round_significant(times, 6),
        "y": round_significant(values * panel.scale),
        "xaxis": axis_name("x", number),
        "yaxis": axis_name("y", number),
        "line": {
            "color": look.colour,
            "dash": look.dash,
            "width": 2.2 if device.depth == 0 else 1.3,
        },
        "marker": {"size": 4, "symbol": look.marker},
        "hovertemplate": f"{panel.hover} {device.label}<extra></extra>",
    }


def axis_name(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def panel_axes(panels: Sequence[Panel]) -> dict[str, Any]:
    """Two columns of panels; every x axis follows the first."""
    domains = figure.panel_domains(math.ceil(len(panels) / 2), 0.09)
    columns = [[0.0, 1.0]] if len(panels) == 1 else [[0.0, 0.45], [0.55, 1.0]]
    layout: dict[str, Any] = {"annotations": []}
    for index, panel in enumerate(panels):
        number, row, column = index + 1, index // 2, index % 2
        last = index >= len(panels) - 2
        layout["xaxis" + axis_name("", number)] = {
            "domain": columns[column],
            "anchor": axis_name("y", number),
            "zeroline": False,
            "showticklabels": last,
            **({"matches": "x"} if number > 1 else {}),
            **({"title": {"text": "Seconds since the first sample"}} if last else {}),
        }
        layout["yaxis" + axis_name("", number)] = {
            "domain": domains[row],
            "anchor": axis_name("x", number),
            **figure.tick_format(panel.unit),
            "rangemode": "tozero",
            "zeroline": False,
            "nticks": 5,
            **({"range": [0, 104]} if panel.unit == "%" else {}),
        }
        layout["annotations"].append(
            panel_heading(panel.title, panel.unit, columns[column][0], domains[row][1])
        )
    return layout


def panel_heading(title: str, unit: str, x: float, y: float) -> dict[str, Any]:
    """Above a panel, from there on to the right."""
    return {
        "text": f"<b>{title}</b> {unit}" if unit not in ("", "1") else f"<b>{title}</b>",
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }
