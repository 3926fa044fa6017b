"""A worker's connections to the database outlive its tasks, and a broken one is replaced before the next task."""

from __future__ import annotations

from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]
from django.db import connection
from django.test import TransactionTestCase

from benchlab.celery import app, refresh_connections


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
        """What is around each task, and a query in it."""
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
