"""API tokens: shown once, stored as a hash, and never more than they say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from benchlab.team import tokens
from benchlab.team.models import ApiToken, Membership, Team
from benchlab.team.roles import Role
from tests.api.conftest import is_problem
from tests.charts import made

FORM = {"name": "notebook", "role": "viewer", "team": "", "days": 30}


def client(key: str) -> APIClient:
    found = APIClient()
    found.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    return found


@pytest.fixture
def second(user) -> Team:
    team = Team.objects.create(name="Second")
    Membership.objects.create(team=team, user=user, role=Role.OWNER)
    return team


def test_it_is_shown_once_and_can_be_revoked(web, user):
    page = reverse("api-token")
    assert "no token yet" in web.get(page).text
    answer = web.post(page, FORM)
    key = answer.context["fresh"]
    assert answer["Cache-Control"] == "no-store" and key in answer.text
    (row,) = ApiToken.objects.all()
    assert key not in str(vars(row)) and key not in web.get(page).text
    assert client(key).get("/api/hosts/").status_code == 200
    web.post(reverse("api-token-revoke", args=[row.pk]))
    is_problem(client(key).get("/api/hosts/"), 401)


def test_nobody_revokes_another_ones(web, other_user):
    row, _ = tokens.make(other_user, "theirs", Role.VIEWER)
    assert web.post(reverse("api-token-revoke", args=[row.pk])).status_code == 404
    assert ApiToken.objects.filter(pk=row.pk).exists()


def test_a_viewers_token_of_an_owner_changes_nothing(user):
    _, key = tokens.make(user, "reader", Role.VIEWER)
    said = is_problem(client(key).post("/api/credentials/", {"name": "k"}), 403)
    assert "this token is a viewer's" in said["detail"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_limited_token_does_not_leave_the_team(user, other_user, team, role):
    """What its person is there is more than it may give up."""
    Membership.objects.create(team=team, user=other_user, role=Role.OWNER)
    _, key = tokens.make(user, "reader", role)
    said = is_problem(client(key).post(f"/api/teams/{team.pk}/leave/"), 403)
    assert "token is limited" in said["detail"]
    assert Membership.objects.filter(team=team, user=user).exists()
    _, key = tokens.make(user, "mine", Role.OWNER)
    assert client(key).post(f"/api/teams/{team.pk}/leave/").status_code == 204


def test_an_owners_token_of_a_viewer_is_a_viewers(user):
    Membership.objects.update(role=Role.VIEWER)
    _, key = tokens.make(user, "hope", Role.OWNER)
    is_problem(client(key).post("/api/credentials/", {"name": "k"}), 403)


def test_it_sees_only_its_team(user, team, second):
    made.topology(team, "ours")
    made.topology(second, "seconds")
    _, key = tokens.make(user, "narrow", Role.VIEWER, team=second)
    found = client(key).get("/api/topologies/").json()["results"]
    assert [row["name"] for row in found] == ["seconds"]


def test_it_expires(user):
    row, key = tokens.make(user, "old", Role.VIEWER, days=1)
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired" in is_problem(client(key).get("/api/hosts/"), 401)["detail"]


def test_when_it_was_last_used_is_kept_to_the_minute(user, django_assert_num_queries):
    row, key = tokens.make(user, "used", Role.VIEWER)
    client(key).get("/api/hosts/")
    row.refresh_from_db()
    seen = row.last_used_at
    assert seen is not None
    client(key).get("/api/hosts/")
    row.refresh_from_db()
    assert row.last_used_at == seen
