# SPDX-License-Identifier: Apache-2.0
"""Members of a team, as an owner manages them. A team always keeps an owner who can log in."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction

from benchlab.team import invitations
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role


@transaction.atomic
def change_role(member: Membership, role: Role) -> None:
    """Change a member's role. Raises ValidationError when the team's last owner would be lowered."""
    if role is not Role.OWNER:
        _check_owner_remains(member)
        invitations.revoke_all_of(member.user_id, member.team_id)
    Membership.objects.filter(pk=member.pk).update(role=role)
    member.role = role


@transaction.atomic
def remove_member(member: Membership) -> None:
    """Remove a member, also by their own wish. Raises ValidationError when nobody would own the team any more."""
    _check_owner_remains(member)
    invitations.revoke_all_of(member.user_id, member.team_id)
    member.delete()


def _check_owner_remains(member: Membership) -> None:
    # Two owners who leave at once would each see the other.
    team = Team.objects.select_for_update().get(pk=member.team_id)
    others = Membership.objects.filter(team=team, role=Role.OWNER, user__is_active=True)
    if not others.exclude(pk=member.pk).exists():
        owner = Membership.objects.filter(pk=member.pk, role=Role.OWNER).exists()
        if owner:
            raise ValidationError(
                f"{member.user} is the last owner of {team.name}: make somebody else an owner first."
            )
