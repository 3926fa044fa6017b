"""Fixtures that every Django test may use: two people in two teams, and clients for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management.commands import flush
from django.db import connection, connections
from django.db.backends.postgresql.operations import DatabaseOperations
from django.test import Client
from servestatic.middleware import ServeStaticMiddleware

from benchlab import readiness
from benchlab.hosts import host_tasks
from benchlab.team.models import Membership, Team
from benchlab.testing.stores import TEMPLATE
from benchlab.workers import beats


def pytest_configure() -> None:
    """People are made and log in in nearly every test; a slow hash would be most of the suite's time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    ServeStaticMiddleware.add_files_from_finders = found_once(
        ServeStaticMiddleware.add_files_from_finders
    )
    setattr(DatabaseOperations, "sql_flush", sql_flush)  # noqa: B010  # mypy: a method is not assigned to
    if template := os.environ.get(TEMPLATE):
        connection.settings_dict["TEST"] |= {"TEMPLATE": template, "MIGRATE": False}
    # What is created after each migration stays, see STAYING.
    setattr(flush, "emit_post_migrate_signal", lambda *args, **more: None)  # noqa: B010
    # Attempts to log in are counted there: one test's must not shut out the next.
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    # What a page tells beside its own is read once a team, which no other test has: else it was a quarter of each page.
    settings.TOP_BAR_S = 3600.0


def pytest_exception_interact(call: pytest.CallInfo[None]) -> None:
    """A test that ran out of time may wait for the database's answer: the tests after it get another connection."""
    if call.excinfo and "from pytest-timeout" in str(call.excinfo.value):
        for used in connections.all(initialized_only=True):
            if used.connection:
                used.connection.cancel()
            used.close()


# Django fills these after each migration, always with the same rows.
STAYING = {"auth_permission", "django_content_type"}
# The audit log refuses to be emptied.
GUARDED = ("audit_entry", "audit_head")
EMPTY = """
DO $$
DECLARE
    name text;
    filled boolean;
BEGIN
    LOCK TABLE {tables} IN EXCLUSIVE MODE;
    FOREACH name IN ARRAY ARRAY[{names}] LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', name) INTO filled;
        IF filled THEN
            EXECUTE format('DELETE FROM %I', name);
        END IF;
    END LOOP;
END $$
"""


def sql_flush(
    self: DatabaseOperations, style: object, tables: Iterable[str], **more: object
) -> list[str]:
    """Empty the tables that have rows, after a test of several connections.

    Such a test fills few tables with few rows. Django's TRUNCATE makes new files for all of them, and for each of
    their indexes: half a second of PostgreSQL's time, many times more than these tests take themselves. As TRUNCATE
    does, this waits for rows that another connection is about to store.
    """
    off, on = (
        [f"ALTER TABLE {table} {word} TRIGGER USER" for table in GUARDED]
        for word in ("DISABLE", "ENABLE")
    )
    emptied = sorted(set(tables) - STAYING)
    names = ", ".join(f"'{table}'" for table in emptied)
    return [*off, EMPTY.format(tables=", ".join(emptied), names=names), *on]


def found_once(find: Callable[[ServeStaticMiddleware], None]) -> Callable[..., None]:
    """Each test client makes the middleware anew, and that looks at every static file: half of a test's time."""
    found: list[ServeStaticMiddleware] = []

    def add_files(self: ServeStaticMiddleware) -> None:
        if not found:
            find(self)
            found.append(self)
        self.files, self.directories = found[0].files, found[0].directories

    return add_files


@pytest.fixture
def team(db) -> Team:
    return Team.objects.create(name="Storage")


@pytest.fixture
def user(team) -> User:
    person = User.objects.create_user("alice", password="alice-password")
    Membership.objects.create(team=team, user=person)
    return person


@pytest.fixture
def other_user(db) -> User:
    """Somebody of another team: sees nothing of ours."""
    person = User.objects.create_user("bob", password="bob-password")
    Membership.objects.create(team=Team.objects.create(name="Others"), user=person)
    return person


def with_session(person: User, **options: Any) -> Client:
    """A client of somebody who logged in before, by one statement: logging in takes 19."""
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.create()
    client = Client(**options)
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client


@pytest.fixture
def web(user) -> Client:
    """A browser logged in as `user`."""
    return with_session(user)


@pytest.fixture
def htmx(user) -> Client:
    return with_session(user, headers={"HX-Request": "true"})


@pytest.fixture
def other_web(other_user) -> Client:
    return with_session(other_user)


@pytest.fixture
def worker_seen(monkeypatch) -> None:
    """For tests that ask every page, however long that takes: /readyz says 503 where no worker was seen of late."""
    beats.beat()
    monkeypatch.setattr(readiness, "SILENT_S", 3600.0)


@pytest.fixture
def hosts_at_once(monkeypatch) -> None:
    """Work that waits for a host is done as soon as it is asked for, as by a worker with nothing else to do."""

    def at_once(*pks: int) -> None:
        for pk in pks:
            host_tasks.perform_task(pk)

    monkeypatch.setattr(host_tasks, "_notify_worker", at_once)
