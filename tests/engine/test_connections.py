"""Celery's threads keep no connection to the database: those that step layouts have enough of them.

And what a worker has loaded is not looked through for garbage, which would be found all the same.
"""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]
from django.db import connection
from django.test import TransactionTestCase

from benchlab import asgi, garbage
from benchlab.celery import app, settle
from benchlab.workers import fair_queue
from benchlab.workers.lru_cache import LruCache
from tests.stack import wait_for


def number() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def alive(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid])
        return bool(cursor.fetchone()[0])


class Connections(TransactionTestCase):
    def test_a_task_leaves_no_connection_behind(self) -> None:
        used = number()
        DjangoWorkerFixup(app).close_database()
        assert connection.connection is None
        assert number() != used


@pytest.mark.django_db(transaction=True)
def test_a_thread_of_steps_that_has_nothing_to_do_has_none_either(monkeypatch):
    monkeypatch.setattr(fair_queue, "IDLE_S", 0.05)
    used: list[int] = []
    made = fair_queue.FairQueue("idle", fair_queue.ThreadShares(places=1))
    made.begin()
    try:
        made.submit(
            fair_queue.WorkItem(lambda pk: used.append(number()), LruCache(lambda pk: 1), 1, "task")
        )
        wait_for(lambda: bool(used) and not alive(used[0]), Path("/dev/null"), 30)
    finally:
        made.end()


class Knot:
    """Holds itself, so that only the collector can let it go."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_often_as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_what_is_loaded_is_left_and_new_knots_are_let_go():
    settle()
    assert gc.get_threshold() == garbage.WORKER_THRESHOLDS and gc.get_freeze_count() > 10_000
    gone = weakref.ref(Knot())
    for _ in range(200_000):
        Knot()  # the collector comes by itself
    assert gone() is None


def test_a_web_server_leaves_it_as_well():
    gc.set_threshold(700, 10, 10)
    importlib.reload(asgi)
    assert gc.get_threshold() == garbage.WEB_THRESHOLDS
