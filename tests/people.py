"""Fixtures that every Django test may use: two people in two teams, and clients for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.backends.postgresql.operations import DatabaseOperations
from django.test import Client
from servestatic.middleware import ServeStaticMiddleware

from benchlab import readiness
from benchlab.hosts import host_tasks
from benchlab.team.models import Membership, Team
from benchlab.workers import beats


def pytest_configure() -> None:
    """People are made and log in in nearly every test; a slow hash would be most of the suite's time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    ServeStaticMiddleware.add_files_from_finders = found_once(
        ServeStaticMiddleware.add_files_from_finders
    )
    flush = emptied_by_tests(DatabaseOperations.sql_flush)
    setattr(DatabaseOperations, "sql_flush", flush)  # noqa: B010  # mypy: a method is not assigned to
    # Attempts to log in are counted there: one test's must not shut out the next.
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    # What a page tells beside its own is read once a team, which no other test has: else it was a quarter of each page.
    settings.TOP_BAR_S = 3600.0


def emptied_by_tests(flush: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """A test of several connections empties every table after itself, which the audit log refuses."""
    tables = ("audit_entry", "audit_head")

    def sql_flush(*args: object, **more: object) -> list[str]:
        off, on = (
            [f"ALTER TABLE {table} {word} TRIGGER USER" for table in tables]
            for word in ("DISABLE", "ENABLE")
        )
        return [*off, *flush(*args, **more), *on]

    return sql_flush


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


@pytest.fixture
def web(user) -> Client:
    """A browser logged in as `user`."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def htmx(user) -> Client:
    client = Client(headers={"HX-Request": "true"})
    client.force_login(user)
    return client


@pytest.fixture
def other_web(other_user) -> Client:
    client = Client()
    client.force_login(other_user)
    return client


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
            host_tasks.perform(pk)

    monkeypatch.setattr(host_tasks, "_tell", at_once)
