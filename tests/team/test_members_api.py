"""Members, roles and invitations over REST."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from benchlab.team import tokens
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role


@pytest.fixture
def api(user) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {tokens.create_token(user, 't', Role.OWNER)[1]}")
    return client


def test_members_over_rest(api, team, user, carol):
    rows = api.get("/api/memberships/").json()["results"]
    assert {(row["user"], row["role"]) for row in rows} == {("alice", "owner"), ("carol", "viewer")}
    answer = api.patch(f"/api/memberships/{carol.pk}/", {"role": "operator"})
    assert answer.status_code == 200 and answer.json()["role"] == "operator"
    mine = Membership.objects.get(user=user)
    for refused in (
        api.patch(f"/api/memberships/{mine.pk}/", {"role": "viewer"}),
        api.delete(f"/api/memberships/{mine.pk}/"),
        api.post(f"/api/teams/{team.pk}/leave/"),
    ):
        assert refused.status_code == 409 and "last owner" in refused.json()["detail"]
    assert api.delete(f"/api/memberships/{carol.pk}/").status_code == 204


def test_invitations_over_rest(api, team, other_user):
    answer = api.post("/api/invitations/", {"team": team.pk, "role": "viewer"})
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert Client().get(made["link"]).status_code == 200
    row = api.get(f"/api/invitations/{made['id']}/").json()
    assert "link" not in row and row["state"] == "open" and row["invited_by"] == "alice"
    assert api.post(f"/api/invitations/{made['id']}/revoke/").json()["state"] == "revoked"
    assert Client().get(made["link"]).status_code == 410
    others = Team.objects.get(name="Others")
    assert api.post("/api/invitations/", {"team": others.pk}).status_code == 400


def test_who_owns_one_team_invites_nobody_into_another(api, user):
    second = Team.objects.create(name="Second")
    Membership.objects.create(team=second, user=user, role=Role.OPERATOR)
    assert api.post("/api/invitations/", {"team": second.pk}).status_code == 400


def test_a_team_over_rest(api, team, root):
    answer = api.patch(f"/api/teams/{team.pk}/", {"name": "Disks"})
    assert answer.json()["name"] == "Disks"
    assert api.post("/api/teams/", {"name": "Mine"}).status_code == 403
    admin = User.objects.get(username="root")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {tokens.create_token(admin, 't', Role.OWNER)[1]}")
    assert client.post("/api/teams/", {"name": "Mine"}).status_code == 201
    limited = APIClient()
    limited.credentials(
        HTTP_AUTHORIZATION=f"Token {tokens.create_token(admin, 'v', Role.VIEWER)[1]}"
    )
    assert limited.post("/api/teams/", {"name": "More"}).status_code == 403
