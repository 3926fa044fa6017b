"""Which team a person's new things belong to."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied

from benchlab.team.models import Membership, Team, teams_of
from benchlab.team.roles import asked_of

FIRST_TEAM = "Lab"


def team_of(user: AbstractBaseUser | AnonymousUser) -> Team:
    """The team that owns what `user` makes: the first in which they may. Raises PermissionDenied when there is none."""
    membership = teams_of(user).select_related("team").first()
    if membership is not None:
        return membership.team
    if Membership.objects.filter(user_id=user.pk or 0).exists():
        raise PermissionDenied(
            f"That needs the role {asked_of(user).word.lower()} in a team of yours."
        )
    raise PermissionDenied("You belong to no team yet; ask an admin to add you to one.")


def join_first_team(user: AbstractBaseUser) -> Team:
    """Make the first team if there is none, and put the user into it."""
    team, _ = Team.objects.get_or_create(name=FIRST_TEAM)
    Membership.objects.get_or_create(team=team, user_id=user.pk)
    return team
