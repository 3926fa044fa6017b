# SPDX-License-Identifier: Apache-2.0
"""The page of a set-up's history, and its figure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.analysis.curves import median_of
from benchlab.analysis.formats import shown_unit
from benchlab.analysis.splits import LEAST
from benchlab.campaigns.models import Run
from benchlab.charts import figure, metric_naming, request_params
from benchlab.charts.figure import Figure, figure_json, run_url
from benchlab.charts.history import (
    FINGERPRINT_PARTS,
    MAX_HISTORY_RUNS,
    History,
    HistoryChange,
    HistoryRun,
    read_history,
)
from benchlab.charts.palette import device_style
from benchlab.web.units import si

LEVEL_NAME = "median between confirmed and possible changes"
CONFIRMED_NAME, POSSIBLE_NAME = "change", "possible change"
UNUSUAL_NAME = "stands out from the runs before it"
IGNORED_CHANGE_NAME = "the ignored property changes here"


def build_history_figure(title: str, history: History) -> Figure:
    """Runs in order, not by the clock: weeks without a run would press those of one night together."""
    word, unit = metric_naming.metric_word(history.metric), shown_unit(history.metric, history.unit)
    if not history.runs:
        return figure.empty_figure(title, f"No run of this set-up measured {word}.")
    top = max(run.value for run in history.runs) * 1.08
    data = [
        _level_lines(history),
        *_change_lines(history, top),
        *_ignored_change_lines(history, top),
        _run_dots(history, unit),
    ]
    if history.unusual:
        data.append(_unusual_rings(history))
    many = len(history.runs)
    layout = figure.base_layout(
        f"{word} over time · {title}",
        f"Dot: one of {many} run{'' if many == 1 else 's'}, a click opens it. Line: median of a stretch.",
        height=460,
        xaxis=_run_axis(history),
        yaxis=figure.value_axis(word, unit),
    )
    layout["legend"]["y"] = -0.24
    return {"data": data, "layout": layout}


def _run_axis(history: History) -> dict[str, Any]:
    """Runs by number; at some of them stands when they ran."""
    every = max(1, -(-len(history.runs) // 8))
    at = list(range(0, len(history.runs), every))
    return {
        "title": {"text": "Runs in the order of time (UTC)"},
        "tickmode": "array",
        "tickvals": [index + 1 for index in at],
        "ticktext": [f"{history.runs[index].at:%Y-%m-%d}" for index in at],
        "range": [0, len(history.runs) + 1],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _run_dots(history: History, unit: str) -> dict[str, Any]:
    look = device_style(0)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "run",
        "showlegend": False,
        "x": list(range(1, len(history.runs) + 1)),
        "y": [run.value for run in history.runs],
        "marker": {"color": look.colour, "symbol": look.marker, "size": 7},
        "customdata": [[run_url(run.run)] for run in history.runs],
        "text": [_run_hover(run, unit) for run in history.runs],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _run_hover(run: HistoryRun, unit: str) -> str:
    part = f"<br>{run.ignored_value}" if run.ignored_value else ""
    return (
        f"{run.at:%Y-%m-%d %H:%M} UTC<br>{run.campaign_name}, repeat {run.repeat}: "
        f"<b>{si(run.value, unit)}</b>{part}<br>run {run.run} · click opens it"
    )


def _level_lines(history: History) -> dict[str, Any]:
    edges = [0, *(change.at for change in history.changes), len(history.runs)]
    x: list[float | None] = []
    y: list[float | None] = []
    for begin, end in pairwise(edges):
        level = median_of([run.value for run in history.runs[begin:end]])
        x += [begin + 0.6, end + 0.4, None]
        y += [level, level, None]
    line = {"color": device_style(0).faded(0.6), "width": 2}
    return _history_trace(LEVEL_NAME, x, y, line) | {"showlegend": bool(history.changes)}


def _change_lines(history: History, top: float) -> list[dict[str, Any]]:
    return [
        trace
        for name, confirmed in ((CONFIRMED_NAME, True), (POSSIBLE_NAME, False))
        if (
            steps := [
                change for change in history.history_changes if change.change.confirmed is confirmed
            ]
        )
        for trace in [_vertical_lines(name, steps, top, confirmed=confirmed)]
    ]


def _vertical_lines(
    name: str, steps: list[HistoryChange], top: float, *, confirmed: bool
) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str] = []
    for step in steps:
        at = step.change.at + 0.5
        sign = "+" if step.change.ratio > 1 else "−"
        x += [at, at, None]
        y += [0, top, None]
        text += ["", f"{sign}{step.change_percent} %", ""]
    colour = device_style(1).colour
    line = {
        "color": colour,
        "width": 2 if confirmed else 1.5,
        "dash": "solid" if confirmed else "dot",
    }
    return _history_trace(name, x, y, line) | {
        "mode": "lines+text",
        "text": text,
        "textposition": "top center",
        "textfont": {"color": colour, "size": 11},
        "cliponaxis": False,
    }


def _ignored_change_lines(history: History, top: float) -> list[dict[str, Any]]:
    """Lines where the part that was let go becomes another, whether anything changed there or not."""
    at = [
        n
        for n in range(1, len(history.runs))
        if history.runs[n].ignored_value != history.runs[n - 1].ignored_value
    ]
    if not at:
        return []
    x = [value for n in at for value in (n + 0.5, n + 0.5, None)]
    y = [value for _ in at for value in (0, top * 0.94, None)]
    return [
        _history_trace(
            IGNORED_CHANGE_NAME,
            x,
            y,
            {"color": device_style(2).colour, "width": 1.5, "dash": "dashdot"},
        )
    ]


def _unusual_rings(history: History) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": UNUSUAL_NAME,
        "x": [outlier.at + 1 for outlier in history.unusual],
        "y": [history.runs[outlier.at].value for outlier in history.unusual],
        "marker": {
            "symbol": "circle-open",
            "size": 15,
            "color": device_style(1).colour,
            "line": {"width": 1.5},
        },
        "hoverinfo": "skip",
    }


def _history_trace(name: str, x: list[Any], y: list[Any], line: dict[str, Any]) -> dict[str, Any]:
    look = {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip"}
    return {"name": name, "x": x, "y": y, **look}


@require_GET
def run_history(request: HttpRequest, pk: int) -> HttpResponse:
    """Every run of this run's set-up. ?metric= chooses what; ?without= lets one part of the fingerprint go."""
    run, history = _requested_history(request, pk)
    query = urlencode({"metric": history.metric, "without": history.ignored_part})
    context = {
        "run": run,
        "history": history,
        "metrics": [(metric, metric_naming.metric_word(metric)) for metric in history.metrics],
        "word": metric_naming.metric_word(history.metric),
        "unit": shown_unit(history.metric, history.unit),
        "parts": FINGERPRINT_PARTS.items(),
        "let_go": FINGERPRINT_PARTS.get(history.ignored_part, ""),
        "newest_first": _run_rows(history)[::-1],
        "figure_url": f"{reverse('run-history-figure', args=[run.pk])}?{query}",
        "enough": 2 * LEAST,
        "most": MAX_HISTORY_RUNS,
    }
    return render(request, "charts/history.html", context)


