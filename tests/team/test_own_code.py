"""Whoever may write a command is root on the team's hosts."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from benchlab.campaigns.services import create_workload
from benchlab.team.models import Membership
from benchlab.team.roles import Role


def test_only_an_owner_writes_code_that_runs_as_root(team, user):
    made = {"team": team, "user": user, "tool": "command", "options": {"command": "id"}}
    create_workload(name="mine", **made)
    Membership.objects.update(role=Role.OPERATOR)
    with pytest.raises(ValidationError, match="only an owner may make it"):
        create_workload(name="yours", **made)
