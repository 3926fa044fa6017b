"""The client starts a campaign by the real API, with its own web server and worker, on this machine as the host."""

from __future__ import annotations

import os

import pytest
from django.db import connections

from benchlab.campaigns.models import Workload
from benchlab.client import Lab, LabError
from benchlab.engine.new_runs import create_campaign
from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from benchlab.workers import messages
from tests import stack
from tests.runs import local_host

pytestmark = pytest.mark.django_db(transaction=True)
# Another process may run the other test at the same time: their workers must not take each other's messages.
REDIS = 10 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 3
SMALL = {"block_size": 65536, "count": 16}


@pytest.fixture
def make_campaign(team, user, tmp_path, monkeypatch):
    # Only the server's own wishes count
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    tmp_path.chmod(0o755)
    with local_host.served(tmp_path / "state") as server:
        here = local_host.register(team, *server)
        load = Workload.objects.create(team=team, name="dd", tool="dd", options=SMALL)

        def make(*devices):
            layer = {
                "kind": "directory",
                "options": {"path": str(tmp_path / "scratch")},
                "devices": [],
            }
            layers = (
                [layer]
                if not devices
                else [{"kind": "raw", "options": {}, "devices": list(devices)}]
            )
            topology = Topology.objects.create(team=team, name=f"t{len(devices)}", stack=layers)
            return create_campaign(
                team=team, user=user, name="first", question="", hosts=[here],
                topologies=[topology], workloads=[load], repeats=1, order="random_blocks", seed=7,
            )  # fmt: skip

        yield make


@pytest.fixture
def lab(user, tmp_path):
    _, key = tokens.create_token(user, "notebook", Role.OPERATOR)
    redis = stack.redis_url(REDIS)
    with stack.worker(tmp_path, redis), stack.web(tmp_path, redis) as url:
        yield Lab(url, key)
    connections.close_all()


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_a_campaign_is_planned_shown_started_and_waited_for(make_campaign, lab, capsys):
    """POST plan answers before a worker has read the host: the client waits until the plans are there."""
    campaign = make_campaign()
    seen: list[dict[str, str]] = []

    def look(plans: dict[str, str]) -> bool:
        seen.append(plans)
        return True

    lab.start(campaign.pk, look)
    layout = campaign.layouts.get()
    assert seen == [{str(layout.pk): layout.confirmed_fingerprint}]
    assert layout.confirmed_fingerprint in capsys.readouterr().out
    assert lab.wait(campaign.pk, every=0.5, quiet=True)["progress"]["counts"]["succeeded"] == 1


@pytest.mark.slow
def test_one_that_cannot_be_built_says_why(make_campaign, lab):
    campaign = make_campaign({"use": "data", "role": "ssd", "count": 1})
    with pytest.raises(LabError, match=r"cannot be started.*spare"):
        lab.start(campaign.pk, lambda plans: True)
    assert campaign.layouts.get().phase == "draft"
