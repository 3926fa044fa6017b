"""The team of a new row, when somebody is in several teams: the one that is asked for, else the one that pages take."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Credential
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from tests.api.conftest import DIRECTORY, is_problem
from tests.charts import made

NOUNS = ("credentials", "hosts", "topologies", "workloads", "campaigns")


@pytest.fixture
def second(user) -> Team:
    team = Team.objects.create(name="Second")
    Membership.objects.create(team=team, user=user, role=Role.OWNER)
    return team


def body(noun: str, team: Team) -> dict[str, Any]:
    """Body that makes one of a team's."""
    if noun == "hosts":
        key, _ = Credential.objects.get_or_create(
            team=team, name="k", defaults={"public_key": "x", "private_key": b"x"}
        )
        return {"name": "new", "address": "192.0.2.7", "credential": key.pk}
    if noun == "campaigns":
        host = made.host(team, f"h {team}")
        load, _ = Workload.objects.get_or_create(team=team, name="w", defaults={"tool": "fio"})
        stack, _ = Topology.objects.get_or_create(
            team=team, name="t", defaults={"stack": DIRECTORY}
        )
        return {"name": "new", "hosts": [host.pk], "topologies": [stack.pk], "workloads": [load.pk]}
    more: dict[str, dict[str, Any]] = {
        "topologies": {"stack": DIRECTORY},
        "workloads": {"tool": "fio", "options": {}},
    }
    return {"name": "new", **more.get(noun, {})}


@pytest.mark.parametrize("noun", NOUNS)
def test_a_row_is_made_in_the_team_that_is_asked_for(api, user, team, second, noun):
    for whose in (second, team):
        said = api.post(f"/api/{noun}/", body(noun, whose) | {"team": whose.pk})
        assert said.status_code == 201, said.content
        assert said.json()["team"] == whose.pk
        row = api.get(f"/api/{noun}/{said.json()['id']}/").json()
        assert row["team"] == whose.pk


@pytest.mark.parametrize("noun", NOUNS)
def test_without_one_it_is_the_pages(api, user, team, second, noun):
    assert api.post(f"/api/{noun}/", body(noun, team)).json()["team"] == team.pk


def test_a_page_that_chose_a_team_has_it_in_its_scripts_too(web, second):
    web.post("/team/choose/", {"team": second.pk})
    wish = {"name": "new", "stack": DIRECTORY}
    said = web.post("/api/topologies/", wish, content_type="application/json")
    assert said.status_code == 201 and said.json()["team"] == second.pk


@pytest.mark.parametrize("noun", NOUNS)
def test_not_in_a_team_of_others_nor_where_the_role_is_too_low(
    api, user, team, second, other_user, noun
):
    Membership.objects.filter(team=second).update(role=Role.VIEWER)
    theirs = other_user.teams.get()
    wish = body(noun, team)
    for whose in (second.pk, theirs.pk, 2**40):
        problem = is_problem(api.post(f"/api/{noun}/", wish | {"team": whose}), 403)
        assert str(whose) in problem["detail"]
    for bad in ("x", None, [1]):
        assert "team" in is_problem(api.post(f"/api/{noun}/", wish | {"team": bad}), 400)["errors"]


def test_rows_of_two_teams_are_not_mixed(api, team, second):
    for noun in ("hosts", "campaigns"):
        is_problem(api.post(f"/api/{noun}/", body(noun, team) | {"team": second.pk}), 400)
    # Without a team a host goes where its key is.
    assert api.post("/api/hosts/", body("hosts", second)).json()["team"] == second.pk


def test_a_token_of_one_team_makes_nothing_in_another(user, team, second):
    from benchlab.team import tokens

    _, key = tokens.create_token(user, "one", Role.OWNER, team=team)
    client = Client(headers={"Authorization": f"Token {key}"})
    wish = {"name": "new", "stack": DIRECTORY, "team": second.pk}
    said = client.post("/api/topologies/", wish, content_type="application/json")
    is_problem(said, 403)
