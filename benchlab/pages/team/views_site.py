# SPDX-License-Identifier: Apache-2.0
"""Pages of site admins: every account, every team."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Prefetch, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from benchlab.audit import request_notes
from benchlab.pages.team.views_teams import invitation_page
from benchlab.team import accounts, current_roles, invitations
from benchlab.team.forms import NewTeam
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.team.services import requesting_user
from benchlab.web import lists

# By the word that each list's address has for each column.
USERS = {
    "name": lists.name_column("Name", "username"),
    "mail": lists.name_column("E-mail", "email"),
    "teams": lists.sort_column("Teams", "in_teams"),
    "factor": lists.sort_column("Second factor", "second_factor"),
    "last": lists.sort_column("Last log-in (UTC)", "last_login"),
    "state": lists.sort_column("State", "is_active"),
    "actions": lists.SortColumn("Actions"),
}
TEAMS = {
    "name": lists.name_column("Team"),
    "members": lists.sort_column("Members", "people", "num"),
    "owners": lists.sort_column("Owners who can log in", "owners", "num"),
    "factor": lists.sort_column("Second factor", "require_mfa"),
    "made": lists.sort_column("Made", "created_at"),
    "actions": lists.SortColumn("Actions"),
}


@require_GET
def site_users(request: HttpRequest) -> HttpResponse:
    memberships = Prefetch("membership_set", Membership.objects.select_related("team"))
    factor = current_roles.role_columns()["_factor"]
    rows = User.objects.annotate(second_factor=factor, in_teams=Count("membership"))
    rows = rows.prefetch_related(memberships).order_by("username")
    listed = lists.filter_rows(request, rows, USERS, ("username", "email"))
    return render(request, "team/users.html", {"users": listed.rows, "listed": listed})


@require_POST
def set_active(request: HttpRequest, user_pk: int) -> HttpResponse:
    """`active` in the form: 1 or nothing."""
    user = get_object_or_404(User, pk=user_pk)
    try:
        if request.POST.get("active"):
            accounts.activate(user)
            messages.success(request, f"Reactivated {user}.")
        else:
            accounts.deactivate(user, requesting_user(request))
            messages.success(request, f"Signed {user} out and revoked their tokens.")
    except ValidationError as error:
        request_notes.mark_refused(request, " ".join(error.messages))
    return redirect("site-users")


@require_POST
def reset_link(request: HttpRequest, user_pk: int) -> HttpResponse:
    """Show a link to reset a password, for servers without mail. Whoever has it owns the account."""
    user = get_object_or_404(User, pk=user_pk, is_active=True)
    link = request.build_absolute_uri(accounts.reset_path(user))
    request_notes.mark_done(request)
    answer = render(request, "team/reset_link.html", {"person": user, "link": link})
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
def remove_second_factor(request: HttpRequest, user_pk: int) -> HttpResponse:
    """Remove the second factor of a person who lost the app and the codes."""
    user = get_object_or_404(User, pk=user_pk)
    accounts.remove_second_factor(user)
    messages.success(
        request, f"Two-factor authentication of {user} is off until they set it up again."
    )
    return redirect("site-users")


@require_http_methods(["GET", "POST"])
def site_teams(request: HttpRequest) -> HttpResponse:
    form = NewTeam(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            team = form.save()
            Membership.objects.create(team=team, user=requesting_user(request), role=Role.OWNER)
        return redirect("team-detail", team.pk)
    owners = Q(membership__role=Role.OWNER, membership__user__is_active=True)
    rows = Team.objects.filter(library=False).annotate(
        people=Count("membership"), owners=Count("membership", filter=owners)
    )
    listed = lists.filter_rows(request, rows.order_by("name"), TEAMS, ("name",))
    context = {"teams": listed.rows, "listed": listed, "form": form}
    return render(request, "team/site_teams.html", context)


@require_POST
def invite_owner(request: HttpRequest, team_pk: int) -> HttpResponse:
    """Invite an owner into a team whose owners have all left."""
    team = get_object_or_404(Team, pk=team_pk, library=False)
    invitation, token = invitations.invite(team, Role.OWNER, requesting_user(request))
    return invitation_page(request, invitation, token)
