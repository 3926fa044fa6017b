"""What every device and the CPU did over an attempt: small panels on one time axis. Pure: tracks -> figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.contracts import Window
from benchlab.analysis.series import rounded
from benchlab.charts import figure, palette
from benchlab.charts.bands import bands
from benchlab.charts.figure import Figure
from benchlab.charts.panels import Panel, Track, any_above_zero, axes, height, lines
from benchlab.charts.spans import WHOLE, Span
from benchlab.charts.stack import order

__all__ = ["CPU", "PANELS", "Track", "active", "build", "cpu"]

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
HELD_BACK = {  # beside them, where the host tells
    "cpu.speed": "clock, of its highest",
    "cpu.heat": "throttled for heat",
    "cpu.quota": "quota used up",
}


def active(tracks: Iterable[Track]) -> set[str]:
    """Devices that did anything at all."""
    return {
        track.device
        for track in tracks
        if track.metric in PANELS and any(value > 0 for value in track.values)
    }


def build(
    title: str,
    tracks: Sequence[Track],
    facts: Mapping[str, Any],
    windows: Sequence[Window] = (),
    *,
    every: bool = False,
    span: Span = WHOLE,
) -> Figure:
    """A panel per metric that is not all zero; a line per device, volumes above the disks they stand on.

    Which panels and lines there are does not depend on `span`: who zooms keeps what they look at.
    """
    known = [track for track in tracks if track.metric in PANELS]
    names = {track.device for track in known} if every else active(known)
    if not names:
        return figure.empty(title, "No device did any I/O while this was measured.")
    placed = order(names, facts)
    panels = [
        Panel(m, *PANELS[m], 100.0 if PANELS[m][1] == "%" else 1.0)
        for m in PANELS
        if any_above_zero(known, m)
    ]
    idle = sorted({track.device for track in known} - names)
    data, thinned = lines(known, placed, panels, span)
    layout = figure.layout(
        f"Every device over the run · {title}",
        _subtitle([p.metric for p in panels], idle, thinned),
        height=height(panels, placed),
    )
    layout |= axes(panels)
    layout["shapes"] = bands(windows, len(panels))
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 11}}
    layout["margin"] = {"l": 72, "r": 16, "t": 88, "b": 64}
    layout["hovermode"] = "x"
    layout["hoversubplots"] = "axis"
    return {"data": data, "layout": layout}


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
            "Drawn thinned to the smallest and largest value per pixel: zoom in for every sample."
        )
    return " ".join(parts)


def cpu(
    title: str, tracks: Sequence[Track], windows: Sequence[Window] = (), span: Span = WHOLE
) -> Figure:
    """Where the CPU's time went, stacked; the rest up to 100 % is idle. What holds it back is drawn over that."""
    by_metric = {track.metric: track for track in tracks if not track.device}  # the whole host
    shown = [metric for metric in CPU if any_above_zero(by_metric.values(), metric)]
    if not shown:
        return figure.empty(title, "No CPU samples.")
    over = [metric for metric in HELD_BACK if any_above_zero(by_metric.values(), metric)]
    data = [
        *(_area(by_metric[metric], CPU[metric], index, span) for index, metric in enumerate(shown)),
        *(_line(by_metric[m], HELD_BACK[m], index, span) for index, m in enumerate(over, len(CPU))),
    ]
    layout = figure.layout(
        f"CPU of the host over the run · {title}",
        "Share of all CPUs, stacked; the rest is idle."
        + (" Lines: what held it back." if over else ""),
        height=300,
        xaxis={"title": {"text": "Seconds since the first sample"}, "zeroline": False},
        yaxis={"title": {"text": "CPU time (%)"}, "range": [0, 100], "zeroline": False},
        hovermode="x unified",
        shapes=bands(windows, 1),
    )
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "traceorder": "reversed"}
    return {"data": data, "layout": layout}


def _line(track: Track, name: str, index: int, span: Span) -> dict[str, Any]:
    """Not stacked: a share of something else than time."""
    kept = {"stackgroup", "fillcolor"}
    return {key: value for key, value in _area(track, name, index, span).items() if key not in kept}


def _area(track: Track, name: str, index: int, span: Span) -> dict[str, Any]:
    look = palette.style(index)
    times, values = span.averaged(track.times, track.values)
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
