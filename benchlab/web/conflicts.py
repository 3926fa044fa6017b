# SPDX-License-Identifier: Apache-2.0
"""Two requests at the same moment: what the database refuses because another one was faster is a conflict, no failure.

Forms and serializers check first, but only the database sees what is created between that check and the write. Code
that creates or changes rows need not care: pages (the middleware here) and the API (benchlab.web.api.problem_response)
call `conflict_message`.
"""

from __future__ import annotations

import re

from django.apps import apps
from django.db import DatabaseError, IntegrityError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

UNIQUE, REFERENCE = "23505", "23503"
# serialization failure, deadlock: the other one was let through
AGAIN = ("40001", "40P01")
KEY = re.compile(r"^Key \((?P<columns>.+?)\)=")
# whose it is, everybody knows
OWNERS = ("team_id", "user_id", "by_id")


class ConflictMiddleware(MiddlewareMixin):
    """Answers conflicts on pages. It is the innermost middleware, so that the audit log sees the response."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        message = conflict_message(error)
        return render(request, "409.html", {"message": message}, status=409) if message else None


def conflict_message(error: Exception) -> str:
    """Return the message for the slower of two people; "" for an error that is no conflict."""
    diagnosis = getattr(error.__cause__, "diag", None)
    state = getattr(diagnosis, "sqlstate", None)
    if isinstance(error, IntegrityError) and state == UNIQUE:
        return _duplicate_message(diagnosis)
    if isinstance(error, IntegrityError) and state == REFERENCE:
        return "Something that it refers to was removed at the same moment, or something refers to it now."
    if isinstance(error, OperationalError) and state in AGAIN:
        return "Another request changed the same things at the same moment. Nothing was done: try again."
    # Django's own, of save(update_fields=...): there is no other sign of it.
    if type(error) is DatabaseError and "did not affect any rows" in str(error):
        return "It was removed at the same moment."
    return ""


def _duplicate_message(diagnosis: object) -> str:
    table = getattr(diagnosis, "table_name", "")
    noun = next(
        (m._meta.verbose_name for m in apps.get_models() if m._meta.db_table == table), "row"
    )
    match = KEY.match(getattr(diagnosis, "message_detail", None) or "")
    columns = re.findall(r"\w+", match["columns"]) if match else []
    same = [column.removesuffix("_id") for column in columns if column not in OWNERS]
    with_same = f" with the same {' and '.join(same)}" if same else ""
    return f"There is a {noun}{with_same} already: another request made it at the same moment."
