"""A broker that does not answer costs whoever asks one try: the layouts, files and tasks after it are the sweeper's."""

from __future__ import annotations

import time
from functools import partial

import kombu.exceptions
import pytest
from django.utils import timezone

from benchlab.celery import app
from benchlab.engine import commands, sweeper
from benchlab.hosts.models import DueQuerySet, Host
from benchlab.imports import drafts, tasks
from benchlab.runs.models import Layout
from benchlab.workers import messages
from tests.runs.conftest import campaign, host, make_layout

__all__ = ["campaign", "host", "make_layout"]


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, int]]:
    """Messages that a dead broker was asked to take."""
    found: list[tuple[str, int]] = []

    def refuse(name: str, args: tuple[int], **_: object) -> None:
        found.append((name.rsplit(".", 1)[1], args[0]))
        raise kombu.exceptions.OperationalError("connection refused")

    monkeypatch.setattr(app, "send_task", refuse)
    return found


def test_the_first_failure_ends_a_round(asked):
    assert messages.send_each(commands.STEP, [1, 2, 3]) is True
    assert asked == [("step_layout", 1)]


def test_a_broker_that_goes_in_the_middle_is_asked_no_more(monkeypatch):
    answers = iter([None, None, OSError("gone"), None])
    taken: list[int] = []

    def send_task(name: str, args: tuple[int], **_: object) -> None:
        taken.append(args[0])
        if error := next(answers):
            raise error

    monkeypatch.setattr(app, "send_task", send_task)
    assert messages.send_each(commands.STEP, [1, 2, 3, 4]) is True
    assert taken == [1, 2, 3]


def test_nothing_to_send_loses_nothing(asked):
    assert messages.send_each(commands.STEP, []) is False and asked == []


@pytest.mark.django_db
def test_who_starts_a_large_campaign_waits_once(
    make_layout, campaign, asked, django_capture_on_commit_callbacks
):
    for number in range(5):
        make_layout(phase="draft", plan_fingerprint="abc", position=number)
    seen = dict.fromkeys(Layout.objects.values_list("pk", flat=True), "abc")
    with django_capture_on_commit_callbacks(execute=True):
        commands.start_campaign(campaign, seen)
    assert len(asked) == 1
    with django_capture_on_commit_callbacks(execute=True):
        commands.cancel_campaign(campaign)
    assert len(asked) == 2


@pytest.mark.django_db
def test_who_plans_a_large_campaign_waits_once(
    make_layout, campaign, asked, django_capture_on_commit_callbacks
):
    for number in range(5):
        make_layout(phase="draft", position=number)
    with django_capture_on_commit_callbacks(execute=True):
        commands.request_plans(campaign)
    assert [name for name, _ in asked] == ["plan_layout"]


@pytest.mark.django_db
def test_a_sweep_asks_once_and_leaves_the_rest_due(make_layout, team, host, asked, monkeypatch):
    for number in range(4):
        other = Host.objects.create(
            team=team, name=f"h{number}", address="127.0.0.1", credential=host.credential
        )
        make_layout(phase="ready", position=number, on=other)
    draft = make_layout(phase="draft", position=9, next_step_at=timezone.now())
    monkeypatch.setattr(DueQuerySet, "claim_due", lambda self: pytest.fail("claimed, and not sent"))
    sweeper.sweep_once()
    assert len(asked) == 1
    draft.refresh_from_db()
    assert draft.next_step_at <= timezone.now(), "claimed for a minute, and not sent"
    Layout.objects.filter(phase="ready").update(next_step_at=timezone.now())
    sweeper.sweep_once()
    assert len(asked) == 2


@pytest.mark.django_db
def test_uploads_of_many_files_ask_once(asked, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        drafts.queue_reading([1, 2, 3])
    assert asked == [("read_file", 1)]


def test_a_sweep_of_drafts_asks_once(asked, monkeypatch):
    monkeypatch.setattr(drafts, "delete_expired", lambda: None)
    monkeypatch.setattr(drafts, "due_files", lambda: [1, 2])
    tasks.sweep_drafts()
    assert asked == [("read_file", 1)]


def test_a_real_dead_broker_costs_one_try(monkeypatch, caplog):
    """Twenty layouts, and Celery's own retries for one of them."""
    begun = time.monotonic()
    with app.connection_for_write("redis://127.0.0.1:1/0") as dead:
        monkeypatch.setattr(app, "send_task", partial(app.send_task, connection=dead))
        assert messages.send_each(commands.STEP, range(20))
    assert time.monotonic() - begun < 10  # 20 tries are 14 s and more
    assert len([row for row in caplog.records if "broker does not answer" in row.message]) == 1
