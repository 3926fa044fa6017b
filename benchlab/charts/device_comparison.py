# SPDX-License-Identifier: Apache-2.0
"""Devices compared: each disk of a run over time as a heat map, and several runs side by side.

Side by side, a run is a column; each row of panels has one scale, and all have one time axis.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from agents.contracts import Window
from benchlab.analysis.curves import median_of
from benchlab.analysis.series import round_significant
from benchlab.charts import figure, palette, request_params
from benchlab.charts.device_figures import DEVICE_PANELS, TIME_AXIS, active_devices, active_panels
from benchlab.charts.device_stacks import (
    DiskUse,
    Facts,
    StackedDevice,
    attempt_facts,
    order_devices,
)
from benchlab.charts.figure import Figure, axis_name
from benchlab.charts.figure_views import attempt_title, figure_response
from benchlab.charts.palette import HEAT_SCALE
from benchlab.charts.panels import Panel, device_lines, panel_heading, window_bands
from benchlab.charts.sampled_tracks import (
    WHOLE_SPAN,
    Track,
    cut_tracks,
    iterate_tracks,
    measured_windows,
    read_rows,
    read_windows,
)
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.runs.strips import MetricRows

DEFAULT_METRIC = "util"
HEAT_ROW_PX, HEAT_EDGE_PX, MIN_HEAT_PX = 22, 150, 240


def heat_map_disks(
    sampled_rows: Iterable[MetricRows], facts: Facts, uses: Iterable[DiskUse]
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
    """`metric` is one of DEVICE_PANELS. A field is the mean of what is known in it; empty where nothing is."""
    panel = DEVICE_PANELS[metric]
    names = [disk.name for disk in disks]
    metric_rows = [rows for rows in sampled if rows.metric == metric]
    data = [
        _heat_cells(rows, names, panel)
        for rows in metric_rows
        if not {*names}.isdisjoint(rows.devices)
    ]
    if not data:
        return figure.empty_figure(title, f"{panel.title}: not sampled of these disks.")
    thinned = any(rows.buckets.every > 1 for rows in metric_rows)
    over = " over time, however many requests a second had" if metric == "await" else ""
    mean_text = f"each cell is a mean{over}; zoom in for single samples"
    layout = figure.base_layout(
        f"Each disk over the run: {panel.title[0].lower()}{panel.title[1:]} · {title}",
        f"Stronger is more, {mean_text if thinned else 'one cell per sample'}.",
        height=max(MIN_HEAT_PX, HEAT_EDGE_PX + HEAT_ROW_PX * len(disks)),
        xaxis=TIME_AXIS,
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
    values = (value for trace in data for row in trace["z"] for value in row if value is not None)
    layout["coloraxis"] = {
        "colorscale": HEAT_SCALE,
        "colorbar": {"title": {"text": "" if panel.unit == "1" else panel.unit}, "thickness": 12},
        "cmin": 0,
        # above 0, or there would be no scale
        "cmax": 100 if panel.unit == "%" else max(values, default=0.0) or 1.0,
    }
    return {"data": data, "layout": layout}


def _heat_cells(rows: MetricRows, names: Collection[str], panel: Panel) -> dict[str, Any]:
    places = [place for place, name in enumerate(rows.devices) if name in names]
    return {
        "type": "heatmap",
        "x": round_significant(rows.buckets.middles, 6),
        "y": [rows.devices[place] for place in places],
        "z": [round_significant(rows.buckets.means[place] * panel.scale) for place in places],
        "coloraxis": "coloraxis",
        "ygap": 1,
        "hovertemplate": f"%{{y}}<br>%{{x:.3~f}} s: {panel.hover.replace('%{y', '%{z')}<extra></extra>",
    }


# what stands on top: whether all disks worked
FIRST_METRIC = "util"
ROW_PX, GAP_PX, EDGE_PX = 160, 44, 150
# of the whole width
COLUMN_GAP = 0.05
# columns that are still readable
MAX_SIDES = 4


@dataclass(frozen=True, slots=True)
class Side:
    """A run. Times of its rows and windows are seconds since its own first sample.

    `medians`: (device, metric) -> over its samples, where they are wanted as numbers.
    """

    title: str
    rows: Sequence[MetricRows]
    facts: Facts
    windows: Sequence[Window] = ()
    medians: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def devices(self) -> list[StackedDevice]:
        return order_devices(active_devices(self.rows), self.facts)


@dataclass(frozen=True, slots=True)
class MedianRow:
    """Medians over the samples of one device, a cell for each run; None: it was not sampled there."""

    device: str
    metric: str
    unit: str
    medians: tuple[float | None, ...]


def shared_panels(sides: Sequence[Side]) -> list[Panel]:
    """Panels in which anything happened on any side; how busy devices were comes first."""
    active = {panel.metric for side in sides for panel in active_panels(side.rows)}
    panels = sorted(DEVICE_PANELS.values(), key=lambda panel: panel.metric != FIRST_METRIC)
    return [panel for panel in panels if panel.metric in active]


def build_side_figure(sides: Sequence[Side]) -> Figure:
    """Panel n, counted row by row, has the axes n and, for its heading, annotation n."""
    names = [side.title.partition(",")[0] for side in sides]
    title = " beside ".join(names)
    panels = shared_panels(sides)
    if not panels:
        return figure.empty_figure(title, "No device did any I/O while these runs were measured.")
    inside = len(panels) * ROW_PX + (len(panels) - 1) * GAP_PX
    layout = figure.base_layout(
        f"Devices side by side · {title}",
        "Each run from its own first sample; rows share a scale; zooming one chart zooms all.",
        height=inside + EDGE_PX,
        hovermode="x",
        hoversubplots="axis",
        annotations=[],
        shapes=[],
    )
    layout["meta"]["columns"] = len(sides)
    layout["legend"]["y"] = -72 / inside
    domains = figure.panel_domains(len(panels), GAP_PX / inside)
    for row, (panel, domain) in enumerate(zip(panels, domains, strict=True)):
        last = row == len(panels) - 1
        for column, name in enumerate(names):
            _add_side_axes(layout, panel, domain, (row, column, len(sides)), last=last)
            start = layout["xaxis" + axis_name("", row * len(sides) + column + 1)]["domain"][0]
            heading = panel_heading(panel.title, panel.unit, start, domain[1])
            layout["annotations"].append(heading | {"text": f"{heading['text']} · {name}"})
    data: list[dict[str, Any]] = []
    looks: dict[str, palette.Style] = {}
    for column, side in enumerate(sides):
        traces, _ = device_lines(side.rows, side.devices, panels)
        for trace in traces:
            trace["showlegend"] = trace["legendgroup"] not in looks
            look = looks.setdefault(trace["legendgroup"], palette.device_style(len(looks)))
            trace["line"] |= {"color": look.colour, "dash": look.dash}
            trace["marker"] |= {"symbol": look.marker}
            number = _panel_number(trace["xaxis"], column, len(sides))
            trace |= {"xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}
        data += traces
        for shape in window_bands(side.windows, len(panels), side.rows):
            number = _panel_number(shape["xref"], column, len(sides))
            places = {"xref": axis_name("x", number), "yref": f"{axis_name('y', number)} domain"}
            layout["shapes"].append(shape | places)
    return {"data": data, "layout": layout}


def _panel_number(axis: str, column: int, columns: int) -> int:
    """Number of the panel in this column of the row that alone would have the axis "x", "x2", …"""
    row = int(axis[1:] or 1) - 1
    return row * columns + column + 1


def _add_side_axes(
    layout: dict[str, Any],
    panel: Panel,
    domain: Sequence[float],
    place: tuple[int, int, int],
    *,
    last: bool,
) -> None:
    row, column, columns = place
    number = row * columns + column + 1
    width = (1 - COLUMN_GAP * (columns - 1)) / columns
    start = column * (width + COLUMN_GAP)
    layout["xaxis" + axis_name("", number)] = {
        "domain": [start, start + width],
        "anchor": axis_name("y", number),
        "zeroline": False,
        "showticklabels": last,
        "title": {"text": "Seconds since the first sample" if last else ""},
        **({"matches": "x"} if number > 1 else {}),
    }
    layout["yaxis" + axis_name("", number)] = {
        "domain": list(domain),
        "anchor": axis_name("x", number),
        **figure.tick_format(panel.unit),
        "rangemode": "tozero",
        "zeroline": False,
        "nticks": 5,
        **({"matches": axis_name("y", row * columns + 1)} if column else {}),
    }


def median_rows(sides: Sequence[Side]) -> list[MedianRow]:
    """The same as numbers."""
    names = dict.fromkeys(device.name for side in sides for device in side.devices)
    table: list[MedianRow] = []
    for panel in shared_panels(sides):
        for name in names:
            medians = [side.medians.get((name, panel.metric)) for side in sides]
            if any(value is not None for value in medians):
                scaled = tuple(None if v is None else v * panel.scale for v in medians)
                table.append(MedianRow(name, panel.title, panel.unit, scaled))
    return table


def track_medians(tracks: Iterable[Track]) -> dict[tuple[str, str], float]:
    """Medians of each device and metric that a sample is known of."""
    medians = {}
    for track in tracks:
        values = [value for value in map(float, track.values) if not math.isnan(value)]
        if track.metric in DEVICE_PANELS and values:
            medians[track.device, track.metric] = median_of(values)
    return medians


@require_GET
def side_page(request: HttpRequest) -> HttpResponse:
    """?run=1&run=2"""
    attempts = _requested_attempts(request)
    sides = [_read_side(attempt, numbers=True) for attempt in attempts]
    pairs = list(zip(attempts, sides, strict=True))
    query = "&".join(f"run={attempt.run_id}" for attempt in attempts)
    context = {
        "attempts": attempts,
        "sides": sides,
        "rows": median_rows(sides),
        "whole": [
            attempt for attempt, side in pairs if side.rows and not measured_windows(side.windows)
        ],
        "without": [attempt for attempt, side in pairs if not side.rows],
        "figure_url": f"{reverse('run-side-figure')}?{query}",
    }
    return render(request, "charts/side_by_side.html", context)


@require_GET
def side_figure(request: HttpRequest) -> HttpResponse:
    return figure_response(
        build_side_figure([_read_side(attempt) for attempt in _requested_attempts(request)])
    )


def _requested_attempts(request: HttpRequest) -> list[Attempt]:
    """The last try that succeeded of each run, in the order of the address. Raises BadRequest and Http404."""
    run_ids = list(dict.fromkeys(request_params.id_parameters(request.GET, "run")))
    if len(run_ids) > MAX_SIDES:
        raise BadRequest(
            f"run: {len(run_ids)} runs; at most {MAX_SIDES} have room beside each other"
        )
    rows = (
        Attempt.objects.visible_to(request.user)
        .filter(run__in=run_ids, outcome=Outcome.SUCCEEDED)
        .select_related("facts", "run__campaign", "run__topology", "run__workload")
        .order_by("run_id", "-number")
        .distinct("run_id")
    )
    by_run = {row.run_id: row for row in rows}
    if missing := [pk for pk in run_ids if pk not in by_run]:
        raise Http404(f"There is no run {missing[0]} that has succeeded.")
    return [by_run[pk] for pk in run_ids]


def _read_side(attempt: Attempt, *, numbers: bool = False) -> Side:
    windows = read_windows(attempt)
    side = Side(
        attempt_title(attempt),
        read_rows(attempt, DEVICE_PANELS, WHOLE_SPAN),
        attempt_facts(attempt),
        windows,
    )
    if not numbers:
        return side
    tracks, measured = iterate_tracks(attempt), measured_windows(windows)
    return replace(
        side, medians=track_medians(cut_tracks(tracks, measured) if measured else tracks)
    )
