"""A state directory from before the migrations became one an app."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.recorder import MigrationRecorder

from benchlab.team.models import Team
from benchlab.up.bootstrap import ROOT
from benchlab.up.database import LAST_STEP, half_applied, refusal, squashed

pytestmark = pytest.mark.django_db
FINISH = (
    r"before 2026-11-27 \(%s\).*Nothing was changed.*0003_histograms.py\)\^.*then from this commit"
)
ANEW = r"before 2026-11-22 \(%s\).*Nothing was changed.*begin anew with another BENCHLAB_STATE"
SCHEMA = (
    """SELECT table_name, ordinal_position, column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_schema = 'public'""",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
    "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal",
)


@pytest.fixture
def runs() -> Migration:
    """The migration of `runs`, of which the database says nothing yet, nor of the steps that became it."""
    return forget("runs")


def forget(app: str) -> Migration:
    [one] = [one for one in squashed() if one.app_label == app]
    # Django notes with it all that it replaces
    names = [
        one.name,
        *(name for _, name in one.replaces),
    ]
    MigrationRecorder(connection).migration_qs.filter(app=app, name__in=names).delete()
    return one


def note(*steps: tuple[str, str]) -> None:
    for app, name in steps:
        MigrationRecorder(connection).record_applied(app, name)


def schema() -> list[list[tuple[object, ...]]]:
    with connection.cursor() as cursor:
        return [sorted(cursor.execute(statement).fetchall()) for statement in SCHEMA]


def test_all_of_the_old_steps_are_the_one(runs):
    note(*runs.replaces)
    call_command("migrate", check_unapplied=True, verbosity=0)  # exits when something is left to do


def test_a_database_of_the_last_steps_is_taken_over_as_it_is(team):
    before = schema()
    for app in [one.app_label for one in squashed()]:
        note(*forget(app).replaces)
    call_command("prepare")
    applied = MigrationRecorder(connection).applied_migrations()
    assert {(one.app_label, one.name) for one in squashed()} <= set(applied)
    assert schema() == before
    assert Team.objects.filter(pk=team.pk).exists()


@pytest.mark.parametrize(
    ("stopped_after", "told"),
    [
        pytest.param("0009_measurement_output", ANEW, id="before the first squash"),
        pytest.param("0015_on_degraded", FINISH, id="at the first squash, by its steps"),
        pytest.param("0001_squashed", FINISH, id="at the first squash"),
        pytest.param("0004_schedulers", FINISH, id="since then"),
        pytest.param("0001_squashed_2", FINISH, id="at the second squash"),
    ],
)
def test_some_of_them_are_refused_with_the_way_out(runs, stopped_after, told):
    names = [name for _, name in runs.replaces]
    note(*runs.replaces[: names.index(stopped_after) + 1])
    before = schema()
    with pytest.raises(CommandError, match=told % "runs"):
        call_command("prepare")
    assert schema() == before
    assert ("runs", runs.name) not in MigrationRecorder(connection).applied_migrations()


@pytest.mark.parametrize(
    ("app", "told"),
    [
        pytest.param("sharing", FINISH, id="only the second squash was of it"),
        pytest.param("imports", ANEW, id="only the first one was"),
        pytest.param("audit", FINISH, id="the first and the last were"),
    ],
)
def test_an_app_of_one_squash_tells_which_it_was(app, told):
    note(*forget(app).replaces[:2])
    applied = MigrationRecorder(connection).applied_migrations()
    assert half_applied(applied) == [app]
    assert re.search(told % app, refusal("This database", applied))
    assert "restore" in refusal("The backup", applied)


def test_the_command_finds_the_last_commit_that_has_all_steps(runs):
    assert runs.replaces[-1] == ("runs", Path(LAST_STEP).stem)
    removed = git("log", "--all", "-1", "--diff-filter=D", "--format=%h", "--", LAST_STEP)
    if not removed:
        pytest.skip("no clone, or a shallow one")
    for one in squashed():
        folder = f"benchlab/{one.app_label}/migrations"
        there = {
            Path(file).stem
            for file in git("ls-tree", "--name-only", f"{removed}^", f"{folder}/").split()
        }
        assert one.replaces[-1][1] in there or one.name in there


def git(*argv: str) -> str:
    """Output of git; "" where it fails."""
    done = subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_a_new_database_is_not_old(runs):
    assert half_applied(MigrationRecorder(connection).applied_migrations()) == []
