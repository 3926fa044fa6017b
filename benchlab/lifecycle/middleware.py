# SPDX-License-Identifier: Apache-2.0
"""Answer 410 instead of 404 to members of the team: the row was here, and for a while it can be brought back.

Whoever may see raw output that the team's rule removed is told so.
"""

from __future__ import annotations

from django.apps import apps
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from benchlab.audit.subjects import MODELS
from benchlab.lifecycle.managed_kinds import managed_kind_of
from benchlab.runs.outputs import RawRemoved
from benchlab.web import deleted_rows


class DeletedRowMiddleware(MiddlewareMixin):
    """Answer 410 for pages of deleted rows; benchlab.web.api answers for the API."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, RawRemoved):
            return render(request, "lifecycle/raw_removed.html", {"said": error}, status=410)
        if not isinstance(error, Http404) or not request.user.is_authenticated:
            return None
        deleted = _requested_row(request)
        if deleted is None:
            return None
        context = {"deleted": deleted, "kind": managed_kind_of(deleted.row).kind}
        return render(request, "410.html", context, status=410)


def _requested_row(request: HttpRequest) -> deleted_rows.DeletedRow | None:
    match = request.resolver_match
    label = MODELS.get((match.url_name or "").partition("-")[0]) if match else None
    if match is None or label is None or "pk" not in match.kwargs:
        return None
    return deleted_rows.find_deleted_row(request.user, apps.get_model(label), match.kwargs["pk"])
