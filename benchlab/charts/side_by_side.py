# SPDX-License-Identifier: Apache-2.0
"""Devices of several runs side by side, a column for each run, on one scale per row and one time axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from agents.contracts import Window
from benchlab.analysis.curves import median_of
from benchlab.charts import device_figures, figure, palette, request_params, sampled_tracks
from benchlab.charts.attempt_samples import iterate_tracks, read_rows, read_windows
from benchlab.charts.device_figures import DEVICE_PANELS, active_devices
from benchlab.charts.device_work import order_devices
from benchlab.charts.figure import Figure, axis_name, figure_json
from benchlab.charts.figure_views import attempt_title
from benchlab.charts.panels import Panel, any_above_zero, device_lines, window_bands
from benchlab.charts.sampled_tracks import WHOLE_SPAN, Track
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.runs.strips import MetricRows

# what stands on top: whether all disks worked
FIRST_METRIC = "util"
ROW_PX, GAP_PX, EDGE_PX = 160, 44, 150


@dataclass(frozen=True, slots=True)
class Side:
    """A run. Times of its rows and windows are seconds since its own first sample.

    `medians`: (device, metric) -> over its samples, where they are wanted as numbers.
    """

    title: str
    rows: Sequence[MetricRows]
    facts: Mapping[str, Any]
    windows: Sequence[Window] = ()
    medians: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MedianRow:
    """Medians over the samples of one device, a cell for each run; None: it was not sampled there."""

    device: str
    metric: str
    unit: str
    medians: tuple[float | None, ...]


def shared_panels(sides: Sequence[Side]) -> list[Panel]:
    """Panels in which anything happened on any side; how busy devices were comes first."""
    names = sorted(DEVICE_PANELS, key=lambda name: name != FIRST_METRIC)
    return [
        Panel(name, *DEVICE_PANELS[name], 100.0 if DEVICE_PANELS[name][1] == "%" else 1.0)
        for name in names
        if any(any_above_zero(side.rows, name) for side in sides)
    ]


def build_side_figure(sides: Sequence[Side]) -> Figure:
    title = " beside ".join(side.title.partition(",")[0] for side in sides)
    panels = shared_panels(sides)
    if not panels:
        return figure.empty_figure(title, "No device did any I/O while these runs were measured.")
    columns, inside = len(sides), len(panels) * ROW_PX + (len(panels) - 1) * GAP_PX
    layout = figure.base_layout(
        f"Devices side by side · {title}",
        "Each run from its own first sample; rows share a scale; zooming one chart zooms all.",
        height=inside + EDGE_PX,
        hovermode="x",
        hoversubplots="axis",
    )
    layout["meta"]["columns"] = columns
    layout["legend"]["y"] = -72 / inside
    layout["annotations"], layout["shapes"] = [], []
    _side_axes(layout, sides, panels, figure.panel_domains(len(panels), GAP_PX / inside))
    data: list[dict[str, Any]] = []
    looks: dict[str, palette.Style] = {}
    for column, side in enumerate(sides):
        traces, _ = device_lines(
            side.rows, order_devices(active_devices(side.rows), side.facts), panels
        )
        for trace in traces:
            fresh = trace["legendgroup"] not in looks
            look = looks.setdefault(trace["legendgroup"], palette.device_style(len(looks)))
            trace["showlegend"] = fresh
            trace["line"] |= {"color": look.colour, "dash": look.dash}
            trace["marker"] |= {"symbol": look.marker}
            row = int(trace["xaxis"][1:] or 1) - 1
            for letter in "xy":
                trace[f"{letter}axis"] = axis_name(letter, row * columns + column + 1)
        data += traces
        for shape in window_bands(side.windows, len(panels), side.rows):
            row = int(shape["xref"][1:] or 1) - 1
            number = row * columns + column + 1
            places = {"xref": axis_name("x", number), "yref": f"{axis_name('y', number)} domain"}
            layout["shapes"].append(shape | places)
    return {"data": data, "layout": layout}


def _side_axes(
    layout: dict[str, Any],
    sides: Sequence[Side],
    panels: Sequence[Panel],
    domains: Sequence[Sequence[float]],
) -> None:
    """Panel n of the figure has the axes n and, for its heading, annotation n."""
    columns = len(sides)
    width = (1 - 0.05 * (columns - 1)) / columns
    for row, panel in enumerate(panels):
        for column, side in enumerate(sides):
            number = row * columns + column + 1
            start, last = column * (width + 0.05), row == len(panels) - 1
            layout["xaxis" + axis_name("", number)] = {
                "domain": [start, start + width],
                "anchor": axis_name("y", number),
                "zeroline": False,
                "showticklabels": last,
                "title": {"text": "Seconds since the first sample" if last else ""},
                **({"matches": "x"} if number > 1 else {}),
            }
            layout["yaxis" + axis_name("", number)] = {
                "domain": list(domains[row]),
                "anchor": axis_name("x", number),
                **figure.tick_format(panel.unit),
                "rangemode": "tozero",
                "zeroline": False,
                "nticks": 5,
                **({"matches": axis_name("y", row * columns + 1)} if column else {}),
            }
            unit = "" if panel.unit == "1" else f" {panel.unit}"
            layout["annotations"].append(
                {
                    "text": f"<b>{panel.title}</b>{unit} · {side.title.partition(',')[0]}",
                    "x": start,
                    "y": domains[row][1],
                    "xref": "paper",
                    "yref": "paper",
                    "xanchor": "left",
                    "yanchor": "bottom",
                    "showarrow": False,
                    "font": {"size": 12},
                }
            )


def median_rows(sides: Sequence[Side]) -> list[MedianRow]:
    """The same as numbers."""
    table: list[MedianRow] = []
    names = dict.fromkeys(
        placed.name
        for side in sides
        for placed in order_devices(active_devices(side.rows), side.facts)
    )
    for panel in shared_panels(sides):
        unit = "1" if panel.unit == "%" else panel.unit
        for name in names:
            medians = tuple(side.medians.get((name, panel.metric)) for side in sides)
            if any(value is not None for value in medians):
                scaled = tuple(None if v is None else v * panel.scale for v in medians)
                unit_text = "%" if panel.unit == "%" else unit
                table.append(MedianRow(name, panel.title, unit_text, scaled))
    return table


def track_medians(tracks: Iterable[Track]) -> dict[tuple[str, str], float]:
    """Medians of each device and metric that a sample is known of."""
    medians = {}
    for track in tracks:
        values = [value for value in map(float, track.values) if not math.isnan(value)]
        if track.metric in DEVICE_PANELS and values:
            medians[track.device, track.metric] = median_of(values)
    return medians


# columns that are still readable
MAX_SIDES = 4


@require_GET
def side_page(request: HttpRequest) -> HttpResponse:
    """?run=1&run=2"""
    attempts = _requested_attempts(request)
    sides = [_read_side(attempt, numbers=True) for attempt in attempts]
    query = "&".join(f"run={attempt.run_id}" for attempt in attempts)
    context = {
        "attempts": attempts,
        "sides": sides,
        "rows": median_rows(sides),
        "whole": [
            attempt
            for attempt, side in zip(attempts, sides, strict=True)
            if side.rows and not any(window.measured for window in side.windows)
        ],
        "without": [
            attempt for attempt, side in zip(attempts, sides, strict=True) if not side.rows
        ],
        "figure_url": f"{reverse('run-side-figure')}?{query}",
    }
    return render(request, "charts/side_by_side.html", context)


@require_GET
def side_figure(request: HttpRequest) -> HttpResponse:
    drawing = build_side_figure([_read_side(attempt) for attempt in _requested_attempts(request)])
    answer = HttpResponse(figure_json(drawing), content_type="application/json")
    answer["Cache-Control"] = "no-cache"
    return answer


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
    facts = attempt.facts.facts if attempt.facts else {}
    sampled = read_rows(attempt, device_figures.DEVICE_PANELS, WHOLE_SPAN)
    marks = read_windows(attempt)
    measured = sampled_tracks.measured_tracks(iterate_tracks(attempt), marks) if numbers else ()
    return Side(attempt_title(attempt), sampled, facts, marks, track_medians(measured))
