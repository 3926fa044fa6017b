# SPDX-License-Identifier: Apache-2.0
"""Comments, tags, notes and stars from a row's page: each a form that sends there and comes back."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.audit import view_notes
from benchlab.sharing import discussion, targets
from benchlab.sharing.models import Comment, Tag
from benchlab.team.services import person


@require_POST
def comment(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _row(request, kind, pk)
    try:
        discussion.comment(row, person(request), request.POST.get("text", ""))
    except ValidationError as error:
        view_notes.refused(request, error.messages[0])
    return _back(kind, pk)


@require_http_methods(["GET", "POST"])
def comment_edit(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    text, said = row.text, ""
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            discussion.edit(row, person(request), text)
            return _back(row.kind, row.object_id)
        except ValidationError as error:
            said = error.messages[0]
    elif row.by_id != request.user.pk:
        # says why not
        discussion.edit(row, person(request), text)
    context = {"comment": row, "text": text, "said": said, "back": _url(row.kind, row.object_id)}
    return render(request, "sharing/comment.html", context)


@require_POST
def comment_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    discussion.delete(row, person(request))
    return _back(row.kind, row.object_id)


@require_POST
def tag(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _row(request, kind, pk)
    try:
        discussion.tag(row, request.POST.get("name", ""))
    except ValidationError as error:
        view_notes.refused(request, error.messages[0])
    return _back(kind, pk)


@require_POST
def untag(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _row(request, kind, pk)
    wanted = request.POST.get("tag", "")
    name = Tag.objects.for_user(request.user).filter(name=wanted, team=targets.team_of(row)).first()
    if name is not None:
        discussion.untag(row, name.pk)
    return _back(kind, pk)


@require_POST
def note(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _row(request, kind, pk)
    try:
        discussion.note(row, person(request), request.POST.get("text", ""))
    except ValidationError as error:
        view_notes.refused(request, error.messages[0])
    return _back(kind, pk)


@require_POST
def star(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """`on`: "yes" or "no". Also of the reference library's rows."""
    row = targets.seen(request.user, kind, pk)
    _about(request, row)
    discussion.star(row, person(request), request.POST.get("on") != "no")
    return redirect(targets.url(kind, pk))


def _row(request: HttpRequest, kind: str, pk: int) -> Any:
    row = targets.own(request.user, kind, pk)
    _about(request, row)
    return row


def _about(request: HttpRequest, row: Any) -> None:
    """For the audit log, which cannot tell what `kind` and `pk` of these URLs mean."""
    view_notes.about(request, targets.team_of(row).pk, targets.words(row))


def _url(kind: str, pk: int) -> str:
    return f"{targets.url(kind, pk)}#talk"


def _back(kind: str, pk: int) -> HttpResponse:
    return redirect(_url(kind, pk))
