"""A token as the password of the user `token`: for tools that take nothing but a URL."""

from __future__ import annotations

import base64

import pytest
from rest_framework.test import APIClient

from benchlab.team import tokens
from benchlab.team.roles import Role
from tests.api.conftest import is_problem


def sent(user: str, password: str) -> APIClient:
    client = APIClient()
    packed = base64.b64encode(f"{user}:{password}".encode()).decode()
    client.credentials(HTTP_AUTHORIZATION=f"Basic {packed}")
    return client


def test_a_token_by_basic(user, ours):
    _, key = tokens.create_token(user, "url", Role.VIEWER)
    assert sent("token", key).get("/api/results/").status_code == 200
    assert sent("token", key).get("/api/hosts/").status_code == 200


@pytest.mark.parametrize("name", ["alice", ""])
def test_a_password_is_none(user, ours, name):
    _, key = tokens.create_token(user, "url", Role.VIEWER)
    is_problem(sent(name, key).get("/api/results/"), 401)
    is_problem(sent("alice", "alice-password").get("/api/results/"), 401)


@pytest.mark.parametrize("packed", ["", "%%%", "dG9rZW4=", "ÿ"])
def test_what_is_no_basic(db, packed):
    answer = APIClient().get("/api/results/", HTTP_AUTHORIZATION=f"Basic {packed}")
    is_problem(answer, 401)


def test_never_in_the_query_string(user, ours):
    _, key = tokens.create_token(user, "url", Role.VIEWER)
    is_problem(APIClient().get(f"/api/results/?token={key}"), 401)
