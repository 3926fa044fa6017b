# SPDX-License-Identifier: Apache-2.0
"""Saved views: a comparison under a name, one's own or the team's."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from benchlab.audit import request_notes
from benchlab.sharing import queries
from benchlab.sharing.models import SavedView
from benchlab.team.services import owning_team, requesting_user
from benchlab.web import lists

# By the word that the list's address has for each column.
COLUMNS = {
    "name": lists.name_column(),
    "team": lists.name_column("Team", "team__name"),
    "who": lists.sort_column("Who sees it", "for_team"),
    "saved": lists.sort_column("Saved (UTC)", "created_at"),
    "actions": lists.SortColumn("Actions"),
}
FINDS = ("name", "team__name", "by__username")


@require_GET
def view_list(request: HttpRequest) -> HttpResponse:
    views = SavedView.objects.for_user(request.user).select_related("by", "team")
    listed = lists.filter_rows(request, views, COLUMNS, FINDS)
    rows = [
        (row, queries.view_url(row.query), queries.is_explored(row.query)) for row in listed.rows
    ]
    return render(request, "sharing/views.html", {"rows": rows, "listed": listed})


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """`query` is Explore's or the compare page's; `whose`: "team" or "mine"."""
    query = request.POST.get("query", "")
    try:
        query = queries.canonical(query)
        team = queries.comparison_team(
            queries.campaigns_of(request.user, query), owning_team(request.user)
        )
        view = queries.save_view(
            requesting_user(request),
            team,
            request.POST.get("name", ""),
            query,
            request.POST.get("whose") != "mine",
        )
        request_notes.note_subject(request, team.pk, f"view {view}")
        messages.success(request, f"Saved as {view.name}.")
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
    return redirect(queries.view_url(query) if query else "explore")


@require_POST
def view_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(SavedView.objects.for_user(request.user), pk=pk)
    queries.delete_view(row, requesting_user(request))
    return redirect("view-list")
