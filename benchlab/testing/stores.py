# SPDX-License-Identifier: Apache-2.0
"""Throw-away PostgreSQL and Valkey for a run of tests or benchmarks: started and removed with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from benchlab.testing.leftovers import MEMORY, PLACES, memory_place, own
from benchlab.up import database, postgres, supervised
from benchlab.up.procs import end, identify, spawn
from benchlab.up.state import State
from benchlab.up.trouble import Trouble

# bytes
LEAST_ROOM = 8 << 30
# Name of the database of which each process's test database is a copy (tests/people.py).
TEMPLATE = "BENCHLAB_TEST_TEMPLATE"


@contextmanager
def stores() -> Iterator[Mapping[str, str]]:
    """Yield the environment of a test process with its own PostgreSQL and Valkey, removed after the block."""
    # A background job of a shell ignores SIGINT, and pytest would inherit that although we stop it with SIGINT.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupted)
    with tempfile.TemporaryDirectory(prefix=PLACES, ignore_cleanup_errors=True) as place:
        state = State(Path(place))
        state.create()
        own(state.path)
        env = database.base_environment(state)
        # Otherwise each of hundreds of processes spends seconds on compiling what it imports.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        # The setting belongs to one database, and tests have many.
        env["BENCHLAB_AUDIT_HEAD"] = ""
        env["ALLOWED_HOSTS"] = "localhost,127.0.0.1,[::1],testserver"
        env.update(hosts_in_memory())
        with redis(state, env), sql(state, env):
            yield env


def hosts_in_memory() -> dict[str, str]:
    """Environment that keeps practice hosts' disks in memory if there is room, as each guest fsync is one here.

    Data that a guest synced survives the guest's power loss there, too.
    """
    try:
        room = shutil.disk_usage(MEMORY).free
    except OSError:
        return {}
    if "BENCHLAB_HOSTS" in os.environ or room < LEAST_ROOM or not os.access(MEMORY, os.W_OK):
        return {}
    return {"BENCHLAB_HOSTS": str(memory_place())}


def interrupted(number: int, frame: object) -> None:
    """Raise KeyboardInterrupt, so that the stores are stopped and the directory is removed."""
    raise KeyboardInterrupt


@contextmanager
def sql(state: State, env: dict[str, str]) -> Iterator[None]:
    if database.is_given("DATABASE_URL"):
        yield
        return
    cluster = postgres.plan(state)
    own(state.path, cluster.data.parent)
    env["DATABASE_URL"] = cluster.url
    try:
        with database.served(cluster, throw_away=True):
            yield
    finally:
        # The cluster lies outside `state` if other users may not read that.
        shutil.rmtree(cluster.data.parent, ignore_errors=True)


def migrated_template(env: Mapping[str, str]) -> dict[str, str]:
    """Environment of processes that copy one migrated database, as migrating takes each of them seven seconds."""
    if database.is_given("DATABASE_URL"):
        return dict(env)
    url = urlsplit(env["DATABASE_URL"])
    with psycopg.connect(url._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE template_of_tests")
    template = url._replace(path="/template_of_tests").geturl()
    argv = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
    subprocess.run(
        argv, env={**env, "DATABASE_URL": template}, stdin=subprocess.DEVNULL, check=True
    )
    return {**env, TEMPLATE: "template_of_tests"}


@contextmanager
def redis(state: State, env: dict[str, str]) -> Iterator[None]:
    if database.is_given("REDIS_URL"):
        yield
        return
    recipe, env["REDIS_URL"] = supervised.valkey(state)
    with (state.logs / "valkey.log").open("ab") as log:
        process = spawn(recipe.argv, recipe.env, log, cwd="/", stdin=recipe.stdin)
    try:
        deadline = time.monotonic() + 30
        while not recipe.ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Trouble((state.logs / "valkey.log").read_text(errors="replace"))
            time.sleep(0.02)
        yield
    finally:
        if identity := identify("valkey", process.pid):
            end([identity])
        process.wait()
