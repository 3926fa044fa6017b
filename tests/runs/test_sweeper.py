"""The sweeper: each layout that is due is sent once, whatever the workers, the broker and the database do meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest
import redis as redis_client
from django.db import OperationalError, connections, transaction
from django.utils import timezone

from benchlab.celery import app
from benchlab.engine import commands, sweeper
from benchlab.engine.tasks import step_layout
from benchlab.hosts import host_tasks, package_installs
from benchlab.hosts.models import Host
from benchlab.imports import draft_store, drafts
from benchlab.runs.models import Layout
from benchlab.workers import beats, fair_queue, messages
from benchlab.workers.lease import Lock, Workers
from tests import stack

REDIS = 7


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, int]]:
    """Messages that would have gone to a worker: the task's name and the layout."""
    found: list[tuple[str, int]] = []

    def note(task, layout_id: int) -> None:
        found.append((task.rsplit(".", 1)[1], layout_id))

    monkeypatch.setattr(messages, "send", note)
    return found


@pytest.mark.django_db
def test_a_layout_that_is_due_is_sent_once_in_ten_seconds(make_layout, sent):
    layout = make_layout(phase="ready")
    sweeper.sweep_once()
    sweeper.sweep_once()
    assert sent == [("step_layout", layout.pk)]
    layout.refresh_from_db()
    left = (layout.next_step_at - timezone.now()).total_seconds()
    assert 8 < left <= sweeper.STEP_AGAIN_S
    Layout.objects.update(next_step_at=timezone.now())  # nobody has taken it
    sweeper.sweep_once()
    assert len(sent) == 2


@pytest.mark.django_db
def test_a_lost_wish_for_a_plan_is_repeated(make_layout, campaign, sent, monkeypatch):
    draft = make_layout(phase="draft")
    with monkeypatch.context() as lost:
        lost.setattr(messages, "send", lambda task, layout_id: None)
        commands.request_plans(campaign)
    assert sweeper.sweep_once() == []  # it may well come yet
    Layout.objects.update(next_step_at=timezone.now())
    assert sweeper.sweep_once(plans=False) == []
    assert sweeper.sweep_once() == [draft.pk]
    assert sent == [("plan_layout", draft.pk)]
    Layout.objects.update(next_step_at=timezone.now(), planned_at=timezone.now())
    assert sweeper.sweep_once() == []


@pytest.mark.django_db
def test_a_draft_whose_plan_nobody_asked_for_is_left_alone(make_layout, sent):
    make_layout(phase="draft")
    assert sweeper.sweep_once() == []


@pytest.mark.django_db(transaction=True)
def test_two_sweepers_never_send_the_same(make_layout, sent):
    """The other one has claimed it, and has not committed yet."""
    layout = make_layout(phase="ready")
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM runs_layout WHERE id = %s FOR UPDATE", [layout.pk])
            assert sweeper.due_layouts() == [layout.pk]
            assert sweeper.sweep_once() == []
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    assert sweeper.sweep_once() == [layout.pk]


@pytest.mark.django_db(transaction=True)
def test_a_campaign_that_somebody_holds_does_not_keep_its_layouts_away(make_layout, campaign, sent):
    """As a cancel does while it works."""
    layout = make_layout(phase="ready")
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            asked = "SELECT 1 FROM campaigns_campaign WHERE id = %s FOR UPDATE"
            cursor.execute(asked, [campaign.pk])
            assert sweeper.sweep_once() == [layout.pk]
            cursor.execute("ROLLBACK")
    finally:
        other.close()


@pytest.mark.django_db(transaction=True)
def test_what_a_worker_had_in_hand_is_taken_over_when_it_ends(make_layout, sent):
    """At a worker's start, for one before it may have been killed; and at once when another one ends."""
    later = timezone.now() + timedelta(hours=1)
    layout = make_layout(phase="ready", next_step_at=later)
    other, ours = connections.create_connection("default"), Workers()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, 7)", [Lock.WORKER])
        assert sweeper.sweep_once() == []
        ours.take_over_from_ended(sweeper.step_all_now)
        assert sweeper.sweep_once() == [layout.pk]
        Layout.objects.update(next_step_at=later)
        ours.take_over_from_ended(sweeper.step_all_now)
        assert sweeper.sweep_once() == []
    finally:
        other.close()
    until = time.monotonic() + 10
    while not (swept := sweeper.sweep_once()) and time.monotonic() < until:
        ours.take_over_from_ended(sweeper.step_all_now)
    assert swept == [layout.pk]


