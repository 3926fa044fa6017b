# SPDX-License-Identifier: Apache-2.0
"""A comparison's query as it is kept: only what Explore and the compare page know, in one order."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.http import QueryDict
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.explore import query as wish
from benchlab.sharing.discussion import SPACES, may_delete
from benchlab.sharing.models import MOST_QUERY, SavedView
from benchlab.team.models import Team
from benchlab.web.written_text import clean_text

Person = AbstractBaseUser | AnonymousUser


def canonical(query: str) -> str:
    """Raises ValidationError: no campaign, or a word that neither Explore nor the compare page knows."""
    try:
        params = QueryDict(query.removeprefix("?"))
        lines, metric = request_params.line_filter(params), request_params.requested_metric(params)
        explored = wish.parse_explore_query(params).query_string()
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
    """True when a canonical query says anything of axes, lines or filters, which Explore shows and no guest's page."""
    return wish.is_explore_query(QueryDict(query))


def view_url(query: str) -> str:
    """Address that shows a canonical query."""
    return f"{reverse('explore' if is_explored(query) else 'compare')}?{query}"


def campaigns_of(user: Person, query: str) -> list[Campaign]:
    """Every campaign of a canonical query. Raises ValidationError: one that the user does not see."""
    pks = set(request_params.line_filter(QueryDict(query)).campaigns)
    campaigns = list(Campaign.objects.visible_to(user).select_related("team").filter(pk__in=pks))
    if missing := sorted(pks - {row.pk for row in campaigns}):
        raise ValidationError(f"There is no campaign {missing[0]} that you may share or save.")
    return campaigns


def comparison_team(campaigns: list[Campaign], otherwise: Team) -> Team:
    """The one team that they are of; the library's are everybody's. Raises ValidationError: of several."""
    teams = {row.team_id: row.team for row in campaigns if not row.team.library}
    if len(teams) > 1:
        names = " and ".join(sorted(team.name for team in teams.values()))
        raise ValidationError(f"What is kept belongs to one team; these campaigns are of {names}.")
    return next(iter(teams.values()), otherwise)


def delete_view(view: SavedView, by: AbstractBaseUser) -> None:
    """Raises PermissionDenied: it is somebody else's, and they are no owner."""
    if not may_delete(by, view.by_id, view.team_id):
        raise PermissionDenied("Only its author, or an owner of the team, may delete a saved view.")
    view.delete()


def save_view(
    user: AbstractBaseUser, team: Team, name: str, query: str, for_team: bool
) -> SavedView:
    """`query` canonical. One's own of the same name is replaced. Raises ValidationError."""
    view, _ = SavedView.objects.update_or_create(
        team=team,
        by_id=user.pk,
        name=clean_text(SPACES.sub(" ", name), 100),
        defaults={"query": query, "for_team": for_team},
    )
    return view
