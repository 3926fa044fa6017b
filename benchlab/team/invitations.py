# SPDX-License-Identifier: Apache-2.0
"""Invitations: who joins, with which role, and who invited them. The database stores only the SHA-256 of a link."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role

VALID_DAYS = 7
# the key of what a person came with who goes through single sign-on
SESSION_KEY = "invitation"
ASK_FOR_NEW = "Ask whoever sent it for a new one."


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def invite(team: Team, role: Role, by: AbstractBaseUser, email: str = "") -> tuple[Invitation, str]:
    """Create an invitation. Return the row, and the token, which is stored nowhere.

    Raises ValidationError for the library, which has no members.
    """
    if team.library:
        raise ValidationError("The reference library has no members.")
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        team=team,
        role=role,
        email=email,
        digest=token_digest(token),
        invited_by_id=by.pk,
        expires_at=timezone.now() + timedelta(days=VALID_DAYS),
    )
    return invitation, token


def open_invitations() -> QuerySet[Invitation]:
    now = timezone.now()
    return Invitation.objects.filter(used_at=None, revoked_at=None, expires_at__gt=now)


def find_invitation(token: str) -> Invitation:
    """The open invitation. Raises ValidationError in words for the person with the link."""
    rows = Invitation.objects.select_related("team", "invited_by")
    invitation = rows.filter(digest=token_digest(token)).first()
    if invitation is None:
        raise ValidationError(f"There is no such invitation. {ASK_FOR_NEW}")
    if invitation.state != "open":
        how = {"used": "was used already", "revoked": "was taken back", "expired": "has expired"}
        raise ValidationError(f"This invitation {how[invitation.state]}. {ASK_FOR_NEW}")
    return invitation


def remember_invitation(session: SessionBase, invitation: Invitation) -> None:
    """Store the invitation's id in the session for `remembered_invitation`.

    A link would let in whoever reads the table of sessions.
    """
    session[SESSION_KEY] = invitation.pk


def remembered_invitation(session: SessionBase) -> Invitation | None:
    """The invitation that this session has opened, as long as it is open."""
    number = session.get(SESSION_KEY)
    return open_invitations().filter(pk=number).first() if isinstance(number, int) else None


@transaction.atomic
def accept_invitation(invitation: Invitation, user: AbstractBaseUser) -> Membership:
    """Accept the invitation. Raises ValidationError if somebody was faster, or the user is in the team already."""
    if Membership.objects.filter(team=invitation.team_id, user_id=user.pk).exists():
        raise ValidationError("You are in this team already.")
    won = open_invitations().filter(pk=invitation.pk)
    if not won.update(used_at=timezone.now(), used_by_id=user.pk):
        raise ValidationError(f"This invitation is no longer open. {ASK_FOR_NEW}")
    return Membership.objects.create(
        team_id=invitation.team_id, user_id=user.pk, role=invitation.role
    )


def revoke_invitation(invitation: Invitation) -> None:
    """Revoke an invitation. Repeating it changes nothing; a used one stays used."""
    open_invitations().filter(pk=invitation.pk).update(revoked_at=timezone.now())


def revoke_all_of(user_id: int, team_id: int | None = None) -> None:
    """Revoke the open invitations by somebody who may no longer invite; those of all teams without `team_id`."""
    rows = open_invitations().filter(invited_by=user_id)
    (rows.filter(team=team_id) if team_id else rows).update(revoked_at=timezone.now())
