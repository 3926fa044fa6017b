"""A campaign with results, and a topology and a workload that nothing uses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from rest_framework.test import APIClient

from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.workers import messages
from tests.api.conftest import client_of
from tests.audit.test_audit import sealed
from tests.charts import made

__all__ = ["sealed"]  # of each test its own: some before it empty all tables


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def api(user) -> APIClient:
    return client_of(user)


@pytest.fixture
def lab(team, user) -> SimpleNamespace:
    host = made.host(team)
    stack, load, campaign = made.topology(team, "stripe"), made.workload(team), made.campaign(team)
    attempts = made.swept(campaign, host, stack, load, depths=(1, 4), repeats=2)
    made.sampled(attempts[0], disks=1, seconds=5)
    return SimpleNamespace(
        team=team,
        host=host,
        campaign=campaign,
        topology=stack,
        workload=load,
        attempts=attempts,
        layout=attempts[0].layout,
        run=attempts[0].run,
        free_topology=made.topology(team, "spare idea"),
        free_workload=made.workload(team, "spare load"),
    )


@pytest.fixture
def as_role(user, web):
    def become(role: Role) -> Client:
        Membership.objects.filter(user=user).update(role=role)
        return web

    return become


def typed(campaign) -> dict[str, str]:
    return {"typed": f"delete {campaign}"}
