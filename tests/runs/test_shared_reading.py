"""One reading of a host serves every draft that waits for it; and what a busy or silent host says is no riddle."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread

import pytest
from django.db import connection
from django.utils import timezone

from agents.contracts import AgentError, Reason
from agents.ssh import dial
from benchlab.campaigns.models import Campaign
from benchlab.engine import commands
from benchlab.engine.checks import previews
from benchlab.hosts import discovery
from benchlab.runs.models import Layout
from benchlab.workers import messages
from benchlab.workers.lease import Lock, lease
from tests.runs.paper_host import TOY, paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def readings(paper, monkeypatch) -> list[int]:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)
    read, seen = discovery.read_facts, []

    def counted(host, shell=None):
        seen.append(host.pk)
        return read(host, shell)

    monkeypatch.setattr(discovery, "read_facts", counted)
    return seen


@pytest.fixture
def drafts(make_layout, readings) -> list[Layout]:
    made = [make_layout(phase="draft", runs=0) for _ in range(7)]
    Layout.objects.update(stack=[TOY])
    commands.request_plans(made[0].campaign)
    return made


def test_seven_layouts_of_one_host_are_planned_by_one_reading(drafts, readings):
    previews.plan_drafts_of_host(drafts[0].pk)
    assert len(readings) == 1
    assert all(row.plan and not row.plan_error for row in Layout.objects.all())
    assert len(set(Layout.objects.values_list("facts_planned", flat=True))) == 1


def test_who_finds_the_host_being_read_leaves_it_to_that_one(drafts, readings):
    def beside() -> None:
        previews.plan_drafts_of_host(drafts[1].pk)
        connection.close()

    with lease(drafts[0].host_id, Lock.PLANNED_HOST) as held:
        assert held
        other = Thread(target=beside)
        other.start()
        other.join(20)
    assert not readings and Layout.objects.filter(planned_at=None).count() == 7


def test_a_host_that_does_not_answer_is_asked_once_and_each_plan_says_so(drafts, monkeypatch):
    asked = []

    def silent(host, shell=None):
        asked.append(host.pk)
        raise AgentError("lab1: no answer (timed out)", Reason.TIMED_OUT)

    monkeypatch.setattr(discovery, "read_facts", silent)
    previews.plan_drafts_of_host(drafts[3].pk)
    assert len(asked) == 1
    assert set(Layout.objects.values_list("plan_error", flat=True)) == {
        "lab1: no answer (timed out)"
    }


def test_disks_of_a_running_campaign_are_in_use_by_it_and_no_obstacle(drafts, paper, host):
    """The plan page must not advise to stop or clear what another campaign measures on."""
    team = drafts[0].campaign.team
    other = Campaign.objects.create(team=team, name="Nightly", seed=1, started_at=timezone.now())
    holder = Layout.objects.create(
        campaign=other, host=host, topology=drafts[0].topology, stack=[TOY], phase="ready"
    )
    own = dict.fromkeys(("sdb", "sdc", "sdd"), f"md {holder.name}")
    paper.facts = replace(paper.facts, members=own)
    previews.plan_drafts_of_host(drafts[0].pk)
    drafts[0].refresh_from_db()
    assert drafts[0].plan_error.startswith(f"lab1 is in use by campaign {other.pk}, Nightly (")
    assert drafts[0].plan_error.endswith("). Plan again when that is over.")
    Layout.objects.filter(pk=holder.pk).update(phase="done", outcome="succeeded")
    commands.request_plans(drafts[0].campaign)
    previews.plan_drafts_of_host(drafts[0].pk)
    drafts[0].refresh_from_db()
    assert f"of layout {holder.name} of BenchLab" in drafts[0].plan_error


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), ConnectionResetError()])
def test_no_brackets_are_empty(error):
    assert "()" not in str(dial._connection_error(error, "lab1"))
