# SPDX-License-Identifier: Apache-2.0
"""{% load discussion %}{% talk campaign %}: comments on a row with forms to add more; star and share above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef
from django.http import HttpRequest

from benchlab.sharing import comparisons, discussion
from benchlab.sharing.models import Comment, Kind, Note, SavedView, Share, Star, Tag, Tagging
from benchlab.web.lists import PAGE_PARAMETERS, without_parameters

register = template.Library()
register.filter("plain_text", discussion.text_to_html)
STARRED = 12


def _base_context(context: Mapping[str, Any]) -> dict[str, Any]:
    request: HttpRequest = context["request"]
    return {
        "request": request,
        "user": request.user,
        "may": context["may"],
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("sharing/_talk_actions.html", takes_context=True)
def talk_actions(context: Mapping[str, Any], row: Any) -> dict[str, Any]:
    """Show star, report and share in the title row. Rows of the reference library may be starred, too."""
    base = _base_context(context)
    kind = discussion.row_kind(row)
    stars = Star.objects.for_user(base["user"]).filter(kind=kind, object_id=row.pk)
    return base | {
        "kind": kind.value,
        "row": row,
        "starred": stars.exists(),
        "share_kind": kind.value if kind in (Kind.RUN, Kind.CAMPAIGN) else "",
    }


@register.inclusion_tag("sharing/_talk.html", takes_context=True)
def talk(context: Mapping[str, Any], row: Any) -> dict[str, Any]:
    """Show the discussion; nothing for the reference library's rows, which no team could discuss."""
    base = _base_context(context)
    kind, team = discussion.row_kind(row), discussion.row_team(row)
    if team.library:
        return base | {"library": True}
    about = {"kind": kind, "object_id": row.pk}
    mine = Tagging.objects.filter(**about).select_related("tag")
    return base | {
        "kind": kind.value,
        "row": row,
        "team": team,
        "tags": [tagging.tag for tagging in mine],
        "every_tag": Tag.objects.filter(team=team),
        "note": Note.objects.filter(**about).select_related("by").first(),
        "comments": Comment.objects.filter(**about).select_related("by"),
    }


@register.inclusion_tag("sharing/_starred.html", takes_context=True)
def starred(context: Mapping[str, Any]) -> dict[str, Any]:
    """Show the person's stars on rows that they still see and that are not archived."""
    user = context["request"].user
    stars = [(star.kind, star.object_id) for star in Star.objects.for_user(user)[:STARRED]]
    names = discussion.current_names(user, stars)
    rows = [
        (Kind(kind).label, names[kind, pk], discussion.row_url(kind, pk))
        for kind, pk in stars
        if (kind, pk) in names
    ]
    return {"rows": rows}


@register.inclusion_tag("sharing/_views.html", takes_context=True)
def saved_views(context: Mapping[str, Any]) -> dict[str, Any]:
    """Show the saved views of Explore and the compare page."""
    base = _base_context(context)
    views = SavedView.objects.for_user(base["user"]).select_related("team")
    rows = [
        (row, comparisons.view_url(row.query), comparisons.is_explored(row.query)) for row in views
    ]
    return base | {"rows": rows}


@register.inclusion_tag("sharing/_save_view.html", takes_context=True)
def save_view(context: Mapping[str, Any], page: str = "compare") -> dict[str, Any]:
    """Show the form that saves the current view, in the title row of Explore and the compare page."""
    base = _base_context(context)
    try:
        query = comparisons.canonical(base["request"].GET.urlencode())
    except ValidationError:
        query = ""
    if query and page == "explore" and not comparisons.is_explored(query):
        # the first axis in any case, and it decides where the view opens
        query += "&x=outstanding"
    explored = comparisons.is_explored(query)
    return base | {"query": query, "explored": explored, "kinds": Share.Kind}


@register.inclusion_tag("sharing/_tag_filter.html", takes_context=True)
def tag_filter(context: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Show the tags of this list's rows, each a link that filters the list."""
    request = context["request"]
    having = Exists(Tagging.objects.filter(kind=kind, tag=OuterRef("pk")))
    tags = Tag.objects.for_user(request.user).filter(having)
    rest = without_parameters(request.GET, *PAGE_PARAMETERS, "tag").urlencode()
    return {"tags": tags, "chosen": request.GET.get("tag", ""), "rest": rest}
