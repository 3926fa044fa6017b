"""A worker's connections to the database outlive its tasks, and a broken one is replaced before the next task.

And what it has loaded is not looked through for garbage, which would be found all the same.
"""

from __future__ import annotations

import gc
import weakref

from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]
from django.db import connection
from django.test import TransactionTestCase

from benchlab.celery import app, leave_what_is_loaded, refresh_connections


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


def test_what_is_loaded_is_left_and_new_knots_are_let_go():
    before = gc.get_threshold()
    try:
        leave_what_is_loaded()
        assert gc.get_freeze_count() > 10_000
        gone = weakref.ref(Knot())
        for _ in range(200_000):
            Knot()  # the collector comes by itself
        assert gone() is None
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
