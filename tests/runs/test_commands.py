"""Commands that a person may give, and what the sweeper finds due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchlab.engine import commands, load_state
from benchlab.engine import tasks as engine
from benchlab.engine.decide import built
from benchlab.engine.decisions import AcquireHost
from benchlab.engine.sweeper import due_layouts
from benchlab.hosts.models import Host
from benchlab.runs.models import Layout
from benchlab.workers import messages

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_broker(monkeypatch):
    """Tests in a transaction never commit; commands must do without the broker anyway."""
    monkeypatch.setattr(messages, "send", lambda task, layout_id: None)


def test_start_wants_the_fingerprint_that_was_seen(make_layout, campaign):
    layout = make_layout(phase="draft", plan_fingerprint="abc")
    with pytest.raises(commands.CommandError, match="changed since you saw it"):
        commands.start_campaign(campaign, {layout.pk: "old"})
    commands.start_campaign(campaign, {layout.pk: "abc"})
    layout.refresh_from_db()
    assert (layout.phase, layout.confirmed_fingerprint) == ("waiting", "abc")


def test_start_is_all_or_nothing(make_layout, campaign):
    good = make_layout(phase="draft", plan_fingerprint="abc")
    make_layout(phase="draft", plan_error="needs 2 ssd, host has 1 spare")
    with pytest.raises(commands.CommandError, match="needs 2 ssd"):
        commands.start_campaign(campaign, {good.pk: "abc"})
    assert set(Layout.objects.values_list("phase", flat=True)) == {"draft"}


def test_an_unplanned_layout_cannot_start(make_layout, campaign):
    make_layout(phase="draft")
    with pytest.raises(commands.CommandError, match="not planned yet"):
        commands.start_campaign(campaign, {})


def test_cancel_works_on_drafts_and_twice(make_layout, campaign):
    layout = make_layout(phase="draft", runs=2)
    commands.cancel_campaign(campaign)
    commands.cancel_campaign(campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.outcome) == ("done", "cancelled")
    assert set(layout.attempts.values_list("phase", "outcome")) == {("done", "cancelled")}


def test_a_campaign_that_is_over_is_not_cancelled(make_layout, campaign):
    layout = make_layout(phase="done", outcome="succeeded", runs=0)
    with pytest.raises(commands.CommandError, match="over: there is nothing left to cancel"):
        commands.cancel_campaign(campaign)
    campaign.refresh_from_db()
    layout.refresh_from_db()
    assert (campaign.cancelled_at, layout.cancelled_at) == (None, None)


def test_retry_makes_a_new_attempt_on_a_new_draft(make_layout, campaign):
    layout = make_layout(phase="draft")
    run = layout.attempts.get().run
    with pytest.raises(commands.CommandError, match="not over yet"):
        commands.retry_run(run)
    commands.cancel_campaign(campaign)
    attempt = commands.retry_run(run)
    assert (attempt.number, attempt.phase, attempt.layout.phase) == (2, "queued", "draft")
    assert attempt.layout_id != layout.pk
    campaign.refresh_from_db()
    assert campaign.cancelled_at is None


def test_pause_wakes_every_open_layout(make_layout, campaign):
    layout = make_layout(phase="ready", next_step_at=timezone.now() + timedelta(hours=1))
    assert due_layouts() == []
    commands.pause_campaign(campaign)
    assert due_layouts() == [layout.pk]
    assert campaign.paused_at
    commands.resume_campaign(campaign)
    assert campaign.paused_at is None


def test_due_leaves_those_that_wait_for_a_busy_host(make_layout):
    holding = make_layout(phase="ready")
    make_layout(phase="waiting")
    make_layout(phase="draft")
    make_layout(phase="done", outcome="succeeded")
    assert due_layouts() == [holding.pk]


def test_due_steps_a_cancelled_one_even_if_the_host_is_busy(make_layout, campaign):
    holding, waiting = make_layout(phase="ready"), make_layout(phase="waiting")
    commands.cancel_campaign(campaign)
    assert due_layouts() == [holding.pk, waiting.pk]


def test_a_stuck_layout_waits_for_a_person(make_layout):
    layout = make_layout(phase="stuck", outcome="failed", teardown_tries=3)
    assert due_layouts() == []
    commands.retry_teardown(layout)
    assert due_layouts() == [layout.pk]
    assert Layout.objects.get().teardown_tries == 0


def test_a_retry_does_not_bring_back_what_was_cancelled_elsewhere(make_layout, host, campaign):
    """Host B is off while the campaign is cancelled: its disks are not wiped when it comes back."""
    off = Host.objects.create(
        team=campaign.team, name="lab2", address="127.0.0.2", credential=host.credential
    )
    here, there = make_layout(phase="draft"), make_layout(phase="waiting", on=off)
    standing = make_layout(phase="ready")
    commands.cancel_campaign(campaign)
    again = commands.retry_run(here.attempts.get().run)
    for row in (there, standing):
        engine.step_until_waiting(row.pk)
        row.refresh_from_db()
        assert (row.phase, row.outcome) == ("done", "cancelled")
    Layout.objects.filter(pk=again.layout_id).update(plan_fingerprint="abc")
    commands.start_campaign(campaign, {again.layout_id: "abc"})
    assert (
        built.decide_waiting(load_state.load_state(load_state.load_rows(again.layout_id)))
        == AcquireHost()
    )
