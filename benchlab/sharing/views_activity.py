# SPDX-License-Identifier: Apache-2.0
"""Activity in one's teams, page by page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from benchlab.sharing import activity as feed
from benchlab.web.pages import MAX_ROWS, BoundedPaginator

PER_PAGE = 50


@require_GET
def activity(request: HttpRequest) -> HttpResponse:
    rows = feed.newest_rows(request.user, MAX_ROWS + 1)
    page = BoundedPaginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "events": feed.page_events(request.user, list(page.object_list))}
    return render(request, "sharing/activity.html", context)
