# SPDX-License-Identifier: Apache-2.0
"""Pages of what is stored: the reference library, and the files that imported results came in."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign, Origin
from benchlab.imports.models import Source
from benchlab.web import lists

# By the word that the list's address has for each column; of every article the same.
COLUMNS = {
    "campaign": lists.name_column("Campaign"),
    "results": lists.sort_column("Results", "results", "num"),
    "actions": lists.SortColumn("Actions"),
}
FINDS = ("name", "question", "origin__title", "origin__author")


@dataclass(frozen=True, slots=True)
class Publication:
    """Campaigns of one publication, by their origin."""

    origin: Origin
    campaigns: list[Campaign]

    @property
    def compare(self) -> str:
        query = urlencode([("campaign", row.pk) for row in self.campaigns])
        return f"{reverse('compare')}?{query}"


@require_GET
def library(request: HttpRequest) -> HttpResponse:
    rows = (
        Campaign.objects.visible_to(request.user)
        .filter(source=Campaign.Source.LIBRARY)
        .annotate(results=Count("runs"))
        .order_by("pk")
    )
    listed = lists.filter_rows(request, rows, COLUMNS, FINDS)
    articles: dict[str, Publication] = {}
    for row in listed.rows:
        origin = Origin.from_campaign(row)
        key = origin.url or origin.title or row.name
        articles.setdefault(key, Publication(origin, [])).campaigns.append(row)
    publications = sorted(
        articles.values(),
        key=lambda publication: (publication.origin.date, publication.origin.title),
    )
    return render(request, "imports/library.html", {"articles": publications, "listed": listed})


@require_GET
def source_download(request: HttpRequest, pk: int) -> HttpResponse:
    """Byte for byte as it came. A browser saves it and never guesses a type."""
    row = get_object_or_404(Source.objects.visible_to(request.user), pk=pk)
    answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
    answer["Content-Disposition"] = content_disposition_header(True, row.name) or "attachment"
    answer["X-Content-Type-Options"] = "nosniff"
    answer["X-Content-SHA256"] = row.sha256
    return answer
