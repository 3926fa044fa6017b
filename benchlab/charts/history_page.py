# SPDX-License-Identifier: Apache-2.0
"""The page of a set-up's history, and its figure."""

from __future__ import annotations

from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.analysis.rate_words import shown_unit
from benchlab.analysis.splits import LEAST
from benchlab.campaigns.models import Run
from benchlab.charts import history_figure, naming, request_params
from benchlab.charts.figure import figure_json
from benchlab.charts.history import History, HistoryRun, read_history
from benchlab.charts.set_ups import FINGERPRINT_PARTS, MAX_HISTORY_RUNS


@require_GET
def run_history(request: HttpRequest, pk: int) -> HttpResponse:
    """Every run of this run's set-up. ?metric= chooses what; ?without= lets one part of the fingerprint go."""
    run, history = _requested_history(request, pk)
    query = urlencode({"metric": history.metric, "without": history.ignored_part})
    context = {
        "run": run,
        "history": history,
        "metrics": [(metric, naming.metric_word(metric)) for metric in history.metrics],
        "word": naming.metric_word(history.metric),
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
        figure_json(history_figure.build_history_figure(title, history)),
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
