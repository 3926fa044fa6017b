# SPDX-License-Identifier: Apache-2.0
"""Pages of teams: members, roles, invitations, and the page behind an invitation; and pages of site admins."""

from __future__ import annotations

from typing import cast

from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Count, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row
from benchlab.pages.shared import get_or_post, refused_leads_to
from benchlab.team import accounts, current_roles, invitations, members, roles, services
from benchlab.team.forms import InviteForm, NewAccount, NewTeam, RoleForm, TeamSettings
from benchlab.team.models import Invitation, Membership, Team, has_role
from benchlab.team.roles import Role
from benchlab.team.services import requesting_user
from benchlab.web import lists
from benchlab.web.texts import parse_row_id

# By the word that each list's address has for each column.
TEAMS = {
    "team": lists.name_column("Team", "team__name"),
    "role": lists.SortColumn("You are", roles.role_rank()),
    "new": lists.SortColumn("New things"),
}
MEMBERS = {
    "name": lists.name_column("Name", "user__username"),
    "role": lists.SortColumn("Role", roles.role_rank()),
    "since": lists.sort_column("Since", "created_at"),
}
ACTIONS = {"actions": lists.SortColumn("Actions")}
INVITATIONS = {
    "for": lists.name_column("For", "email"),
    "as": lists.SortColumn("As", roles.role_rank()),
    "by": lists.name_column("By", "invited_by__username"),
    "ends": lists.sort_column("Ends (UTC)", "expires_at"),
} | ACTIONS
# what the parameters of the page's second list begin with
INVITED_PREFIX = "invited_"


@require_GET
def team_list(request: HttpRequest) -> HttpResponse:
    rows = Membership.objects.filter(user=requesting_user(request)).select_related("team")
    listed = lists.filter_rows(request, rows, TEAMS, ("team__name",))
    context = {
        "memberships": listed.rows,
        "listed": listed,
        "several": len(rows) > 1,
        "chosen": services.chosen_team(request),
    }
    return render(request, "team/teams.html", context)


@require_POST
def team_choose(request: HttpRequest) -> HttpResponse:
    """Choose the team that owns what this session creates from now on."""
    team_id = request.POST.get("team", "")
    mine = Team.objects.for_user(requesting_user(request))
    team = get_object_or_404(mine, pk=parse_row_id(team_id))
    request.session[services.SESSION_TEAM] = team.pk
    messages.success(request, f"New items now belong to {team.name}.")
    return redirect("team-list")


def _own_team(request: HttpRequest, pk: int) -> Team:
    return get_object_or_404(Team.objects.for_user(request.user), pk=pk)


@require_GET
def team_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _team_page(request, _own_team(request, pk))


def _team_page(
    request: HttpRequest, team: Team, status: int = 200, **forms: object
) -> HttpResponse:
    rows = Membership.objects.filter(team=team).select_related("user").order_by("user__username")
    owns = has_role(request.user, team.pk, Role.OWNER)
    columns = MEMBERS | ACTIONS if owns else MEMBERS
    others = (INVITED_PREFIX + lists.SORT, INVITED_PREFIX + lists.FIND) if owns else ()
    listed = lists.filter_rows(
        request, rows, columns, ("user__username",), "#members-title", others
    )
    context = {
        "team": team,
        "members": listed.rows,
        "listed": listed,
        "roles": Role.choices,
        "invited": _invitation_list(request, team) if owns else None,
        "form": TeamSettings(instance=Team.objects.get(pk=team.pk)),
        "invite": InviteForm(),
        **forms,
    }
    return render(request, "team/detail.html", context, status=status)


def _invitation_list(request: HttpRequest, team: Team) -> lists.FilteredList[QuerySet[Invitation]]:
    rows = invitations.open_invitations().filter(team=team).select_related("invited_by")
    finds = ("email", "role", "invited_by__username")
    members = (lists.SORT, lists.FIND)
    return lists.filter_rows(
        request, rows, INVITATIONS, finds, "#invited-title", members, INVITED_PREFIX
    )


@require_POST
def team_change(request: HttpRequest, pk: int) -> HttpResponse:
    team = _own_team(request, pk)
    form = TeamSettings(request.POST, instance=Team.objects.get(pk=team.pk))
    if not form.is_valid():
        return _team_page(request, team, 400, form=form)
    changed = ", ".join(f"{name} = {form.cleaned_data[name]}" for name in form.changed_data)
    request_notes.note_subject(
        request, team.pk, f"{describe_row(team)}: {changed or 'nothing changed'}"
    )
    form.save()
    return redirect("team-detail", pk)


@require_POST
@refused_leads_to("team-detail", "pk")
def team_leave(request: HttpRequest, pk: int) -> HttpResponse:
    team = _own_team(request, pk)
    members.remove_member(Membership.objects.get(team=team, user=requesting_user(request)))
    messages.success(request, f"You have left {team.name}.")
    return redirect("team-list")


