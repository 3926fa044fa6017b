"""Several installations on one machine, and on one Redis and one PostgreSQL: nothing of one reaches another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from cryptography.fernet import Fernet
from django.conf import settings
from django.db import connection

from benchlab.runs import events
from benchlab.up.bootstrap import ROOT
from benchlab.up.procs import Identity
from benchlab.workers import lease
from tests.up.test_life import Lab, wait_until_gone

SHOW = """
import json
from benchlab import settings as s
print(json.dumps([s.CELERY_TASK_DEFAULT_QUEUE, s.CACHES["default"]["KEY_PREFIX"], s.SESSION_COOKIE_NAME,
                  s.CSRF_COOKIE_NAME]))
"""


def names(secret: str) -> list[str]:
    """What a browser and a Redis know an installation with that secret by."""
    env = {**os.environ, "SECRET_KEY": secret}
    argv = [sys.executable, "-c", SHOW]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_they_have_names_of_their_own_in_browsers_and_in_redis():
    one, other = names("one" * 20), names("other" * 20)
    assert not set(one) & set(other)
    assert one == names("one" * 20)


def test_pages_hear_of_their_own_campaigns_alone(settings):
    """In one Redis, of databases with one name on two servers: all that `up` makes are called benchlab."""
    with redis.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as heard:
        heard.psubscribe(events.channel_pattern())
        own = events.campaign_channel(1)
        settings.INSTALLATION = "another"
        client.publish(events.campaign_channel(1), b"changed")
        client.publish(own, b"changed")
        came = [heard.get_message(timeout=5), heard.get_message(timeout=5)]
    assert [one and one["type"] for one in came] == ["psubscribe", "pmessage"]
    assert came[1] and came[1]["channel"].decode() == own


@pytest.mark.django_db
def test_locks_of_another_database_are_not_ours():
    given = {k: v for k, v in connection.get_connection_params().items() if k != "cursor_factory"}
    with psycopg.connect(**given | {"dbname": "template1"}, autocommit=True) as other:
        asked = other.execute("SELECT pg_try_advisory_lock(%s, %s)", [lease.Lock.WORKER, 77])
        assert asked.fetchone() == (True,)
        with lease.lease(77, lease.Lock.WORKER) as ours, connection.cursor() as cursor:
            cursor.execute(lease.ALIVE, [lease.Lock.WORKER])
            assert ours and cursor.fetchall() == [(77,)]
        with connection.cursor() as cursor:
            cursor.execute(lease.ALIVE, [lease.Lock.WORKER])
            assert cursor.fetchall() == []


def processes(lab: Lab) -> list[Identity]:
    return [one for one in lab.children() if one.name != "first_run"]


def healthy(lab: Lab) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.port}/healthz", timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.night
@pytest.mark.parametrize("shared", [False, True])
def test_two_at_once_and_down_of_one(shared):
    """With stores of their own; or in one Redis and, as two databases, in one PostgreSQL."""
    with ExitStack() as stack:
        labs = []
        for name in ("benchlab_lab1", "benchlab_lab2"):
            place = tempfile.TemporaryDirectory(prefix="benchlab-two-", ignore_cleanup_errors=True)
            lab = Lab(Path(stack.enter_context(place)))
            stack.callback(lab.say, "down")
            if shared:
                stack.enter_context(database(name))
                given = settings.DATABASES["default"]
                own = f"postgresql://{given['USER']}@/{name}?host={given['HOST']}"
                lab.env |= {"DATABASE_URL": own, "REDIS_URL": settings.REDIS_URL}
                lab.env |= {"BENCHLAB_KEY": Fernet.generate_key().decode()}
            labs.append(lab)
        one, other = labs
        up, said = one.up()
        passwords = re.findall(r"with password  (\S+)", said)
        other_up, said = other.up()
        passwords += re.findall(r"with password  (\S+)", said)
        assert len(set(passwords)) == 2
        theirs = processes(one)
        kept = processes(other)
        assert one.say("down")[0] == 0
        wait_until_gone(theirs)
        assert all(identity.alive for identity in kept)
        assert healthy(other) == "ok\n"
        up.communicate(timeout=30)
        up, _ = one.up()  # one after the other, with what it had
        assert healthy(one) == healthy(other) == "ok\n"
        for process in (up, other_up):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            assert process.returncode == 0


@contextmanager
def database(name: str) -> Iterator[None]:
    """A database of that name on the tests' server, for a while."""
    given = settings.DATABASES["default"]
    how: dict[str, Any] = {"host": given["HOST"], "user": given["USER"], "dbname": "postgres"}
    with psycopg.connect(**how, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
