# SPDX-License-Identifier: Apache-2.0
"""Links for guests, as the team sees them: make one, who has which, take one back."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Case, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.sharing import links
from benchlab.sharing.models import MOST_QUERY, Share
from benchlab.sharing.views_guest import embed_snippet
from benchlab.team.services import requesting_user
from benchlab.web import lists
from benchlab.web.lists import BoundedPaginator

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
        label="Days until it expires", min_value=1, max_value=links.MOST_DAYS, initial=links.DAYS
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
    link, token = links.create_link(
        wish, requesting_user(request), days=cleaned["days"], hide_hosts=cleaned["hide_hosts"]
    )
    request_notes.note_subject(
        request, link.team_id, f"link {link.pk}: {link.get_kind_display()}, {link}"
    )
    request_notes.mark_done(request)
    return _render_once(request, link, token)


def _requested_target(
    request: HttpRequest, form: ShareForm, first: dict[str, Any]
) -> tuple[links.ShareTarget | None, str]:
    """Wish of what is to be shared, or None and why it cannot be."""
    if not first["kind"]:
        return None, ""
    number = str(first["object"] or "")
    try:
        return links.check_target(
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
    title = links.open_link(new_link, token).redaction.redact_text(new_link.name)[:80]
    context = {"share": new_link, "link": link, "snippet": embed_snippet(f"{link}embed/", title)}
    answer = render(request, "sharing/share_made.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
def share_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    links.revoke_link(get_object_or_404(Share.objects.for_user(request.user), pk=pk))
    return redirect("share-list")
