"""A viewer of the team, and a site admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchlab.team.models import Membership
from benchlab.team.roles import Role


@pytest.fixture
def carol(team) -> Membership:
    person = User.objects.create_user("carol", password="carol-password")
    return Membership.objects.create(team=team, user=person, role=Role.VIEWER)


@pytest.fixture
def root(db) -> Client:
    User.objects.create_superuser("root", password="root-password")
    client = Client()
    client.post("/login/", {"login": "root", "password": "root-password"})
    return client
