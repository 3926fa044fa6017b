"""An older program on a newer database, and a server that is too old: refused by a sentence, and nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from benchlab import compatibility
from benchlab.up.bootstrap import ROOT
from tests.states.test_states import empty_database

CELERY = (
    "-m",
    "celery",
    "-A",
    "benchlab.celery",
    "worker",
    "--pool",
    "solo",
    "--loglevel",
    "ERROR",
)
WEB = ("-m", "benchlab.web.server", "--port", "1")
SAYS = r"This database is of a newer BenchLab: this one does not know runs\.0099_later\. Take that version, or restore"


@pytest.fixture(scope="module")
def newer(django_db_setup, django_db_blocker) -> Iterator[str]:
    """Address of a database of which nothing but its migrations is there."""
    name = f"{settings.DATABASES['default']['NAME']}-newer"
    with django_db_blocker.unblock(), empty_database(name), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE django_migrations (id int, app text, name text)")
        cursor.execute("INSERT INTO django_migrations VALUES (1, 'runs', '0099_later')")
        yield name


def tables() -> list[str]:
    return connection.introspection.table_names()


@pytest.mark.parametrize("words", [("prepare",), ("reparse",), ("rotate_keys",), ("doctor",)])
def test_commands_refuse_it(newer, words):
    with pytest.raises(CommandError, match=SAYS):
        call_command(*words)
    assert tables() == ["django_migrations"]


@pytest.mark.slow
@pytest.mark.parametrize("argv", [pytest.param(WEB, id="web"), pytest.param(CELERY, id="worker")])
def test_servers_do_not_start_on_it(newer, argv):
    before, _, _ = os.environ["DATABASE_URL"].partition("?")
    address = os.environ["DATABASE_URL"].replace(before, f"{before.rpartition('/')[0]}/{newer}")
    env = {**os.environ, "DATABASE_URL": address}
    done = subprocess.run(
        [sys.executable, *argv], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode and "is of a newer BenchLab" in done.stderr, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert tables() == ["django_migrations"]


@pytest.mark.django_db
def test_what_fits_is_taken():
    assert compatibility.unfit() == ""


def test_one_that_does_not_answer_is_waited_for(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    assert compatibility.unfit() == ""


@pytest.mark.parametrize(
    ("number", "said"), [(140019, "PostgreSQL 14 is too old"), (150000, ""), (190000, "")]
)
def test_servers_that_are_too_old_are_named(number, said):
    assert compatibility.of_server(number).startswith(said) and bool(
        compatibility.of_server(number)
    ) == bool(said)
