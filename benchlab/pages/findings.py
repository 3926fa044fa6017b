# SPDX-License-Identifier: Apache-2.0
"""Dismissing a finding on a page, and taking that back: htmx puts the answer in its place, a browser goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST
from django_htmx.middleware import HtmxDetails

from benchlab.audit import request_notes
from benchlab.findings import display, storing
from benchlab.findings.models import Finding
from benchlab.team.services import requesting_user


@require_POST
def dismiss_finding(request: HttpRequest, pk: int) -> HttpResponse:
    """`note`: why; `on`: "campaign" goes back there, else to the run's page."""
    by = requesting_user(request)
    return _record_note(request, pk, lambda row, note: storing.dismiss_row(row, by, note))


@require_POST
def restore_finding(request: HttpRequest, pk: int) -> HttpResponse:
    """Withdraw a dismissal; parameters as above."""
    return _record_note(request, pk, storing.restore_row)


def _record_note(
    request: HttpRequest, pk: int, act: Callable[[Finding, str], None]
) -> HttpResponse:
    row = _own_finding(request, pk)
    try:
        act(row, request.POST.get("note", ""))
    except storing.AlreadyDecided as error:
        # as the other one left it
        return _finding_response(request, _own_finding(request, pk), error.messages[0])
    except ValidationError as error:
        return _finding_response(request, row, error.messages[0])
    return _finding_response(request, row)


def _own_finding(request: HttpRequest, pk: int) -> Finding:
    rows = Finding.objects.for_user(request.user).filter(stands=True)
    return get_object_or_404(rows.select_related("attempt", "campaign", "dismissed_by"), pk=pk)


def _finding_response(request: HttpRequest, row: Finding, error: str = "") -> HttpResponse:
    on = "campaign" if request.POST.get("on") == "campaign" or row.attempt is None else "run"
    if not error:
        request_notes.mark_done(request)
    if cast(_Htmx, request).htmx:
        [finding] = display.display_rows([row])
        context = {"one": finding, "said": error, "on": on, "may_dismiss": True}
        return render(request, "findings/_finding.html", context)
    if error:
        request_notes.mark_refused(request, error)
        # from its top, where that is read
        return redirect(_return_address(row, on))
    return redirect(f"{_return_address(row, on)}#findings")


class _Htmx(HttpRequest):
    htmx: HtmxDetails


def _return_address(row: Finding, on: str) -> str:
    if on == "campaign" or row.attempt is None:
        return reverse("campaign-detail", args=[row.campaign_id])
    page = reverse("run-detail", args=[row.attempt.run_id])
    return f"{page}?attempt={row.attempt.number}"


urlpatterns = [
    path("findings/<int:pk>/dismiss/", dismiss_finding, name="finding-dismiss"),
    path("findings/<int:pk>/take-back/", restore_finding, name="finding-take-back"),
]
