# SPDX-License-Identifier: Apache-2.0
"""The feed: notable actions of people, campaigns that ended, and comments, newest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import CharField, Exists, Max, OuterRef, QuerySet, Value
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign
from benchlab.runs import progress
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase
from benchlab.sharing import discussion
from benchlab.sharing.models import Comment, Event, Kind
from benchlab.team.services import Person
from benchlab.web.lists import MAX_ROWS, BoundedPaginator

# Actions of pages and of the API (benchlab/audit/middleware.py) -> the words before their subject.
PHRASES: Mapping[str, str] = {
    "campaign-start": "started",
    "campaign.apply": "started",
    "campaign.start": "started",
    "campaign-cancel": "cancelled",
    "campaign.cancel": "cancelled",
    "campaign-pause": "paused",
    "campaign.pause": "paused",
    "campaign-resume": "resumed",
    "campaign.resume": "resumed",
    "campaign-retry": "retried failed runs of",
    "campaign-add-repeats": "added repeats to",
    "campaign.add_repeats": "added repeats to",
    "run-retry": "retried",
    "run.retry": "retried",
    "device.mark_spare": "marked spare:",
    "device-detail": "marked spare:",
    "device.unmark_spare": "unmarked as spare:",
    "device-keep": "unmarked as spare:",
    "device-rate": "set the rating of",
    "device.partial_update": "set the rating of",
    "host-change": "changed",
    "host-delete": "removed",
    "topology-edit": "changed",
    "layout-person-done": "completed a manual step of",
    "layout.person_done": "completed a manual step of",
    "talk-tag": "tagged",
    "talk-note": "wrote a note on",
    "tagging.create": "tagged",
    "note.create": "wrote a note on",
    "share-new": "made a",
    "share.create": "made a",
    "share-revoke": "took back",
    "share.revoke": "took back",
    "team-invite": "invited somebody into",
    "team-member-role": "changed somebody's role in",
    "team-member-remove": "removed somebody from",
    "team-leave": "left",
    **{
        f"{kind}{action}": verb
        for kind in ("campaign", "topology", "workload")
        for action, verb in {
            "-rename": "renamed",
            ".partial_update": "changed",
            "-archive": "archived",
            ".archive": "archived",
            "-restore": "restored",
            ".restore": "restored",
            "-delete": "deleted",
            ".destroy": "deleted",
            "-bring-back": "brought back",
            ".bring_back": "brought back",
            "-remove": "removed for good",
        }.items()
    },
}
SUBJECT = re.compile(rf"^({'|'.join(Kind.values)}) (\d{{1,18}}) \(")
# nothing is at the address of what it is about
REMOVING_ACTIONS = ("-delete", ".destroy", "-remove")
PER_PAGE = 50
# characters of a comment
MAX_COMMENT_CHARS = 200


def newest_rows(user: Person, most: int) -> list[tuple[Any, str, int]]:
    """Return (at, source, id) of the newest `most` things in the user's teams, for `page_events`."""
    entries = Entry.objects.for_user(user).filter(
        team_id__isnull=False, action__in=PHRASES, outcome="done"
    )
    comments = _source_rows(
        "comment", Comment.objects.teams_first().for_user(user), "created_at", most
    )
    union = _source_rows("entry", entries, "at", most).union(
        comments, _source_rows("ended", _ended_campaigns(user), "ended", most), all=True
    )
    return list(union.order_by("-at", "told_as", "-pk")[:most])


def _source_rows(source: str, rows: QuerySet[Any], at: str, most: int) -> Any:
    """Read one source by its own index, and no more rows of it than the whole feed needs."""
    ordered = rows.order_by(f"-{at}", "-pk").annotate(told_as=Value(source, CharField()))
    return ordered.values_list(at, "told_as", "pk")[:most]


def _ended_campaigns(user: Person) -> QuerySet[Campaign]:
    still_open = Layout.objects.filter(campaign=OuterRef("pk")).exclude(phase=LayoutPhase.DONE)
    mine = Campaign.objects.for_user(user).filter(~Exists(still_open))
    return mine.annotate(ended=Max("layouts__ended_at")).filter(ended__isnull=False)


def page_events(user: Person, rows: Sequence[Any]) -> list[Event]:
    """Describe the rows of a page. Three queries and those of the names."""
    keys = {
        source: [pk for _, row_source, pk in rows if row_source == source]
        for source in ("entry", "comment", "ended")
    }
    entries = Entry.objects.in_bulk(keys["entry"])
    comments = Comment.objects.select_related("by").in_bulk(keys["comment"])
    campaigns = Campaign.objects.in_bulk(keys["ended"])
    states = progress.progress_by_campaign(campaigns.values())
    names = discussion.visible_names(
        user, [(comment.kind, comment.object_id) for comment in comments.values()]
    )
    events: list[Event] = []
    for at, source, pk in rows:
        if source == "entry" and pk in entries:
            events.append(_audit_event(entries[pk]))
        elif source == "comment" and pk in comments:
            events.append(_comment_event(comments[pk], names))
        elif pk in campaigns:
            events.append(_campaign_event(at, campaigns[pk], states[pk]))
    return events


def _audit_event(entry: Entry) -> Event:
    about = SUBJECT.match(entry.subject)
    still_exists = not entry.action.endswith(REMOVING_ACTIONS)
    url = discussion.row_url(about[1], int(about[2])) if about and still_exists else ""
    phrase = (
        f"{PHRASES[entry.action]} {'' if entry.subject.startswith('/') else entry.subject}".strip()
    )
    return Event(at=entry.at, source="entry", who=entry.actor or "engine", says=phrase, url=url)


def _comment_event(comment: Comment, names: Mapping[tuple[str, int], str]) -> Event:
    about = f"{comment.kind} {comment.object_id} ({names.get((comment.kind, comment.object_id), 'gone')})"
    text = (
        comment.text
        if len(comment.text) <= MAX_COMMENT_CHARS
        else f"{comment.text[:MAX_COMMENT_CHARS]} …"
    )
    return Event(
        at=comment.created_at,
        source="comment",
        who=comment.by.get_username() if comment.by else "somebody",
        says=f"on {about}: {text}",
        url=f"{discussion.row_url(comment.kind, comment.object_id)}#comment-{comment.pk}",
    )


def _campaign_event(at: Any, campaign: Campaign, standing: progress.Progress) -> Event:
    counts = ", ".join(f"{number} {name}" for name, number in standing.counts.items() if number)
    return Event(
        at=at,
        source="ended",
        who="",
        says=f"campaign {campaign.pk} ({campaign}) ended: {counts or 'nothing ran'}",
        url=reverse("campaign-detail", args=[campaign.pk]),
    )


@require_GET
def activity_page(request: HttpRequest) -> HttpResponse:
    rows = newest_rows(request.user, MAX_ROWS + 1)
    page = BoundedPaginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "events": page_events(request.user, list(page.object_list))}
    return render(request, "sharing/activity.html", context)
