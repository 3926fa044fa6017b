# SPDX-License-Identifier: Apache-2.0
"""Permission levels that a page or an API action may require."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from benchlab.team.roles import Role


class Level(Enum):
    """Level that a request needs; the words stand in the docs."""

    ANYONE = "anyone, also without an account"
    SIGNED_IN = "anyone with an account"
    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"
    SITE_ADMIN = "site admin"

    @property
    def role(self) -> Role | None:
        """Role in the row's team; None where teams do not matter."""
        return Role(self.value) if self.value in Role.values else None


ANYONE, SIGNED_IN, SITE_ADMIN = Level.ANYONE, Level.SIGNED_IN, Level.SITE_ADMIN
VIEWER, OPERATOR, OWNER = Level.VIEWER, Level.OPERATOR, Level.OWNER


@dataclass(frozen=True, slots=True)
class Rule:
    """Levels of a page. `see`: GET and HEAD; `do`: every other method. None: there is no such."""

    see: Level | None = None
    do: Level | None = None