def _run_rows(history: History) -> list[tuple[HistoryRun, float | None]]:
    """(run, robust z of one that stands out)."""
    stand_out = {outlier.at: outlier.z for outlier in history.unusual}
    return [(run, stand_out.get(at)) for at, run in enumerate(history.runs)]


@require_GET
def run_history_figure(request: HttpRequest, pk: int) -> HttpResponse:
    run, history = _requested_history(request, pk)
    title = f"{run.topology} · {run.workload}"
    answer = HttpResponse(
        figure_json(build_history_figure(title, history)),
        content_type="application/json",
    )
    answer["Cache-Control"] = "no-cache"
    return answer


def _requested_history(request: HttpRequest, pk: int) -> tuple[Run, History]:
    rows = Run.objects.visible_to(request.user)
    run = get_object_or_404(rows.select_related("campaign", "host", "topology", "workload"), pk=pk)
    metric = request_params.requested_metric(request.GET)
    if "*" in metric:
        raise BadRequest(f"metric: {metric!r} is a family; name one of its metrics")
    let_go = request.GET.get("without", "")
    if let_go and let_go not in FINGERPRINT_PARTS:
        raise BadRequest(f"without: {let_go[:100]!r} is none of {', '.join(FINGERPRINT_PARTS)}")
    return run, read_history(request.user, run, metric, let_go)
