# SPDX-License-Identifier: Apache-2.0
"""Roles in a team, and what a request needs: the least role for each URL and method stands in permissions.py."""

from __future__ import annotations

from django.db import models
from django.db.models import Case, Value, When


class Role(models.TextChoices):
    """Roles in a team, from the least to the most; each may do what those before it may."""

    VIEWER = "viewer", "Viewer: sees everything of the team"
    OPERATOR = "operator", "Operator: runs campaigns on its hosts"
    OWNER = "owner", "Owner: marks disks spare, keeps credentials and members"

    @property
    def short_label(self) -> str:
        return self.label.partition(":")[0]

    @property
    def and_above(self) -> list[str]:
        every = list(type(self))
        return [role.value for role in every[every.index(self) :]]

    @property
    def and_below(self) -> list[str]:
        every = list(type(self))
        return [role.value for role in every[: every.index(self) + 1]]


def role_rank(name: str = "role") -> Case:
    """Expression that orders rows by their role in column `name`, the least role first."""
    whens = [When(**{name: role.value}, then=Value(at)) for at, role in enumerate(Role)]
    return Case(*whens, output_field=models.IntegerField())


def limit_user(user: object, most: Role, team: int | None) -> None:
    """Limit the user in this request to the role `most` and, with `team`, to that team: the limits of a token."""
    user._most_role, user._only_team = most, team  # type: ignore[attr-defined]


def highest_role(user: object) -> Role:
    return getattr(user, "_most_role", Role.OWNER)


def only_team(user: object) -> int | None:
    return getattr(user, "_only_team", None)


def require_role(user: object, role: Role) -> None:
    """Limit the user, for the rest of this request, to rows of teams where they have at least this role."""
    user._least_role = role  # type: ignore[attr-defined]


def required_role(user: object) -> Role:
    """Least role that the request requires; the lowest role, which may only see, by default."""
    return getattr(user, "_least_role", Role.VIEWER)
