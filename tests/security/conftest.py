"""A lab whose host means harm, seen by an owner who is also a site admin."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchlab.hosts import services
from benchlab.runs import commands
from benchlab.sharing import links
from benchlab.team import invitations
from benchlab.team.models import Invitation, Membership
from benchlab.team.roles import Role
from tests.security import hostile
from tests.team.test_table import PAGES, RUNS_LINK, TOKEN


@pytest.fixture
def rows(team, monkeypatch) -> SimpleNamespace:
    monkeypatch.setattr(commands, "_send", lambda task, pk: None)
    for name in ("offer_key", "read_facts"):
        monkeypatch.setattr(services, name, lambda host: "")
    made = hostile.rows(team)
    made.person = User.objects.create_user("somebody")
    made.member = Membership.objects.create(team=team, user=made.person, role=Role.OPERATOR)
    made.invitation = Invitation.objects.get(team=team)
    made.invitation.digest = invitations.digest(TOKEN)
    made.invitation.save()
    for share, token in ((made.share, TOKEN), (made.run_share, RUNS_LINK)):
        share.digest = links.digest(token)
        share.hide_hosts = False
        share.save()
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
