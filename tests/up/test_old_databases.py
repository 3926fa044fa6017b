"""A state directory from before the migrations became one an app."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from benchlab.up.management.commands.prepare import half_applied

pytestmark = pytest.mark.django_db


@pytest.fixture
def steps() -> list[tuple[str, str]]:
    """The steps that `runs` was made by; the database says nothing of them yet, nor of the one that they became."""
    one = MigrationLoader(None).disk_migrations["runs", "0001_squashed"]
    names = [
        one.name,
        *(name for _, name in one.replaces),
    ]  # Django notes with it all that it replaces
    MigrationRecorder(connection).migration_qs.filter(app="runs", name__in=names).delete()
    return list(one.replaces)


def note(*steps: tuple[str, str]) -> None:
    for app, name in steps:
        MigrationRecorder(connection).record_applied(app, name)


def test_all_of_the_old_steps_are_the_one(steps):
    note(*steps)
    call_command("migrate", check_unapplied=True, verbosity=0)  # exits when something is left to do


def test_some_of_them_are_refused_with_the_way_out(steps):
    note(*steps[:9])
    with pytest.raises(
        CommandError,
        match=r"older than 2026-11-22 \(runs\).*Nothing.*once from the commit",
    ):
        call_command("prepare")


def test_a_new_database_is_not_old(steps):
    assert half_applied(connection) == []
