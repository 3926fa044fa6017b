"""A lost state on a real host: a teardown died half way, the database says done, a person sees it and takes it down."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.plans import stack
from benchlab.engine import host_cleanup
from benchlab.engine import tasks as engine
from benchlab.engine.checks import planning
from benchlab.engine.phases import step_log
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import Host
from benchlab.runs import transitions
from benchlab.runs.models import Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import DD, lab, make_campaign
from tests.runs import drive
from tests.topologies.plans import layer

__all__ = ["lab", "make_campaign"]
pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

DISKS = ("ubdb", "ubdc")
STACKS = {
    "lvm": [layer("lvm", {"type": "striped", "stripe_size": 4096}, data=("ssd", 2)),
            layer("filesystem", {"type": "xfs"})],
    "md": [layer("md", {"level": 1}, data=("ssd", 2)), layer("filesystem", {"type": "ext4"})],
}  # fmt: skip


def lose(layout: Layout, done: int) -> None:
    """Some commands of the teardown, then nobody comes back, and the row says that all is over."""
    transitions.begin_teardown(layout, Outcome.CANCELLED)
    shell = ssh_access.connect_to_host(layout.host)
    facts = discovery.facts_of(discovery.read_facts(layout.host, shell))
    plan = planning.stored_plan(layout)
    down = stack.teardown_stack(plan, facts)
    step_log.run_steps(layout, down[:done], shell, StepLog.Kind.TEARDOWN)
    Layout.objects.filter(pk=layout.pk).update(phase=LayoutPhase.DONE, ended_at=timezone.now())
    layout.attempts.update(phase="done", outcome="cancelled")


def found_on(host: Host) -> list[host_cleanup.Orphan]:
    return host_cleanup.find_orphans(host, discovery.read_facts(host))


@pytest.mark.parametrize("kind", STACKS)
def test_a_button_takes_down_what_a_lost_teardown_left(
    kind, make_campaign, lab, rig_host, web, monkeypatch
):
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)  # else one step of a fast host goes past READY
    campaign = make_campaign(STACKS[kind], [("dd", DD)])
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: campaign.layouts.get().phase == LayoutPhase.READY)
    layout = campaign.layouts.get()
    lose(layout, 2)  # not mounted any more; what it was mounted from is still there
    (orphan,) = found_on(lab)
    assert (orphan.layout, orphan.why_not, len(orphan.destroys)) == (layout, "", 2)
    page = web.get(reverse("host-detail", args=[lab.pk]))
    link = reverse("host-orphan", args=[lab.pk, layout.pk])
    assert link in page.text
    asked = web.get(link)
    sent = {"snapshot": asked.context["snapshot"].pk, "typed": asked.context["phrase"]}
    web.post(link, sent)
    drive.to_the_end(campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.trouble) == ("done", "")
    assert_blank(rig_host, *DISKS)
    assert found_on(lab) == []
