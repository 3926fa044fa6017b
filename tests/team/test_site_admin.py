"""The site admin's powers (THREAT_MODEL.md): no team's rows as such, but ways into all, every one logged."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from benchlab.audit.models import Entry
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.charts import made


@pytest.fixture
def admin(db) -> User:
    return User.objects.create_superuser("root", password="a-password")


@pytest.fixture
def web(admin) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_being_one_shows_no_row_of_a_team(web, admin, team):
    host = made.host(team, "secret-host")
    assert web.get(reverse("host-detail", args=[host.pk])).status_code == 404
    assert "secret-host" not in web.get(reverse("host-list")).text
    api = APIClient()
    api.force_authenticate(admin)
    assert api.get("/api/hosts/").json()["results"] == []
    assert api.get(f"/api/hosts/{host.pk}/").status_code == 404
    assert api.delete(f"/api/hosts/{host.pk}/").status_code in (403, 404)


def test_every_way_in_is_told_in_the_audit_log(web, admin, team, user):
    Membership.objects.filter(user=user).update(role=Role.OWNER)
    assert web.post(reverse("site-team-owner", args=[team.pk])).status_code == 200
    assert web.post(reverse("site-user-reset", args=[user.pk])).status_code == 200
    assert web.post(reverse("site-user-factor", args=[user.pk])).status_code == 302
    told = set(Entry.objects.filter(actor="root", outcome="done").values_list("action", flat=True))
    assert told >= {"site-team-owner", "site-user-reset", "site-user-factor"}
