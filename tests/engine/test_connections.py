"""A worker's connections to the database outlive its tasks, and a broken one is replaced before the next task.

And what it has loaded is not looked through for garbage, which would be found all the same.
"""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Iterator

import pytest
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]
from django.db import connection
from django.test import TransactionTestCase

from benchlab import asgi, garbage
from benchlab.celery import app, refresh_connections, settle


def number() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


class Connections(TransactionTestCase):
    def setUp(self) -> None:
        connection.settings_dict["CONN_MAX_AGE"], self.age = (
            60,
            connection.settings_dict["CONN_MAX_AGE"],
        )
        connection.close()
        self.worker = DjangoWorkerFixup(app)

    def tearDown(self) -> None:
        connection.settings_dict["CONN_MAX_AGE"] = self.age
        connection.close()

    def task(self) -> int:
        """Number of the connection of a query, with all that is around a task."""
        self.worker.close_database()
        refresh_connections()
        used = number()
        self.worker.close_database()
        refresh_connections()
        return used

    def test_one_serves_many_tasks(self) -> None:
        assert self.task() == self.task()

    def test_one_that_the_server_ended_is_replaced(self) -> None:
        gone = self.task()
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [gone])
        other.close()
        assert self.task() != gone


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
    assert gc.get_threshold() == garbage.OF_STEPS and gc.get_freeze_count() > 10_000
    gone = weakref.ref(Knot())
    for _ in range(200_000):
        Knot()  # the collector comes by itself
    assert gone() is None


def test_a_web_server_leaves_it_as_well():
    gc.set_threshold(700, 10, 10)
    importlib.reload(asgi)
    assert gc.get_threshold() == garbage.OF_PAGES
