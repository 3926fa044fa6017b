"""Rows to move about: a host, a topology and a campaign with layouts and attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Credential, Host
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies.models import Topology

SCRATCH = [{"kind": "directory", "options": {}, "devices": []}]


@pytest.fixture
def host(team) -> Host:
    credential = Credential.objects.create(
        team=team, name="key", public_key="ssh-ed25519 AAAA", private_key=b"x"
    )
    return Host.objects.create(team=team, name="lab1", address="127.0.0.1", credential=credential)


@pytest.fixture
def campaign(team, user) -> Campaign:
    return Campaign.objects.create(team=team, name="first", seed=1, created_by=user)


@pytest.fixture
def make_layout(team, host, campaign) -> Callable[..., Layout]:
    topology = Topology.objects.create(team=team, name="scratch", stack=SCRATCH)
    workload = Workload.objects.create(team=team, name="w", tool="dd", options={})

    def make(phase="waiting", runs=1, on=None, **fields) -> Layout:
        layout = Layout.objects.create(
            campaign=campaign,
            host=on or host,
            topology=topology,
            stack=SCRATCH,
            phase=phase,
            **fields,
        )
        for _ in range(runs):
            position = Run.objects.filter(campaign=campaign).count()
            run = Run.objects.create(
                campaign=campaign,
                host=layout.host,
                topology=topology,
                workload=workload,
                tool="dd",
                options={},
                point={"n": position},
                repeat=1,
                position=position,
            )
            Attempt.objects.create(run=run, layout=layout)
        return layout

    return make
