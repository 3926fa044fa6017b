# SPDX-License-Identifier: Apache-2.0
"""Comments, tags, notes and stars from a row's page: each a form that sends there and comes back."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.sharing import discussion, targets
from benchlab.sharing.models import Comment, Tag
from benchlab.team.services import requesting_user


@require_POST
def comment_add(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _owned_row(request, kind, pk)
    try:
        discussion.add_comment(row, requesting_user(request), request.POST.get("text", ""))
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
    return _redirect_back(kind, pk)


@require_http_methods(["GET", "POST"])
def comment_edit(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    text, message = row.text, ""
    if request.method == "POST":
        text = request.POST.get("text", "")
        try:
            discussion.edit_comment(row, requesting_user(request), text)
            return _redirect_back(row.kind, row.object_id)
        except ValidationError as error:
            message = error.messages[0]
    elif row.by_id != request.user.pk:
        # shows why not
        discussion.edit_comment(row, requesting_user(request), text)
    context = {
        "comment": row,
        "text": text,
        "said": message,
        "back": _talk_url(row.kind, row.object_id),
    }
    return render(request, "sharing/comment.html", context)


@require_POST
def comment_delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Comment.objects.for_user(request.user), pk=pk)
    discussion.delete_comment(row, requesting_user(request))
    return _redirect_back(row.kind, row.object_id)


@require_POST
def tag_add(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _owned_row(request, kind, pk)
    try:
        discussion.tag_row(row, request.POST.get("name", ""))
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
    return _redirect_back(kind, pk)


@require_POST
def tag_remove(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _owned_row(request, kind, pk)
    tag_name = request.POST.get("tag", "")
    name = (
        Tag.objects.for_user(request.user).filter(name=tag_name, team=targets.row_team(row)).first()
    )
    if name is not None:
        discussion.untag_row(row, name.pk)
    return _redirect_back(kind, pk)


@require_POST
def note_save(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _owned_row(request, kind, pk)
    try:
        discussion.write_note(row, requesting_user(request), request.POST.get("text", ""))
    except ValidationError as error:
        request_notes.mark_refused(request, error.messages[0])
    return _redirect_back(kind, pk)


@require_POST
def star_set(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """`on`: "yes" or "no". Also of the reference library's rows."""
    row = targets.visible_row(request.user, kind, pk)
    _record_subject(request, row)
    discussion.set_star(row, requesting_user(request), request.POST.get("on") != "no")
    return redirect(targets.row_url(kind, pk))


def _owned_row(request: HttpRequest, kind: str, pk: int) -> Any:
    row = targets.owned_row(request.user, kind, pk)
    _record_subject(request, row)
    return row


def _record_subject(request: HttpRequest, row: Any) -> None:
    """Name the subject for the audit log, which cannot resolve `kind` and `pk` of these URLs."""
    request_notes.note_subject(request, targets.row_team(row).pk, targets.audit_name(row))


def _talk_url(kind: str, pk: int) -> str:
    return f"{targets.row_url(kind, pk)}#talk"


def _redirect_back(kind: str, pk: int) -> HttpResponse:
    return redirect(_talk_url(kind, pk))
