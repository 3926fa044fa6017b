"""A lab whose host means harm, seen by an owner who is also a site admin."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchlab.hosts import host_tasks
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.security import hostile
from tests.team.test_table import PAGES
from tests.team.test_table import rows as table_rows  # noqa: F401


@pytest.fixture
def rows(table_rows, monkeypatch, worker_seen) -> SimpleNamespace:  # noqa: F811
    """Those of the walk over the permission table, made hostile."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    monkeypatch.setattr(host_tasks, "MAX_WAIT_S", 0)
    made = hostile.spoil(table_rows)
    made.share.hide_hosts = made.run_share.hide_hosts = False
    made.share.save()
    made.run_share.save()
    file = made.draft.files.first()
    for name, route in list(PAGES.items()):
        for part, value in (
            ("<slug:which>", "caches"),
            ("<int:file_pk>", str(file.pk if file else 1)),
        ):
            route = route.replace(part, value)
        monkeypatch.setitem(PAGES, name, route)
    return made


@pytest.fixture
def owner(team) -> Client:
    person = User.objects.create_superuser("root", password="a-password-of-root")
    Membership.objects.create(team=team, user=person, role=Role.OWNER)
    client = Client()
    client.force_login(person)
    return client
