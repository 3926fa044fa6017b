"""Roles of a person in each team, for pages that show no button which would be refused.

It comes with the user's own row (backend.py), so it costs no query; the table (permissions.py) still decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef
from django.db.models.functions import JSONObject

from benchlab.team.models import Membership
from benchlab.team.roles import Role


@dataclass(frozen=True, slots=True)
class In:
    """One team of a person."""

    team: int
    name: str
    role: Role
    require_mfa: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """`viewer`, `operator`, `owner`: ids of the teams where they are at least that."""

    teams: tuple[In, ...] = ()
    second_factor: bool = False
    site_admin: bool = False

    def at_least(self, role: Role) -> frozenset[int]:
        return frozenset(one.team for one in self.teams if one.role in role.and_above)

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
        return [one.name for one in self.teams if one.require_mfa and not self.second_factor]


def columns(user: str = "pk") -> dict[str, Any]:
    """For `annotate` on rows whose column `user` is a user's id."""
    factor = Authenticator.objects.filter(user=OuterRef(user), type=Authenticator.Type.TOTP)
    mine = Membership.objects.filter(user=OuterRef(user)).order_by("pk")
    row = JSONObject(
        team="team_id", name="team__name", role="role", require_mfa="team__require_mfa"
    )
    return {"_teams": ArraySubquery(mine.values(row=row)), "_factor": Exists(factor)}


def pass_on(row: Any, user: AbstractBaseUser) -> None:
    """From a row that was asked for with its user."""
    user._teams, user._factor = row._teams, row._factor  # type: ignore[attr-defined]


def of(user: AbstractBaseUser | AnonymousUser) -> Standing:
    """Standing that came with the row; asked anew for a user who came some other way (a token's)."""
    if not user.is_authenticated:
        return Standing()
    if not hasattr(user, "_teams"):
        row: Any = User.objects.filter(pk=user.pk).annotate(**columns()).first()
        return _standing(user, row._teams, row._factor) if row else Standing()
    return _standing(user, user._teams, getattr(user, "_factor", False))


def _standing(user: Any, teams: Iterable[dict[str, Any]], factor: bool) -> Standing:
    rows = tuple(In(**{**row, "role": Role(row["role"])}) for row in teams)
    return Standing(rows, factor, user.is_superuser)
