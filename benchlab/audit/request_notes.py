# SPDX-License-Identifier: Apache-2.0
"""Notes of a view on its own action, where neither address nor answer shows it, for middleware.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages

if TYPE_CHECKING:
    from django.http import HttpRequest
    from rest_framework.request import Request


def note_subject(request: HttpRequest | Request, team_id: int | None, words: str) -> None:
    """Note the team and the subject of a deed. Viewers read it in the feed: no address of a person, no link."""
    _django_request(request).audited = (team_id, words)


def mark_done(request: HttpRequest) -> None:
    """Mark the action as done, though it answers with a page: a link that is shown this once, what a host said."""
    _django_request(request).deed = True


def mark_refused(request: HttpRequest, why: str = "") -> None:
    """Mark the action as refused. `why`: shown to the person on the next page; "" where the page itself shows it."""
    _django_request(request).refused = True
    if why:
        messages.error(_django_request(request), why)


def is_refused(request: HttpRequest) -> bool:
    """True if `mark_refused` was called."""
    return getattr(request, "refused", False)


def noted_subject(request: HttpRequest) -> tuple[int | None, str]:
    """Team and subject that `note_subject` noted; (None, "") if nothing was noted."""
    subject: tuple[int | None, str] = getattr(request, "audited", (None, ""))
    return subject


def is_done(request: HttpRequest) -> bool:
    """True if `mark_done` was called."""
    return getattr(request, "deed", False)


def _django_request(request: HttpRequest | Request) -> Any:
    # of REST framework's
    return getattr(request, "_request", request)
