# SPDX-License-Identifier: Apache-2.0
"""Page behind an invitation's link: into the team, with the account that is there or with a new one."""

from __future__ import annotations

from typing import cast

from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from benchlab.team import invitations, services
from benchlab.team.forms import NewAccount
from benchlab.team.models import Invitation


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    if refused := ratelimit.consume_or_429(request, action="signup"):
        return cast(HttpResponse, refused)
    try:
        invitation = invitations.find_invitation(token)
        if request.method == "POST" and isinstance(request.user, User):
            return _join_with_account(request, invitation, request.user)
        return _join_with_new_account(request, invitation)
    except ValidationError as error:
        context = {"trouble": " ".join(error.messages)}
        return render(request, "team/join.html", context, status=410)


def _join_with_new_account(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    invitations.remember_invitation(request.session, invitation)
    form = NewAccount(request.POST or None, initial={"email": invitation.email})
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            user = form.save()
            invitations.accept_invitation(invitation, user)
        request.session.pop(invitations.SESSION_KEY, None)
        team_page = f"/team/{invitation.team_id}/"
        return cast(HttpResponse, perform_login(request, user, redirect_url=team_page))
    return render(request, "team/join.html", {"invitation": invitation, "form": form})


def _join_with_account(request: HttpRequest, invitation: Invitation, user: User) -> HttpResponse:
    invitations.accept_invitation(invitation, user)
    request.session.pop(invitations.SESSION_KEY, None)
    request.session[services.SESSION_TEAM] = invitation.team_id
    messages.success(request, f"You are in {invitation.team.name} now.")
    return redirect("team-detail", invitation.team_id)
