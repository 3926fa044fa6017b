"""What every device and the CPU did over an attempt: small panels on one time axis. Pure: tracks -> figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.analysis.series import averages, decimate, rounded
from benchlab.charts import figure, palette
from benchlab.charts.figure import Figure
from benchlab.charts.stack import Placed, order

PIXELS = 500  # more points than twice this in one line cannot be seen

# metric of the samplers -> title, unit on the axis
PANELS: dict[str, tuple[str, str]] = {
    "read.iops": ("Reads", "r/s"),
    "write.iops": ("Writes", "w/s"),
    "read.bandwidth": ("Read throughput", "B/s"),
    "write.bandwidth": ("Write throughput", "B/s"),
    "await": ("Wait per request, await", "s"),
    "queue": ("Requests in flight, aqu-sz", "1"),
    "util": ("Time busy, util", "%"),
}
CPU = {  # bottom up
    "cpu.user": "user",
    "cpu.system": "system",
    "cpu.irq": "interrupts",
    "cpu.steal": "steal",
    "cpu.iowait": "I/O wait",
}


@dataclass(frozen=True, slots=True)
class Track:
    """One metric of one device: a row of Series, or what a running attempt has so far. NaN is unknown."""

    device: str
    metric: str
    unit: str
    times: Sequence[float]
    values: Sequence[float]


def active(tracks: Iterable[Track]) -> set[str]:
    """Devices that did anything at all."""
    return {
        track.device
        for track in tracks
        if track.metric in PANELS and any(value > 0 for value in track.values)
    }


def build(
    title: str, tracks: Sequence[Track], facts: Mapping[str, Any], *, every: bool = False
) -> Figure:
    """A panel per metric that is not all zero; a line per device, volumes above the disks they stand on."""
    known = [track for track in tracks if track.metric in PANELS]
    names = {track.device for track in known} if every else active(known)
    if not names:
        return figure.empty(title, "No device did any I/O while this was measured.")
    placed = order(names, facts)
    panels = [m for m in PANELS if _any(known, m)]
    idle = sorted({track.device for track in known} - names)
    data, thinned = _lines(known, placed, panels)
    layout = figure.layout(
        f"Every device over the run · {title}",
        _subtitle(panels, idle, thinned),
        height=_height(panels, placed),
    )
    layout |= _axes(panels)
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}}
    layout["margin"] = {"l": 72, "r": 16, "t": 88, "b": 64}
    layout["hovermode"] = "x"
    layout["hoversubplots"] = "axis"
    return {"data": data, "layout": layout}


def _any(tracks: Iterable[Track], metric: str) -> bool:
    return any(t.metric == metric and any(value > 0 for value in t.values) for t in tracks)


def _height(panels: Sequence[str], placed: Sequence[Placed]) -> int:
    return max(260, 116 + 150 * math.ceil(len(panels) / 2), 100 + 19 * len(placed))


def _subtitle(panels: Sequence[str], idle: Sequence[str], thinned: bool) -> str:
    parts = ["1 s samples, from the host's own counters."]
    quiet = [PANELS[m][0].lower() for m in ("read.iops", "write.iops") if m not in panels]
    if quiet:
        parts.append(f"No {' and no '.join(quiet)}: no panel.")
    if idle:
        some = ", ".join(idle[:6]) + (f" and {len(idle) - 6} more" if len(idle) > 6 else "")
        parts.append(f"Idle and not drawn: {some}.")
    if thinned:
        parts.append(
            "Drawn thinned to the smallest and largest value per pixel; the table has all."
        )
    return " ".join(parts)


def _lines(
    tracks: Sequence[Track], placed: Sequence[Placed], panels: Sequence[str]
) -> tuple[list[dict[str, Any]], bool]:
    by_key = {(track.device, track.metric): track for track in tracks}
    data: list[dict[str, Any]] = []
    thinned = False
    for index, device in enumerate(placed):
        look = palette.style(index)
        for panel, metric in enumerate(panels, start=1):
            track = by_key.get((device.name, metric))
            if track is None:
                continue
            times, values = decimate(track.times, track.values, PIXELS)
            thinned = thinned or len(times) < len(track.times)
            data.append(_line(device, look, panel, metric, times, values))
    seen: set[str] = set()
    for trace in data:  # one legend entry a device, at its first panel
        trace["showlegend"] = trace["name"] not in seen
        seen.add(trace["name"])
    return data, thinned


def _line(
    device: Placed,
    look: palette.Style,
    panel: int,
    metric: str,
    times: list[float],
    values: list[float],
) -> dict[str, Any]:
    unit = PANELS[metric][1]
    scale = 100.0 if unit == "%" else 1.0
    number = "%{y:.1f} %" if unit == "%" else "%{y:.3s}" + ("" if unit == "1" else unit)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": device.indented,
        "legendgroup": device.name,
        "x": rounded(times, 6),
        "y": rounded([value * scale for value in values]),
        "xaxis": _axis("x", panel),
        "yaxis": _axis("y", panel),
        "line": {
            "color": look.colour,
            "dash": look.dash,
            "width": 2.2 if device.depth == 0 else 1.3,
        },
        "hovertemplate": f"{number} {device.label}<extra></extra>",
    }


def _axis(letter: str, number: int) -> str:
    return letter if number == 1 else f"{letter}{number}"


def _axes(panels: Sequence[str]) -> dict[str, Any]:
    """Two columns of panels; every x axis follows the first."""
    domains = figure.rows(math.ceil(len(panels) / 2), 0.09)
    columns = [[0.0, 1.0]] if len(panels) == 1 else [[0.0, 0.47], [0.53, 1.0]]
    axes: dict[str, Any] = {"annotations": []}
    for index, metric in enumerate(panels):
        number, row, column = index + 1, index // 2, index % 2
        title, unit = PANELS[metric]
        last = index >= len(panels) - 2
        axes["xaxis" + _axis("", number)] = {
            "domain": columns[column],
            "anchor": _axis("y", number),
            "zeroline": False,
            "showticklabels": last,
            **({"matches": "x"} if number > 1 else {}),
            **({"title": {"text": "Seconds since the first sample"}} if last else {}),
        }
        axes["yaxis" + _axis("", number)] = {
            "domain": domains[row],
            "anchor": _axis("x", number),
            **figure.ticks(unit),
            "rangemode": "tozero",
            "zeroline": False,
            "nticks": 5,
            **({"range": [0, 104]} if unit == "%" else {}),
        }
        axes["annotations"].append(_heading(title, unit, columns[column][0], domains[row][1]))
    return axes


def _heading(title: str, unit: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": f"<b>{title}</b> ({unit})" if unit != "1" else f"<b>{title}</b>",
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def cpu(title: str, tracks: Sequence[Track]) -> Figure:
    """Where the CPU's time went, stacked; the rest up to 100 % is idle."""
    by_metric = {track.metric: track for track in tracks if not track.device}  # the whole host
    shown = [metric for metric in CPU if _any(by_metric.values(), metric)]
    if not shown:
        return figure.empty(title, "No CPU samples.")
    data = [_area(by_metric[metric], CPU[metric], index) for index, metric in enumerate(shown)]
    layout = figure.layout(
        f"CPU of the host over the run · {title}",
        "Share of all CPUs, stacked; the rest is idle.",
        height=300,
        xaxis={"title": {"text": "Seconds since the first sample"}, "zeroline": False},
        yaxis={"title": {"text": "CPU time (%)"}, "range": [0, 100], "zeroline": False},
        hovermode="x unified",
    )
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "traceorder": "reversed"}
    return {"data": data, "layout": layout}


def _area(track: Track, name: str, index: int) -> dict[str, Any]:
    look = palette.style(index)
    times, values = averages(track.times, track.values, PIXELS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "stackgroup": "cpu",
        "x": rounded(times, 6),
        "y": rounded([100 * value for value in values]),
        "line": {"color": look.colour, "width": 1, "dash": look.dash},
        "fillcolor": look.faded(0.35),
        "hovertemplate": "%{y:.1f} %",
    }
