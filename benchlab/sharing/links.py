# SPDX-License-Identifier: Apache-2.0
"""Links for guests: who may create one, what it opens, when it ends, and the team's pages of them.

The database stores only the SHA-256 of a link.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.campaigns.models import Run
from benchlab.charts import request_params
from benchlab.sharing import comparisons, discussion
from benchlab.sharing.models import MOST_QUERY, Kind, SavedView, Share
from benchlab.sharing.redaction import Redaction, build_redaction
from benchlab.team.guests import Guest
from benchlab.team.models import Team
from benchlab.team.services import owning_team, requesting_user
from benchlab.web import lists
from benchlab.web.lists import BoundedPaginator

DAYS, MOST_DAYS = 30, 366
BY_QUERY = (Share.Kind.COMPARISON, Share.Kind.VIEW)
WHOLE = (Share.Kind.CAMPAIGN, Share.Kind.REPORT)


@dataclass(frozen=True, slots=True)
class ShareTarget:
    """A checked row to share: it exists, and the person's team may share it."""

    team: Team
    kind: str
    object_id: int | None
    query: str
    name: str


def check_target(
    user: AbstractBaseUser, kind: str, object_id: int | None, query: str = ""
) -> ShareTarget:
    """Check what a person wants to share. Raises Http404 (no such row of theirs), ValidationError (not shareable)."""
    if kind == Share.Kind.COMPARISON:
        canonical_query = comparisons.canonical(query)
        return _comparison_target(user, kind, None, canonical_query, "")
    if kind == Share.Kind.VIEW:
        view = SavedView.objects.for_user(user).filter(pk=_valid_id(object_id)).first()
        if view is None:
            raise ValidationError("There is no such saved view.")
        return _comparison_target(user, kind, view.pk, view.query, view.name)
    if kind not in Share.Kind.values:
        raise ValidationError(
            f"{kind[:20]!r} cannot be shared: {', '.join(Share.Kind.values)} can."
        )
    row = discussion.visible_row(
        user, Kind.RUN if kind == Share.Kind.RUN else Kind.CAMPAIGN, _valid_id(object_id)
    )
    team = discussion.row_team(row)
    name = f"Run {row.pk}: {row}" if kind == Share.Kind.RUN else str(row)
    return ShareTarget(owning_team(user) if team.library else team, kind, row.pk, "", name[:200])


def _valid_id(object_id: int | None) -> int:
    return object_id if object_id is not None and 0 < object_id <= discussion.GREATEST else 0


def _comparison_target(
    user: AbstractBaseUser, kind: str, object_id: int | None, query: str, name: str
) -> ShareTarget:
    if comparisons.is_explored(query):
        raise ValidationError(
            "Guests see comparisons; a view of Explore cannot be shared by a link."
        )
    campaigns = comparisons.campaigns_of(user, query)
    team = comparisons.comparison_team(campaigns, owning_team(user))
    words = name or " and ".join(str(row) for row in campaigns)
    return ShareTarget(team, kind, object_id, query, words[:200])


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def create_link(
    wish: ShareTarget, by: AbstractBaseUser, *, days: int = DAYS, hide_hosts: bool = True
) -> tuple[Share, str]:
    """Create a link. Returns its row, and the token, which is stored nowhere."""
    token = secrets.token_urlsafe(32)
    share = Share.objects.create(
        team=wish.team,
        kind=wish.kind,
        object_id=wish.object_id,
        query=wish.query,
        name=wish.name,
        hide_hosts=hide_hosts,
        digest=token_digest(token),
        by_id=by.pk,
        expires_at=timezone.now() + timedelta(days=max(1, min(days, MOST_DAYS))),
    )
    return share, token


def revoke_link(share: Share) -> None:
    """Twice is as once."""
    Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now())


def open_share(token: str) -> Share | None:
    """Open a link; None if it is over or never existed, so that guessing tokens reveals nothing."""
    now = timezone.now()
    rows = Share.objects.select_related("team").filter(revoked_at=None, expires_at__gt=now)
    return rows.filter(digest=token_digest(token)).first()


def count_view(share: Share) -> None:
    Share.objects.filter(pk=share.pk).update(views=F("views") + 1, viewed_at=timezone.now())


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """A link opened by a guest: what they see, under which names and under which URL."""

    share: Share
    token: str
    guest: Guest
    redaction: Redaction
    # of a comparison; else the campaign alone
    lines: request_params.Filter

    @property
    def of_a_run(self) -> bool:
        return self.share.kind == Share.Kind.RUN


def open_link(share: Share, token: str) -> OpenedLink:
    runs = Run.objects.not_deleted().filter(_shared_runs(share))
    visible: dict[str, Any] = {
        "campaigns.Run": Q(pk__in=runs.values("pk")),
        "campaigns.Campaign": Q(pk__in=runs.order_by().values("campaign")),
        "runs.Attempt": Q(run__in=runs.values("pk")),
        "runs.Artifact": Q(attempt__run__in=runs.values("pk")),
        "findings.Finding": Q(attempt__run__in=runs.values("pk")),
        # Found by what an answer compares, so only of answers that the link shows.
        "verdicts.DismissedAnswer": Q(campaign__in=runs.order_by().values("campaign")),
    }
    # a finding between set-ups tells of all of them
    if share.kind in WHOLE:
        visible["findings.Finding"] |= Q(
            workload__isnull=False, campaign__in=runs.order_by().values("campaign")
        )
    if share.hide_hosts or share.kind != Share.Kind.RUN:
        # byte for byte they would tell; and only a run's page shows them
        del visible["runs.Artifact"]
    return OpenedLink(
        share,
        token,
        Guest(visible),
        build_redaction(runs, share.team, share.hide_hosts),
        _shared_lines(share),
    )


