# SPDX-License-Identifier: Apache-2.0
"""Roles of a person in each team, for pages that show no button which would be refused.

It comes with the user's own row (backend.py), so it costs no query; the table (permissions.py) still decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import BooleanField, JSONField
from django.db.models.expressions import RawSQL

from benchlab.team.roles import Role

# As SQL: every request asks for these, and Django takes 2 ms to translate them from expressions.
TEAMS_SQL = """(
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'team', m.team_id, 'name', t.name, 'role', m.role, 'require_mfa', t.require_mfa
    ) ORDER BY m.id), '[]')
    FROM team_membership m JOIN team_team t ON t.id = m.team_id
    WHERE m.user_id = {user}
)"""
FACTOR_SQL = "EXISTS (SELECT FROM mfa_authenticator WHERE user_id = {user} AND type = 'totp')"
# Columns with a user's id: of users themselves, and of tokens.
USER_COLUMN, TOKEN_USER_COLUMN = "auth_user.id", "team_apitoken.user_id"


@dataclass(frozen=True, slots=True)
class TeamRole:
    """One team of a person, with their role in it."""

    team: int
    name: str
    role: Role
    require_mfa: bool


@dataclass(frozen=True, slots=True)
class UserRoles:
    """`viewer`, `operator`, `owner`: ids of the teams where they are at least that."""

    teams: tuple[TeamRole, ...] = ()
    second_factor: bool = False
    site_admin: bool = False

    def at_least(self, role: Role) -> frozenset[int]:
        return frozenset(
            team_role.team for team_role in self.teams if team_role.role in role.and_above
        )

    @property
    def viewer(self) -> frozenset[int]:
        return self.at_least(Role.VIEWER)

    @property
    def operator(self) -> frozenset[int]:
        return self.at_least(Role.OPERATOR)

    @property
    def owner(self) -> frozenset[int]:
        return self.at_least(Role.OWNER)

    @property
    def locked_by(self) -> list[str]:
        """Names of teams that demand a second factor which the person has not."""
        return [
            team_role.name
            for team_role in self.teams
            if team_role.require_mfa and not self.second_factor
        ]


def role_columns(user: str = USER_COLUMN) -> dict[str, Any]:
    """Columns for `annotate` on rows whose column `user` is a user's id."""
    # The SQL contains no text from a request.
    teams = RawSQL(TEAMS_SQL.format(user=user), (), JSONField())  # noqa: S611
    factor = RawSQL(FACTOR_SQL.format(user=user), (), BooleanField())  # noqa: S611
    return {"_teams": teams, "_factor": factor}


def copy_roles(row: Any, user: AbstractBaseUser) -> None:
    """Copy the roles of a user from a row that was queried with `role_columns`."""
    user._teams, user._factor = row._teams, row._factor  # type: ignore[attr-defined]


def user_roles(user: AbstractBaseUser | AnonymousUser) -> UserRoles:
    """Roles that came with the user's row; queried for a user without them (a token's)."""
    if not user.is_authenticated:
        return UserRoles()
    if not hasattr(user, "_teams"):
        row: Any = User.objects.filter(pk=user.pk).annotate(**role_columns()).first()
        return _to_roles(user, row._teams, row._factor) if row else UserRoles()
    return _to_roles(user, user._teams, getattr(user, "_factor", False))


def _to_roles(user: Any, teams: Iterable[dict[str, Any]], factor: bool) -> UserRoles:
    rows = tuple(TeamRole(**{**row, "role": Role(row["role"])}) for row in teams)
    return UserRoles(rows, factor, user.is_superuser)
