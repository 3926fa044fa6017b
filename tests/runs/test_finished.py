"""A tool that was through has its result, although the layout failed meanwhile; and its spool is not kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.contracts import AgentError, Reason
from agents.jobs import job
from agents.ssh.shell import SshShell
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.phases import provision, run_attempts
from benchlab.runs import attempt_meta
from benchlab.runs.models import Attempt
from tests.agents.spools import eventually
from tests.runs import drive
from tests.runs.test_engine_local import SMALL, here, make_campaign, server  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def through(make_campaign, monkeypatch):  # noqa: F811
    """A campaign whose second run waits, and whose first is through on the host, which nobody has seen."""
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    campaign = make_campaign(options=SMALL, repeats=2)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists(), 60)
    attempt = Attempt.objects.get(phase="running")
    eventually(Path("/var/tmp", f"benchlab-{os.geteuid()}", attempt.spool, "ended").exists)
    return campaign, attempt


@pytest.mark.parametrize("reason", [Reason.GUARD_REFUSED, Reason.HOST_LOST])
def test_it_keeps_its_figures_when_the_layout_fails(through, monkeypatch, reason):
    campaign, attempt = through

    def broken(*args):
        raise AgentError("the host said no", reason)

    monkeypatch.setattr(run_attempts, "store_poll", broken)
    drive.to_the_end(campaign, 60)
    attempt.refresh_from_db()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.measurements.exists() and attempt.series.exists()
    says = "the layout could not be checked after the run: the layout was lost"
    assert attempt.degraded == [{"says": says, "seen": "during"}]
    other = Attempt.objects.exclude(pk=attempt.pk).get()
    assert (other.outcome, other.reason) == (campaign.layouts.get().outcome, reason)


def test_what_is_cancelled_is_cancelled(through):
    campaign, attempt = through
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign, 60)
    attempt.refresh_from_db()
    assert attempt.outcome == "cancelled"
    assert attempt.artifacts.exists() and not attempt.measurements.exists()


def test_a_spool_goes_when_its_output_is_stored(through):
    campaign, attempt = through
    spool = Path("/var/tmp", f"benchlab-{os.geteuid()}", attempt.spool)
    assert spool.exists()
    drive.until(campaign, lambda: Attempt.objects.filter(pk=attempt.pk, phase="done").exists(), 60)
    assert campaign.layouts.get().phase == "ready"
    assert not spool.exists()
    drive.to_the_end(campaign, 60)


def test_a_spool_that_cannot_be_removed_costs_no_run(through, monkeypatch):
    campaign, attempt = through

    def busy(*args):
        raise AgentError("Device or resource busy", Reason.COMMAND_FAILED)

    remove = job.remove_spool
    monkeypatch.setattr(job, "remove_spool", busy)
    drive.until(campaign, lambda: Attempt.objects.filter(pk=attempt.pk, phase="done").exists(), 60)
    monkeypatch.setattr(job, "remove_spool", remove)
    drive.to_the_end(campaign, 60)
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"succeeded"}
    assert not list(Path("/var/tmp", f"benchlab-{os.geteuid()}").glob(attempt.spool))


@pytest.mark.parametrize("removed", [True, False])
def test_a_teardown_run_again_asks_nothing_of_spools_that_are_gone(through, monkeypatch, removed):
    """Counted over both tries; a spool that nobody knows to be removed is asked for in each."""
    campaign, attempt = through
    drive.until(campaign, lambda: campaign.layouts.get().phase == "tearing_down", 60)
    assert not Attempt.objects.exclude(meta__has_key=attempt_meta.REMOVED).exists()
    if not removed:
        Attempt.objects.filter(pk=attempt.pk).update(meta={})
    sent: list[str] = []
    run, clear = SshShell.run, provision.clear_disks

    def counted(self, argv, *args, **kwargs):
        sent.append(" ".join(argv))
        return run(self, argv, *args, **kwargs)

    def refused(layout, shell):
        monkeypatch.setattr(provision, "clear_disks", clear)
        raise AgentError("umount ended with exit code 32", Reason.COMMAND_FAILED)

    monkeypatch.setattr(SshShell, "run", counted)
    monkeypatch.setattr(provision, "clear_disks", refused)
    drive.to_the_end(campaign, 60)
    assert campaign.layouts.get().teardown_tries == 1
    spools = [one.spool for one in Attempt.objects.all()]
    named = [line for line in sent if any(spool in line for spool in spools)]
    assert named == [] if removed else len(named) >= 2, named
