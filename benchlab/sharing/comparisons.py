# SPDX-License-Identifier: Apache-2.0
"""Comparisons: their query in its stored form, and saved views, which are comparisons under a name.

A canonical query has only what Explore and the compare page know, in a fixed order.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from benchlab.audit import request_notes
from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.explore import factors as explore
from benchlab.sharing.discussion import SPACES, may_delete
from benchlab.sharing.models import MOST_QUERY, SavedView
from benchlab.team.models import Team
from benchlab.team.services import Person, owning_team, requesting_user
from benchlab.web import lists
from benchlab.web.texts import clean_text


def canonical(query: str) -> str:
    """Return the canonical query. Raises ValidationError without a campaign, or for a word that neither page knows."""
    try:
        params = QueryDict(query.removeprefix("?"))
        lines, metric = request_params.line_filter(params), request_params.requested_metric(params)
        explored = explore.parse_explore_query(params).query_string()
    except BadRequest as error:
        raise ValidationError(str(error)) from None
    except (ValueError, UnicodeError):
        # more fields than Django reads
        raise ValidationError("That is not the query of a comparison.") from None
    if not lines.campaigns:
        raise ValidationError("Choose the campaigns to compare first.")
    parts = [lines.full_query(), urlencode({"metric": metric}) if metric else "", explored]
    text = "&".join(filter(None, parts))
    if len(text) > MOST_QUERY:
        raise ValidationError("That comparison has too many parts to be saved.")
    return text


def is_explored(query: str) -> bool:
    """True if a canonical query has axes, lines or filters, which Explore shows and no guest's page."""
    return explore.is_explore_query(QueryDict(query))


def view_url(query: str) -> str:
    """Return the URL that shows a canonical query."""
    return f"{reverse('explore' if is_explored(query) else 'compare')}?{query}"


def campaigns_of(user: Person, query: str) -> list[Campaign]:
    """Return every campaign of a canonical query. Raises ValidationError if the user does not see one of them."""
    pks = set(request_params.line_filter(QueryDict(query)).campaigns)
    campaigns = list(Campaign.objects.visible_to(user).select_related("team").filter(pk__in=pks))
    if missing := sorted(pks - {row.pk for row in campaigns}):
        raise ValidationError(f"There is no campaign {missing[0]} that you may share or save.")
    return campaigns


def comparison_team(campaigns: list[Campaign], otherwise: Team) -> Team:
    """Return the team of the campaigns; the library's belong to everybody. Raises ValidationError for several teams."""
    teams = {row.team_id: row.team for row in campaigns if not row.team.library}
    if len(teams) > 1:
        names = " and ".join(sorted(team.name for team in teams.values()))
        raise ValidationError(f"What is kept belongs to one team; these campaigns are of {names}.")
    return next(iter(teams.values()), otherwise)


def delete_view(view: SavedView, by: AbstractBaseUser) -> None:
    """Delete a view. Raises PermissionDenied if it is somebody else's and the person is no owner."""
    if not may_delete(by, view.by_id, view.team_id):
        raise PermissionDenied("Only its author, or an owner of the team, may delete a saved view.")
    view.delete()


def save_view(
    user: AbstractBaseUser, team: Team, name: str, query: str, for_team: bool
) -> SavedView:
    """Save a canonical `query`; it replaces the person's own view of that name. Raises ValidationError."""
    view, _ = SavedView.objects.update_or_create(
        team=team,
        by_id=user.pk,
        name=clean_text(SPACES.sub(" ", name), 100),
        defaults={"query": query, "for_team": for_team},
    )
    return view


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
    rows = [(row, view_url(row.query), is_explored(row.query)) for row in listed.rows]
    return render(request, "sharing/views.html", {"rows": rows, "listed": listed})


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """`query` is Explore's or the compare page's; `whose`: "team" or "mine"."""
    query = request.POST.get("query", "")
    try:
        query = canonical(query)
        team = comparison_team(campaigns_of(request.user, query), owning_team(request.user))
        view = save_view(
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
    return redirect(view_url(query) if query else "explore")


@require_POST
def view_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(SavedView.objects.for_user(request.user), pk=pk)
    delete_view(row, requesting_user(request))
    return redirect("view-list")