@pytest.mark.django_db(transaction=True)
def test_a_take_over_waits_for_nobody(make_layout, sent):
    """A layout that is being changed just now is in living hands."""
    later = timezone.now() + timedelta(hours=1)
    free, changed = [make_layout(phase=phase, next_step_at=later) for phase in ("ready", "waiting")]
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM runs_layout WHERE id = %s FOR UPDATE", [changed.pk])
            sweeper.step_all_now()
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    due = Layout.objects.filter(next_step_at__lte=timezone.now())
    assert list(due.values_list("pk", flat=True)) == [free.pk]


def test_nothing_ends_it(monkeypatch, caplog):
    """A database that restarts, and a mistake of ours: the next sweep tries again."""
    trouble = iter([OperationalError("the database restarts"), KeyError("ours"), None, None])
    done: list[bool] = []

    def once(*, plans: bool) -> None:
        error = next(trouble, None)
        done.append(plans)
        if error:
            raise error

    monkeypatch.setattr(sweeper, "sweep_once", once)
    monkeypatch.setattr(Workers, "take_over_from_ended", lambda self, take_over: None)
    thread = sweeper.Sweeper(period_s=0.01)
    thread.start()
    until = time.monotonic() + 10
    while len(done) < 12 and time.monotonic() < until:
        time.sleep(0.01)
    thread.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert done[:12] == [True, *[False] * 9, True, False]
    assert "the database restarts" in caplog.text and "the sweep broke" in caplog.text


def _elsewhere(make: Callable[[], Layout]) -> int:
    """The number of a layout that is made on a connection of its own: a worker sees it at once."""

    def made() -> int:
        try:
            return make().pk
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(made).result()


def _now(sql: str) -> int:
    """A number by a connection of its own."""
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute(sql)
            return int(cursor.fetchone()[0])
    finally:
        other.close()


# Tests beside this one share the server, not the database.
STANDING = """SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database()"""
CLAIMED = "SELECT count(*) FROM runs_layout WHERE id = {} AND next_step_at > now()"


@pytest.mark.slow
@pytest.mark.one_in(1)
@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_places_are_all_taken_still_sweeps(make_layout, team, host, tmp_path):
    """As with many hosts: the steps of as many as the team has places for stand still, and another's is sent."""
    most = fair_queue.host_queue.shares.messages_of_team
    others = [
        Host.objects.create(
            team=team, name=f"lab{n}", address="127.0.0.1", credential=host.credential
        )
        for n in range(2, most + 4)
    ]
    stands = [make_layout(phase="tearing_down", outcome="failed", on=one).pk for one in others[:-1]]
    redis = stack.redis_url(REDIS)
    broker = redis_client.Redis.from_url(redis)
    broker.flushdb()
    with transaction.atomic():
        # A step's first deed is to note when it is due next: here it waits for us.
        list(Layout.objects.select_for_update(of=("self",)).filter(pk__in=stands))
        with app.connection_for_write(url=redis) as connection:
            for layout_id in stands:
                cast(Any, step_layout).apply_async((layout_id,), connection=connection)
        with stack.worker(tmp_path, redis):
            log = tmp_path / "worker.log"
            stack.wait_for(lambda: _now(STANDING) >= most, log, 60)
            # Made only now: a worker that starts takes over every layout, and might step it first.
            due = _elsewhere(
                partial(make_layout, phase="tearing_down", outcome="failed", on=others[-1])
            )
            stack.wait_for(lambda: _now(CLAIMED.format(due)) == 1, log, 30)
            assert time.time() - float(broker.get(beats.installation_key(beats.SWEPT))) < 5


def test_each_message_names_a_task():
    """They are sent by name, so that who asks for work does not import who does it."""
    app.loader.import_default_modules()
    named = {commands.STEP, commands.PLAN, host_tasks.PERFORM, package_installs.ADVANCE}
    named |= {drafts.READ, draft_store.STORE}
    assert named <= set(app.tasks)
