"""Commands that a person may give, and what the sweeper finds due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchlab.engine import load, wishes
from benchlab.engine import tasks as engine
from benchlab.engine.decide import built
from benchlab.engine.decisions import Take
from benchlab.engine.sweeper import due
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
    with pytest.raises(wishes.CommandError, match="changed since you saw it"):
        wishes.start(campaign, {layout.pk: "old"})
    wishes.start(campaign, {layout.pk: "abc"})
    layout.refresh_from_db()
    assert (layout.phase, layout.confirmed_fingerprint) == ("waiting", "abc")


def test_start_is_all_or_nothing(make_layout, campaign):
    good = make_layout(phase="draft", plan_fingerprint="abc")
    make_layout(phase="draft", plan_error="needs 2 ssd, host has 1 spare")
    with pytest.raises(wishes.CommandError, match="needs 2 ssd"):
        wishes.start(campaign, {good.pk: "abc"})
    assert set(Layout.objects.values_list("phase", flat=True)) == {"draft"}


def test_an_unplanned_layout_cannot_start(make_layout, campaign):
    make_layout(phase="draft")
    with pytest.raises(wishes.CommandError, match="not planned yet"):
        wishes.start(campaign, {})


def test_cancel_works_on_drafts_and_twice(make_layout, campaign):
    layout = make_layout(phase="draft", runs=2)
    wishes.cancel(campaign)
    wishes.cancel(campaign)
    layout.refresh_from_db()
    assert (layout.phase, layout.outcome) == ("done", "cancelled")
    assert set(layout.attempts.values_list("phase", "outcome")) == {("done", "cancelled")}


def test_a_campaign_that_is_over_is_not_cancelled(make_layout, campaign):
    layout = make_layout(phase="done", outcome="succeeded", runs=0)
    with pytest.raises(wishes.CommandError, match="over: there is nothing left to cancel"):
        wishes.cancel(campaign)
    campaign.refresh_from_db()
    layout.refresh_from_db()
    assert (campaign.cancelled_at, layout.cancelled_at) == (None, None)


def test_retry_makes_a_new_attempt_on_a_new_draft(make_layout, campaign):
    layout = make_layout(phase="draft")
    run = layout.attempts.get().run
    with pytest.raises(wishes.CommandError, match="not over yet"):
        wishes.retry(run)
    wishes.cancel(campaign)
    attempt = wishes.retry(run)
    assert (attempt.number, attempt.phase, attempt.layout.phase) == (2, "queued", "draft")
    assert attempt.layout_id != layout.pk
    campaign.refresh_from_db()
    assert campaign.cancelled_at is None


def test_pause_wakes_every_open_layout(make_layout, campaign):
    layout = make_layout(phase="ready", next_step_at=timezone.now() + timedelta(hours=1))
    assert due() == []
    wishes.pause(campaign)
    assert due() == [layout.pk]
    assert campaign.paused_at
    wishes.resume(campaign)
    assert campaign.paused_at is None


def test_due_leaves_those_that_wait_for_a_busy_host(make_layout):
    holding = make_layout(phase="ready")
    make_layout(phase="waiting")
    make_layout(phase="draft")
    make_layout(phase="done", outcome="succeeded")
    assert due() == [holding.pk]


def test_due_steps_a_cancelled_one_even_if_the_host_is_busy(make_layout, campaign):
    holding, waiting = make_layout(phase="ready"), make_layout(phase="waiting")
    wishes.cancel(campaign)
    assert due() == [holding.pk, waiting.pk]


def test_a_stuck_layout_waits_for_a_person(make_layout):
    layout = make_layout(phase="stuck", outcome="failed", teardown_tries=3)
    assert due() == []
    wishes.teardown_again(layout)
    assert due() == [layout.pk]
    assert Layout.objects.get().teardown_tries == 0


def test_a_retry_does_not_bring_back_what_was_cancelled_elsewhere(make_layout, host, campaign):
    """Host B is off while the campaign is cancelled: its disks are not wiped when it comes back."""
    off = Host.objects.create(
        team=campaign.team, name="lab2", address="127.0.0.2", credential=host.credential
    )
    here, there = make_layout(phase="draft"), make_layout(phase="waiting", on=off)
    standing = make_layout(phase="ready")
    wishes.cancel(campaign)
    again = wishes.retry(here.attempts.get().run)
    for row in (there, standing):
        engine.step(row.pk)
        row.refresh_from_db()
        assert (row.phase, row.outcome) == ("done", "cancelled")
    Layout.objects.filter(pk=again.layout_id).update(plan_fingerprint="abc")
    wishes.start(campaign, {again.layout_id: "abc"})
    assert built.waiting(load.scene(load.rows(again.layout_id))) == Take()