@require_POST
def team_invite(request: HttpRequest, pk: int) -> HttpResponse:
    """The page with the link is its only copy."""
    team, form = _own_team(request, pk), InviteForm(request.POST)
    if not form.is_valid():
        return _team_page(request, team, 400, invite=form)
    values = form.cleaned_data
    invitation, token = invitations.invite(
        team, Role(values["role"]), requesting_user(request), values["email"]
    )
    return invitation_page(request, invitation, token)


def invitation_page(request: HttpRequest, invitation: Invitation, token: str) -> HttpResponse:
    """The link, to hand over; mailed as well where there is an address and a mail server."""
    link = request.build_absolute_uri(reverse("join", args=[token]))
    mailed = bool(invitation.email and settings.SENDS_MAIL) and _mail_invitation(invitation, link)
    context = {"invitation": invitation, "link": link, "mailed": mailed}
    # Not for whom: viewers, too, read in the feed that somebody was invited.
    request_notes.note_subject(
        request,
        invitation.team_id,
        f"{describe_row(invitation.team)}, invitation {invitation.pk} as {invitation.role}",
    )
    request_notes.mark_done(request)
    answer = render(request, "team/invited.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


def _mail_invitation(invitation: Invitation, link: str) -> bool:
    """A mail server that does not answer costs nothing: the page shows the link."""
    text = (
        f"{invitation.invited_by} invites you into {invitation.team.name} on BenchLab:\n\n{link}\n\n"
        f"The link works once, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC.\n"
    )
    try:
        return bool(send_mail(f"[BenchLab] {invitation.team.name}", text, None, [invitation.email]))
    except OSError:
        return False


@require_POST
def invitation_revoke(request: HttpRequest, pk: int, invitation_pk: int) -> HttpResponse:
    rows = Invitation.objects.filter(team=_own_team(request, pk))
    invitations.revoke_invitation(get_object_or_404(rows, pk=invitation_pk))
    return redirect("team-detail", pk)


def _team_member(request: HttpRequest, pk: int, member_pk: int) -> Membership:
    rows = Membership.objects.filter(team=_own_team(request, pk)).select_related("user", "team")
    return get_object_or_404(rows, pk=member_pk)


@require_POST
@refused_leads_to("team-detail", "pk")
def member_change_role(request: HttpRequest, pk: int, member_pk: int) -> HttpResponse:
    member, form = _team_member(request, pk, member_pk), RoleForm(request.POST)
    if not form.is_valid():
        raise ValidationError("Choose one of the roles.")
    role = Role(form.cleaned_data["role"])
    change = f"{describe_row(member.team)}, {describe_row(member)}: {member.role} to {role.value}"
    request_notes.note_subject(request, member.team_id, change)
    members.change_role(member, role)
    return redirect("team-detail", pk)


@get_or_post
@refused_leads_to("team-detail", "pk")
def member_remove(request: HttpRequest, pk: int, member_pk: int) -> HttpResponse:
    member = _team_member(request, pk, member_pk)
    if request.method == "GET":
        return render(request, "team/remove.html", {"member": member})
    members.remove_member(member)
    messages.success(request, f"{member.user} is no longer in {member.team.name}.")
    return redirect("team-detail", pk)


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@get_or_post
def join(request: HttpRequest, token: str) -> HttpResponse:
    if refused := ratelimit.consume_or_429(request, action="signup"):
        return cast(HttpResponse, refused)
    try:
        invitation = invitations.find_invitation(token)
        if request.method == "POST" and isinstance(request.user, User):
            _accept_invitation(request, invitation, request.user)
            request.session[services.SESSION_TEAM] = invitation.team_id
            messages.success(request, f"You are in {invitation.team.name} now.")
            return redirect("team-detail", invitation.team_id)
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
            _accept_invitation(request, invitation, user)
        team_page = f"/team/{invitation.team_id}/"
        return cast(HttpResponse, perform_login(request, user, redirect_url=team_page))
    return render(request, "team/join.html", {"invitation": invitation, "form": form})


def _accept_invitation(request: HttpRequest, invitation: Invitation, user: User) -> None:
    invitations.accept_invitation(invitation, user)
    request.session.pop(invitations.SESSION_KEY, None)


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
SITE_TEAMS = {
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
@refused_leads_to("site-users")
def set_active(request: HttpRequest, user_pk: int) -> HttpResponse:
    """`active` in the form: 1 or nothing."""
    user = get_object_or_404(User, pk=user_pk)
    if request.POST.get("active"):
        accounts.activate(user)
        messages.success(request, f"Reactivated {user}.")
    else:
        accounts.deactivate(user, requesting_user(request))
        messages.success(request, f"Signed {user} out and revoked their tokens.")
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


@get_or_post
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
    listed = lists.filter_rows(request, rows.order_by("name"), SITE_TEAMS, ("name",))
    context = {"teams": listed.rows, "listed": listed, "form": form}
    return render(request, "team/site_teams.html", context)


@require_POST
def invite_owner(request: HttpRequest, team_pk: int) -> HttpResponse:
    """Invite an owner into a team whose owners have all left."""
    team = get_object_or_404(Team, pk=team_pk, library=False)
    invitation, token = invitations.invite(team, Role.OWNER, requesting_user(request))
    return invitation_page(request, invitation, token)
