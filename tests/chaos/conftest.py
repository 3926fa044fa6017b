from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine.new_runs import create_campaign
from benchlab.topologies.models import Topology
from tests.runs import local_host

# Few bytes again and again: one synced block after the other would be too fast or too slow to plan.
WRITES = {"rw": "write", "size": 1 << 20, "ioengine": "psync", "direct": False}


@pytest.fixture
def campaign(request, team, user, tmp_path) -> Iterator[Campaign]:
    """One run of fio in a scratch directory of this machine, for RUN_S seconds of the test's module."""
    options = WRITES | {"runtime_s": request.module.RUN_S}
    with local_host.served(tmp_path / "state") as (state, port):
        host = local_host.register(team, state, port)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        stack = [{"kind": "directory", "options": {"path": str(scratch)}, "devices": []}]
        yield create_campaign(
            team=team, user=user, name="one run", question="", hosts=[host],
            topologies=[Topology.objects.create(team=team, name="scratch", stack=stack)],
            workloads=[Workload.objects.create(team=team, name="fio", tool="fio", options=options)],
            repeats=1, order="as_written", seed=1,
        )  # fmt: skip
