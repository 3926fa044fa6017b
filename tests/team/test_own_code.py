"""Whoever may write a command is root on the team's hosts."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from rest_framework.test import APIClient

from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import create_workload
from benchlab.team import tokens
from benchlab.team.models import Membership, has_role
from benchlab.team.roles import Role, limit_user
from benchlab.topologies.models import Topology
from tests.api.conftest import client_of, is_problem
from tests.charts import made


def test_only_an_owner_writes_code_that_runs_as_root(team, user):
    wanted = {"team": team, "user": user, "tool": "command", "options": {"command": "id"}}
    create_workload(name="mine", **wanted)
    Membership.objects.update(role=Role.OPERATOR)
    with pytest.raises(ValidationError, match="only an owner may make it"):
        create_workload(name="yours", **wanted)


PROGRAMS = [
    ("pg_test_fsync", {"program": "/var/tmp/pg_test_fsync"}, {}),
    ("dynamo", {"binary": "/var/tmp/dynamo"}, {}),
    ("dynamo", {}, {"binary": ["dynamo", "/var/tmp/dynamo"]}),
]


@pytest.mark.parametrize(("tool", "options", "sweep"), PROGRAMS)
def test_only_an_owner_names_a_program_that_runs_as_root(team, user, tool, options, sweep):
    """Any user of the host could have put it where it is."""
    wanted = {"team": team, "user": user, "tool": tool, "options": options, "sweep": sweep}
    create_workload(name="mine", **wanted)
    Membership.objects.update(role=Role.OPERATOR)
    with pytest.raises(ValidationError, match=r"it runs /var/tmp/\w+ as root .* only an owner"):
        create_workload(name="yours", **wanted)
    create_workload(name="plain", **(wanted | {"options": {}, "sweep": {}}))


@pytest.mark.parametrize("binary", ["reboot", "./dynamo", "bin/dynamo", "-x", "", "/a\nb"])
def test_a_program_is_named_by_its_whole_path(team, user, binary):
    with pytest.raises(ValidationError, match=r"binary: .* nor an absolute path"):
        create_workload(team=team, user=user, name="w", tool="dynamo", options={"binary": binary})


@pytest.fixture
def operators_token(user) -> APIClient:
    """Of an owner."""
    client = APIClient()
    _, key = tokens.create_token(user, "runs", Role.OPERATOR)
    client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    return client


def test_nor_does_an_owners_operator_token(team, user, operators_token):
    """Neither make one, nor turn a harmless one into one, nor have made whatever a campaign could start."""
    evil = {"name": "evil", "tool": "command", "options": {"command": "id"}}
    said = is_problem(operators_token.post("/api/workloads/", evil), 400)
    assert "only an owner may make it" in str(said["errors"])
    assert not Workload.objects.exists()
    harmless = made.workload(team)
    address = f"/api/workloads/{harmless.pk}/"
    assert operators_token.put(address, evil).status_code == 405
    # Another name is all that it may have
    said = is_problem(operators_token.patch(address, evil), 400)
    assert {"tool", "options"} <= said["errors"].keys()
    harmless.refresh_from_db()
    assert harmless.tool == "fio"
    matrix = {
        "name": "c",
        "hosts": [made.host(team).pk],
        "topologies": [made.topology(team, "raw").pk],
    }
    answer = operators_token.post("/api/campaigns/", {**matrix, "workloads": [evil]})
    assert answer.status_code == 400 and not Campaign.objects.exists()


def test_an_owners_own_token_does(team, user):
    sent = {"name": "mine", "tool": "command", "options": {"command": "id"}}
    assert client_of(user).post("/api/workloads/", sent).status_code == 201


def test_an_operators_token_starts_what_an_owner_wrote(team, user, operators_token):
    """As an operator does: the code is the owner's, and frozen with the campaign."""
    mine = create_workload(
        team=team, user=user, name="mine", tool="command", options={"command": "id"}
    )
    scratch = Topology.objects.create(
        team=team, name="scratch", stack=[{"kind": "directory", "options": {}, "devices": []}]
    )
    sent = {
        "name": "c", "hosts": [made.host(team).pk], "topologies": [scratch.pk],
        "workloads": [mine.pk],
    }  # fmt: skip
    answer = operators_token.post("/api/campaigns/", sent)
    assert answer.status_code == 201, answer.content


@pytest.mark.parametrize("only", [True, False])
def test_a_role_within_a_tokens_limits(team, user, other_user, only):
    other = other_user.teams.get()
    Membership.objects.create(team=other, user=user, role=Role.OWNER)
    assert has_role(user, team.pk, Role.OWNER) and not has_role(other_user, team.pk, Role.VIEWER)
    limit_user(user, Role.OPERATOR, team.pk if only else None)
    assert not has_role(user, team.pk, Role.OWNER) and has_role(user, team.pk, Role.OPERATOR)
    assert has_role(user, other.pk, Role.OPERATOR) is not only
