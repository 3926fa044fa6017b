# SPDX-License-Identifier: Apache-2.0
"""Dismissing an answer on a page, and taking that back. The address asks for answers as the page that shows them."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row
from benchlab.campaigns.models import Campaign
from benchlab.team.services import requesting_user
from benchlab.verdicts import dismissals
from benchlab.verdicts.answers import Answer

PLACES = {"campaign": "campaign-detail", "report": "campaign-report"}


@require_POST
def dismiss_answer(request: HttpRequest, pk: int) -> HttpResponse:
    """`answer`: its key; `note`: why; `on`: "campaign", "report" or "compare", where to go back to."""
    by, key, note = (
        requesting_user(request),
        request.POST.get("answer", ""),
        request.POST.get("note", ""),
    )
    return _record_note(
        request, pk, lambda row, answer: dismissals.dismiss_answer(answer, row, by, key, note)
    )


@require_POST
def restore_answer(request: HttpRequest, pk: int) -> HttpResponse:
    """Withdraw a dismissal; parameters as above."""
    note = request.POST.get("note", "")
    return _record_note(request, pk, lambda row, answer: dismissals.restore_answer(answer, note))


def _record_note(
    request: HttpRequest, pk: int, act: Callable[[Campaign, Answer], None]
) -> HttpResponse:
    """Raises BadRequest for an address that nobody understands."""
    row = get_object_or_404(Campaign.objects.for_user(request.user), pk=pk)
    try:
        answer = dismissals.find_answer(
            request.user, row, request.GET, request.POST.get("answer", "")
        )
        request_notes.note_subject(
            request, row.team_id, f"{describe_row(row)}, {dismissals.audit_text(answer)}"
        )
        act(row, answer)
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
        # from its top, where that is read
        return redirect(_return_address(request, row))
    return redirect(f"{_return_address(request, row)}#answers")


def _return_address(request: HttpRequest, row: Campaign) -> str:
    query = request.GET.copy()
    if request.POST.get("on") == "compare":
        return f"{reverse('compare')}?{query.urlencode()}"
    query.pop("campaign", None)
    page = reverse(PLACES.get(request.POST.get("on", ""), "campaign-detail"), args=[row.pk])
    return f"{page}{'?' if query else ''}{query.urlencode()}"


urlpatterns = [
    path("campaigns/<int:pk>/answers/dismiss/", dismiss_answer, name="campaign-answer-dismiss"),
    path(
        "campaigns/<int:pk>/answers/take-back/",
        restore_answer,
        name="campaign-answer-take-back",
    ),
]
