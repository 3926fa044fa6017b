# SPDX-License-Identifier: Apache-2.0
"""Team of a person's new rows, and the person who asks."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Q, When
from django.http import HttpRequest
from rest_framework.request import Request

from benchlab.team.models import Membership, Team, teams_of
from benchlab.team.roles import required_role

# who asks: of a request
Person = AbstractBaseUser | AnonymousUser
FIRST_TEAM = "Lab"
# in the session
SESSION_TEAM = "team"


def requesting_user(request: HttpRequest | Request) -> User:
    """User who makes the request; the permission table lets nobody else come here."""
    assert isinstance(request.user, User)
    return request.user


def chosen_team(request: HttpRequest) -> int | None:
    """Team that the person chose for new rows in this session."""
    chosen: int | None = request.session.get(SESSION_TEAM)
    return chosen


def prefer_chosen_team(request: HttpRequest) -> None:
    """Make team_of try the chosen team first, for the rest of this request."""
    if request.user.is_authenticated:
        request.user._chosen_team = chosen_team(request)  # type: ignore[attr-defined]


def owning_team(user: AbstractBaseUser | AnonymousUser) -> Team:
    """The team that owns what `user` makes: the chosen one if they may there, else the first in which they may.

    Raises PermissionDenied when there is none.
    """
    chosen = Q(team_id=getattr(user, "_chosen_team", None))
    mine = teams_of(user).select_related("team")
    membership = mine.order_by(Case(When(chosen, then=0), default=1), "pk").first()
    if membership is not None:
        return membership.team
    if Membership.objects.filter(user_id=user.pk or 0).exists():
        raise PermissionDenied(
            f"That needs the role {required_role(user).short_label.lower()} in a team of yours."
        )
    raise PermissionDenied("You belong to no team yet; ask an admin to add you to one.")


def join_first_team(user: AbstractBaseUser) -> Team:
    """Make the first team if there is none, and put the user into it."""
    team, _ = Team.objects.get_or_create(name=FIRST_TEAM)
    Membership.objects.get_or_create(team=team, user_id=user.pk)
    return team
