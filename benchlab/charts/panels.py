# SPDX-License-Identifier: Apache-2.0
"""Panels on one time axis: a line or band per device, and shades for the tool's windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.contracts import Window
from benchlab.analysis.series import Floats, round_significant
from benchlab.charts import figure, palette
from benchlab.charts.device_stacks import DiskUse, StackedDevice
from benchlab.charts.figure import axes_of, axis_name
from benchlab.charts.palette import Style
from benchlab.runs.strips import MetricRows

# disks that a reader can tell apart at a glance
MAX_SEPARATE_DISKS = 4


@dataclass(frozen=True, slots=True)
class DiskBand:
    """Disks with one use in a layout, by their kernel names."""

    # "12 disks (lvm, data)"
    label: str
    members: frozenset[str]


def disk_bands(uses: Iterable[DiskUse], rows: Sequence[MetricRows]) -> list[DiskBand]:
    """Bundle each use with more than a few sampled disks, if each metric has one clock. No disk is in two bands."""
    bands: list[DiskBand] = []
    bundled: set[str] = set()
    for use in uses:
        members = frozenset(use.members) & {name for sampled in rows for name in sampled.devices}
        if (
            len(members) > MAX_SEPARATE_DISKS
            and not members & bundled
            and _share_clock(members, rows)
        ):
            bundled |= members
            bands.append(DiskBand(f"{len(members)} disks ({use.layer}, {use.use})", members))
    return bands


def _share_clock(members: frozenset[str], rows: Sequence[MetricRows]) -> bool:
    metrics = [sampled.metric for sampled in rows if members & set(sampled.devices)]
    return len(set(metrics)) == len(metrics)


def band_traces(
    crowd: DiskBand, rows: MetricRows, scale: float, hover: str, look: Style, common: dict[str, Any]
) -> list[dict[str, Any]]:
    """Draw the band, its two edges, and the median. Idle members count: an idle disk is what a reader looks for."""
    places = [at for at, name in enumerate(rows.devices) if name in crowd.members]
    low, high, median = rows.buckets.band(places)
    x = round_significant(rows.buckets.middles, 6)
    edges = [round_significant(values * scale) for values in (low, high)]
    suffix = f"of {crowd.label}"
    plain = {"type": "scatter", "mode": "lines", "legendgroup": crowd.label, **common}

    def edge(word: str, at: int, values: Floats, bounds: Floats) -> dict[str, Any]:
        return plain | {
            "name": f"{word} {suffix}",
            "x": x,
            "y": edges[at],
            "showlegend": False,
            "line": {"color": look.faded(0.55), "width": 0.8},
            "text": _disks_at_edge(rows, places, values, bounds),
            "hovertemplate": f"{hover} {word}, %{{text}}<extra></extra>",
        }

    outline = plain | {
        **_band_outline(x, *edges),
        "name": f"{crowd.label}: smallest to largest",
        "fill": "toself",
        "fillcolor": look.faded(0.18),
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    middle = plain | {
        "name": f"{crowd.label}: median",
        "x": x,
        "y": round_significant(median * scale),
        "line": {"color": look.colour, "dash": look.dash, "width": 1.6},
        "hovertemplate": f"{hover} median {suffix}<extra></extra>",
    }
    largest = edge("largest", 1, high, rows.buckets.high)
    return [outline, largest, middle, edge("smallest", 0, low, rows.buckets.low)]


def _disks_at_edge(rows: MetricRows, places: list[int], edge: Any, values: Any) -> list[str]:
    """Return the first member at the edge in each bucket; "" if nothing is known."""
    first = (values[places] == edge).argmax(axis=0).tolist()
    names = [rows.devices[at] for at in places]
    return ["" if np.isnan(value) else names[at] for at, value in zip(first, edge, strict=True)]


def _band_outline(
    x: list[float | None], low: list[float | None], high: list[float | None]
) -> dict[str, list[float | None]]:
    """Round each stretch in which something is known, one after the other."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    begin = 0
    for at in range(len(x) + 1):
        if at < len(x) and low[at] is not None:
            continue
        if at > begin:
            xs += [*x[begin:at], *reversed(x[begin:at]), None]
            ys += [*high[begin:at], *reversed(low[begin:at]), None]
        begin = at + 1
    return {"x": xs, "y": ys}


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
    """True for any value above 0 in the whole, whatever part is drawn."""
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
                    look = palette.device_style(index)
                    data += band_traces(
                        crowd, rows, panel.scale, panel.hover, look, axes_of(number)
                    )
    return figure.one_entry_each(data), thinned


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
        **axes_of(number),
        "line": {
            "color": look.colour,
            "dash": look.dash,
            "width": 2.2 if device.depth == 0 else 1.3,
        },
        "marker": {"size": 4, "symbol": look.marker},
        "hovertemplate": f"{panel.hover} {device.label}<extra></extra>",
    }


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
    text = f"<b>{title}</b> {unit}" if unit not in ("", "1") else f"<b>{title}</b>"
    return figure.heading_annotation(text, x, y)


# Grey of half light, so that it is seen on a white page and on a dark one: what was not measured is shaded, and what
# was has a bar on top of its panel; every second one fainter, as they touch.
UNMEASURED_FILL = "rgba(128,140,160,0.18)"
MEASURED_FILLS = ("rgba(128,140,160,0.9)", "rgba(128,140,160,0.5)")
TRANSPARENT = "rgba(0,0,0,0)"
# of a panel's height
BAR_HEIGHT = 0.025
# Of a panel's width: so much of it a lying letter needs; a name that has not room stands
LETTER_WIDTH = 1 / 50
# letters that a panel is high; the table under the chart has the whole name
MAX_VERTICAL_LETTERS = 20


def window_bands(
    windows: Sequence[Window], panels: int, rows_drawn: Iterable[MetricRows] = ()
) -> list[dict[str, Any]]:
    """Shapes for panels 1, 2, …: each window with its name as high as the panel, then the bars of what was measured.

    `found`: what is drawn over them; it goes on where sampling did.
    """
    ends = [float(rows.buckets.times[-1]) for rows in rows_drawn if len(rows.buckets.times)]
    whole = max([*ends, *(window.end for window in windows)], default=0.0)
    lying = all(
        window.end - window.start > whole * LETTER_WIDTH * len(window.name) for window in windows
    )
    numbers = range(1, panels + 1)
    shapes = []
    for window in windows:
        label = (
            {"text": window.name, "textposition": "top left"}
            if lying
            else _vertical_label(window.name)
        )
        fill = TRANSPARENT if window.measured else UNMEASURED_FILL
        shape = {
            "layer": "below",
            "y0": 0,
            "fillcolor": fill,
            "label": {"font": {"size": 9}, **label},
        }
        shapes += [_rectangle(window, number) | shape for number in numbers]
    measured = [window for window in windows if window.measured]
    for index, window in enumerate(measured):
        bar = {"layer": "above", "y0": 1 - BAR_HEIGHT, "fillcolor": MEASURED_FILLS[index % 2]}
        shapes += [_rectangle(window, number) | bar for number in numbers]
    return shapes


def _rectangle(window: Window, number: int) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": axis_name("x", number),
        "yref": f"{axis_name('y', number)} domain",
        "x0": window.start,
        "x1": window.end,
        "y1": 1,
        "line": {"width": 0},
    }


def _vertical_label(name: str) -> dict[str, Any]:
    short = name if len(name) <= MAX_VERTICAL_LETTERS else f"{name[: MAX_VERTICAL_LETTERS - 1]}…"
    return {"text": short, "textposition": "bottom left", "textangle": -90}
