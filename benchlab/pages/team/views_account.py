# SPDX-License-Identifier: Apache-2.0
"""A person's own account: what there is of it, the e-mail address, the sessions."""

from __future__ import annotations

from allauth.account.adapter import get_adapter
from allauth.account.decorators import reauthentication_required
from allauth.usersessions.adapter import get_adapter as get_session_adapter
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from benchlab.team.forms import EmailForm
from benchlab.team.services import requesting_user
from benchlab.web import lists
from benchlab.web.row_ids import parse_row_id

# By the word that the list's address has for each column.
SESSIONS = {
    "since": lists.key_column("Since (UTC)", lambda session: session.created_at),
    "address": lists.key_column("Address", lambda session: session.ip),
    "browser": lists.key_column("Browser", lambda session: session.user_agent),
    "actions": lists.SortColumn("Actions"),
}


@require_GET
def account_page(request: HttpRequest) -> HttpResponse:
    sessions = UserSession.objects.filter(user=requesting_user(request)).count()
    return render(request, "account/account.html", {"sessions": sessions})


@require_http_methods(["GET", "POST"])
@reauthentication_required  # type: ignore[untyped-decorator]
def change_email(request: HttpRequest) -> HttpResponse:
    """A link to set a new password goes there, so the password is asked for first."""
    form = EmailForm(
        request.POST or None, instance=User.objects.get(pk=requesting_user(request).pk)
    )
    if request.method == "POST" and form.is_valid():
        form.instance.save(update_fields=["email"])
        messages.success(request, "E-mail address changed.")
        return redirect("account")
    return render(request, "account/email.html", {"form": form})


@require_http_methods(["GET", "POST"])
def session_list(request: HttpRequest) -> HttpResponse:
    """POST with `session` ends that one; without, all but this one."""
    user = requesting_user(request)
    if request.method == "POST" and (session_id := request.POST.get("session", "")):
        mine = UserSession.objects.filter(user=user)
        ended = get_object_or_404(mine, pk=parse_row_id(session_id))
        _end_sessions(request, [ended])
        return redirect("usersessions_list")
    if request.method == "POST":
        others = [row for row in UserSession.objects.filter(user=user) if not row.is_current()]
        _end_sessions(request, others)
        messages.success(request, "Signed out of all other sessions.")
        return redirect("usersessions_list")
    user_sessions = sorted(
        UserSession.objects.purge_and_list(user), key=lambda user_session: user_session.created_at
    )
    listed = lists.filter_in_memory(request, user_sessions, SESSIONS, _session_texts)
    context = {"sessions": listed.rows, "listed": listed, "several": len(user_sessions) > 1}
    return render(request, "usersessions/usersession_list.html", context)


def _end_sessions(request: HttpRequest, rows: list[UserSession]) -> None:
    """End the sessions, and log the person out if this session is among them."""
    includes_current = any(row.is_current() for row in rows)
    get_session_adapter().end_sessions(rows)
    if includes_current:
        adapter = get_adapter()
        adapter.add_message(request, messages.SUCCESS, "account/messages/logged_out.txt")
        adapter.logout(request)


def _session_texts(session: UserSession) -> tuple[str, ...]:
    return f"{session.created_at:%Y-%m-%d %H:%M}", session.ip, session.user_agent
