"""dynamo's pages in a real browser: drawn, clean by axe and by the content security policy, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Workload
from benchlab.dynamo.models import Binary, DynamoLogin, Reported
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.runs import artifact_figures, artifacts, conclusion
from benchlab.runs.models import Attempt
from benchlab.team.models import Membership
from benchlab.topologies.models import Topology
from benchlab.workers import messages
from tests.browser.axe import violations
from tests.browser.test_charts import drawn, log_in
from tests.browser.test_library import shoot

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
FULL = Path(__file__).parents[1] / "cases" / "tools" / "dynamo" / "full.bin"


@pytest.fixture
def run(user, team, monkeypatch):
    """A run of the captured session, with two workers, on a host that only dynamo reaches."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    Membership.objects.filter(user=user, team=team).update(role="owner")
    Binary.objects.create(
        team=team,
        name="dynamo",
        version="1.1.0",
        sha256="a" * 64,
        size=9,
        content=b"x",
        uploaded_by=user,
    )
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    for name, raw in (("C:", False), ("PHYSICALDRIVE:1", True)):
        Reported.objects.create(host=host, name=name, raw=raw)
    # Started again since an owner accepted it: the page asks once more.
    DynamoLogin.objects.create(
        host=host, name="win", address="192.0.2.1", port=60102, accepted_port=49731,
        accepted_by=user, accepted_at=timezone.now(), refused_at=timezone.now(),
        refusal="a second dynamo logged in as 'win' from 192.0.2.1 (id 50001) while the first was connected",
    )  # fmt: skip
    stack = [{"kind": "reported", "options": {"target": "C:"}, "devices": []}]
    campaign = create_campaign(
        team=team, user=user, name="Windows", question="", hosts=[host],
        topologies=[Topology.objects.create(team=team, name="C:", stack=stack)],
        workloads=[Workload.objects.create(team=team, name="8k", tool="dynamo", options={"workers": 2})],
        repeats=1, order="as_written",
    )  # fmt: skip
    attempt = Attempt.objects.get(run__campaign=campaign)
    artifacts.store_artifacts(attempt, {"messages.bin": FULL.read_bytes(), "samples": b""})
    conclusion.replace_figures(attempt, artifact_figures.read_figures(attempt))
    Attempt.objects.filter(pk=attempt.pk).update(phase="done", outcome="succeeded")
    return attempt.run


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_pages_are_drawn_and_clean(chromium, live_server, run, scheme):
    page, said = log_in(chromium, live_server, scheme)
    for path in (
        f"/runs/{run.pk}/",
        "/dynamo/",
        f"/hosts/{run.host_id}/",
        "/dynamo/icf/",
        "/campaigns/new/",
    ):
        page.goto(f"{live_server.url}{path}")
        drawn(page)
        shoot(page, f"dynamo{path.replace('/', '-')}{scheme}")
        assert violations(page) == [], path
    assert said == []
    page.context.close()
