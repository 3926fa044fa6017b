# SPDX-License-Identifier: Apache-2.0
"""The search's page; to htmx, which asks while one types, what was found alone."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from benchlab.pages.search import searched_kinds
from benchlab.web.lists import search_text


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    text = search_text(request)
    sections = searched_kinds.find_sections(request.user, text)
    template = "search/_found.html" if request.htmx else "search/search.html"  # type: ignore[attr-defined]
    return render(
        request, template, {"text": text, "sections": sections, "least": searched_kinds.MIN_LENGTH}
    )