def _shared_lines(share: Share) -> request_params.Filter:
    if share.kind in BY_QUERY:
        return request_params.line_filter(QueryDict(share.query))
    if share.kind == Share.Kind.RUN:
        return request_params.Filter()
    return request_params.Filter((share.object_id or 0,))


def _shared_runs(share: Share) -> Q:
    """Filter of the runs that a link is about: never another team's, whatever its query says."""
    mine = Q(campaign__team=share.team) | Q(campaign__team__library=True)
    if share.kind == Share.Kind.RUN:
        return mine & Q(pk=share.object_id)
    lines = _shared_lines(share)
    matches = mine & Q(campaign__in=lines.campaigns)
    for field in ("topology", "host", "workload"):
        if pks := getattr(lines, _plural(field)):
            matches &= Q(**{f"{field}__in": pks})
    if lines.stages:
        matches &= Q(stage__in=lines.stages)
    return matches if lines.moment is None else matches & Q(stage=lines.moment)


def _plural(field: str) -> str:
    return {"topology": "topologies", "host": "hosts", "workload": "workloads"}[field]


def embed_snippet(url: str, title: str) -> str:
    """Return HTML to paste into another page. It is shown as text, which our page escapes once more."""
    return (
        f'<iframe src="{escape(url)}" title="{escape(title)}" width="100%" height="720"'
        ' loading="lazy" style="border:0"></iframe>'
    )


PER_PAGE = 50
# As Share.state has it: those that open something first.
STATE = Case(
    When(revoked_at__isnull=False, then=Value(2)),
    When(expires_at__lte=Now(), then=Value(1)),
    default=Value(0),
)
# By the word that the list's address has for each column.
COLUMNS = {
    "shows": lists.name_column("Shows"),
    "state": lists.SortColumn("State", STATE),
    "hosts": lists.sort_column("Host names", "hide_hosts"),
    "made": lists.sort_column("Made (UTC)", "created_at"),
    "expires": lists.sort_column("Expires (UTC)", "expires_at"),
    "views": lists.sort_column("Views", "views", "num"),
    "last": lists.sort_column("Last (UTC)", "viewed_at"),
    "actions": lists.SortColumn("Actions"),
}


class ShareForm(forms.Form):
    kind = forms.ChoiceField(choices=Share.Kind.choices, widget=forms.HiddenInput)
    object = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)
    query = forms.CharField(required=False, max_length=MOST_QUERY, widget=forms.HiddenInput)
    days = forms.IntegerField(
        label="Days until it expires", min_value=1, max_value=MOST_DAYS, initial=DAYS
    )
    hide_hosts = forms.BooleanField(
        label="Without host names",
        required=False,
        initial=True,
        help_text="Hosts become host A, host B; serials of disks and addresses are hidden everywhere, and raw output"
        " is not handed out",
    )


@require_GET
def share_list(request: HttpRequest) -> HttpResponse:
    rows = Share.objects.for_user(request.user).select_related("by", "team")
    listed = lists.filter_rows(
        request, rows, COLUMNS, ("name", "kind", "by__username", "team__name")
    )
    page = BoundedPaginator(listed.rows, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "sharing/shares.html", {"page": page, "listed": listed})


@require_http_methods(["GET", "POST"])
def share_new(request: HttpRequest) -> HttpResponse:
    """GET ?kind= with ?object= or ?query= asks; POST makes the link and shows it, this once."""
    parameters = request.POST if request.method == "POST" else request.GET
    first = {
        "kind": parameters.get("kind"),
        "object": parameters.get("object"),
        "query": parameters.get("query"),
    }
    form = ShareForm(request.POST if request.method == "POST" else None, initial=first)
    wish, error = _requested_target(request, form, first)
    if request.method != "POST" or wish is None or not form.is_valid():
        context = {"form": form, "wish": wish, "said": error, "kinds": Share.Kind}
        return render(request, "sharing/share_new.html", context)
    cleaned = form.cleaned_data
    link, token = create_link(
        wish, requesting_user(request), days=cleaned["days"], hide_hosts=cleaned["hide_hosts"]
    )
    request_notes.note_subject(
        request, link.team_id, f"link {link.pk}: {link.get_kind_display()}, {link}"
    )
    request_notes.mark_done(request)
    return _render_once(request, link, token)


def _requested_target(
    request: HttpRequest, form: ShareForm, first: dict[str, Any]
) -> tuple[ShareTarget | None, str]:
    """Wish of what is to be shared, or None and why it cannot be."""
    if not first["kind"]:
        return None, ""
    number = str(first["object"] or "")
    try:
        return check_target(
            requesting_user(request),
            str(first["kind"]),
            int(number) if number.isascii() and number.isdigit() and len(number) < 19 else None,
            str(first["query"] or ""),
        ), ""
    except ValidationError as error:
        return None, error.messages[0]


def _render_once(request: HttpRequest, new_link: Share, token: str) -> HttpResponse:
    link = request.build_absolute_uri(reverse("shared", args=[token]))
    # The snippet is for other people's pages: not even its title may tell what the link hides.
    title = open_link(new_link, token).redaction.redact_text(new_link.name)[:80]
    context = {"share": new_link, "link": link, "snippet": embed_snippet(f"{link}embed/", title)}
    answer = render(request, "sharing/share_made.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
def share_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    revoke_link(get_object_or_404(Share.objects.for_user(request.user), pk=pk))
    return redirect("share-list")
