# SPDX-License-Identifier: Apache-2.0
"""Two runs or more, their devices beside each other."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.charts import devices, request_params, side_by_side, windows
from benchlab.charts.figure import figure_json
from benchlab.charts.figure_views import attempt_title
from benchlab.charts.sampled import iterate_tracks, read_rows, read_windows
from benchlab.charts.side_by_side import Side
from benchlab.charts.spans import WHOLE_SPAN
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome

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
        "rows": side_by_side.median_rows(sides),
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
    drawing = side_by_side.build_side_figure(
        [_read_side(attempt) for attempt in _requested_attempts(request)]
    )
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
    sampled = read_rows(attempt, devices.DEVICE_PANELS, WHOLE_SPAN)
    marks = read_windows(attempt)
    measured = windows.measured_tracks(iterate_tracks(attempt), marks) if numbers else ()
    return Side(attempt_title(attempt), sampled, facts, marks, side_by_side.track_medians(measured))
