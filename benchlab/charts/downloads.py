"""Raw outputs byte for byte, and the numbers behind each chart as CSV."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.charts import asked, tables
from benchlab.charts.figures import tracks_of
from benchlab.charts.queries import groups
from benchlab.runs.models import Artifact, Attempt


@require_GET
def artifact(request: HttpRequest, pk: int) -> HttpResponse:
    """As the host gave it. A browser saves it and never guesses a type."""
    return artifact_file(get_object_or_404(Artifact.objects.visible_to(request.user), pk=pk))


def artifact_file(row: Artifact) -> HttpResponse:
    raw = bytes(row.content)
    kind = "application/octet-stream" if b"\0" in raw[:4096] else "text/plain; charset=utf-8"
    answer = _attachment(raw, kind, f"attempt-{row.attempt_id}-{row.name}")
    answer["X-Content-Type-Options"] = "nosniff"
    answer["X-Content-SHA256"] = row.sha256
    return answer


@require_GET
def campaign_csv(request: HttpRequest, pk: int) -> HttpResponse:
    """One row per run that succeeded."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    found = asked.lines(request.GET).keep(groups(request.user, [campaign.pk]))
    return csv_file(tables.campaign_csv(found), f"campaign-{campaign.pk}.csv")


@require_GET
def compare_csv(request: HttpRequest) -> HttpResponse:
    wanted = asked.lines(request.GET)
    found = wanted.keep(groups(request.user, wanted.campaigns))
    return csv_file(tables.campaign_csv(found), "compare.csv")


@require_GET
def attempt_series_csv(request: HttpRequest, pk: int) -> HttpResponse:
    """Every sample of every device, not thinned."""
    attempt = get_object_or_404(Attempt.objects.visible_to(request.user), pk=pk)
    return csv_file(tables.series_csv(tracks_of(attempt)), f"attempt-{attempt.pk}-series.csv")


def csv_file(text: str, name: str) -> HttpResponse:
    return _attachment(text.encode(), "text/csv; charset=utf-8", name)


def _attachment(raw: bytes, kind: str, name: str) -> HttpResponse:
    answer = HttpResponse(raw, content_type=kind)
    answer["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return answer
