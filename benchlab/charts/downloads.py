# SPDX-License-Identifier: Apache-2.0
"""Raw outputs byte for byte, and the numbers behind each chart as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET
from rest_framework.exceptions import Throttled

from benchlab.campaigns.models import Campaign
from benchlab.charts import latency_distributions, request_params, tables
from benchlab.charts.queries import read_groups
from benchlab.charts.sampled_tracks import iterate_tracks
from benchlab.results.answers import table_response
from benchlab.runs.models import Artifact, Attempt

CSV = "text/csv; charset=utf-8"


@require_GET
def artifact(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Return the artifact as the host delivered it. A browser saves it and never guesses its type."""
    return artifact_response(
        request, get_object_or_404(Artifact.objects.visible_to(request.user), pk=pk)
    )


def artifact_response(request: HttpRequest, row: Artifact) -> HttpResponseBase:
    """Send a large artifact in parts, as fast as the client reads; 429 during too many downloads."""
    first = next(row.pieces(), b"")
    kind = "application/octet-stream" if b"\0" in first[:4096] else "text/plain; charset=utf-8"
    name = f"attempt-{row.attempt_id}-{row.name}"
    response = (
        _attachment(row.read(), kind, name)
        if row.is_small
        else streamed_response(request, row.pieces, kind, name)
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Content-SHA256"] = row.sha256
    return response


@require_GET
def campaign_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One row per run that succeeded."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    groups = request_params.line_filter(request.GET).select(
        read_groups(request.user, [campaign.pk])
    )
    return csv_response(
        request, lambda: tables.campaign_csv_lines(groups), f"campaign-{campaign.pk}.csv"
    )


@require_GET
def compare_csv(request: HttpRequest) -> HttpResponseBase:
    line_filter = request_params.line_filter(request.GET)
    groups = line_filter.select(read_groups(request.user, line_filter.campaigns))
    return csv_response(request, lambda: tables.campaign_csv_lines(groups), "compare.csv")


@require_GET
def attempt_series_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every sample of every device, not thinned."""
    attempt = get_object_or_404(Attempt.objects.visible_to(request.user), pk=pk)
    name = f"attempt-{attempt.pk}-series.csv"
    return csv_response(request, lambda: tables.series_csv_lines(iterate_tracks(attempt)), name)


@require_GET
def attempt_histogram_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every bin of every latency."""
    attempt = get_object_or_404(Attempt.objects.visible_to(request.user), pk=pk)
    histograms = latency_distributions.read_histograms([attempt.pk])[attempt.pk]
    name = f"attempt-{attempt.pk}-histogram.csv"
    return csv_response(request, lambda: latency_distributions.histogram_csv(histograms), name)


def csv_response(
    request: HttpRequest, make_lines: Callable[[], Iterator[str]], name: str
) -> HttpResponseBase:
    """Send the lines that `made()` yields in parts, as fast as the client reads; 429 during too many downloads."""
    return streamed_response(request, lambda: map(str.encode, make_lines()), CSV, name)


def streamed_response(
    request: HttpRequest, make_parts: Callable[[], Iterator[bytes]], kind: str, name: str
) -> HttpResponseBase:
    """Send what `made()` yields in parts, as fast as the client reads; 429 during too many downloads."""
    try:
        return table_response(request, make_parts, kind, name)
    except Throttled as busy:
        wait = {"Retry-After": str(int(getattr(busy, "wait", None) or 1))}
        return HttpResponse(f"{busy.detail}\n", "text/plain", 429, headers=wait)


def _attachment(raw: bytes, kind: str, name: str) -> HttpResponseBase:
    response = HttpResponse(raw, content_type=kind)
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
