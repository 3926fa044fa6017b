"""The real thing: embedded PostgreSQL and Valkey, started, asked, stopped."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
import redis

from benchlab.up import database, postgres, supervised, valkey
from benchlab.up.procs import end, identify, spawn
from benchlab.up.state import State
from benchlab.up.trouble import Trouble


@pytest.fixture(scope="module")
def state():
    # Not pytest's tmp_path: below it (0700) PostgreSQL's own user would need a place elsewhere.
    with tempfile.TemporaryDirectory(prefix="benchlab-stores-") as place:
        here = State(Path(place))
        here.create()
        yield here


@pytest.fixture(scope="module")
def cluster(state):
    found = postgres.plan(state)
    postgres.make_cluster(found)
    return found


def ask(cluster: postgres.Postgres, query: str) -> object:
    with psycopg.connect(cluster.url) as connection:
        row = connection.execute(query).fetchone()
        return row and row[0]


def test_postgres_serves_its_data_after_a_restart(cluster):
    with database.served(cluster):
        assert str(ask(cluster, "show server_version")).startswith(cluster.data.name)
        with psycopg.connect(cluster.url) as connection:
            connection.execute("create table kept (n int)")
            connection.execute("insert into kept values (42)")
    with database.served(cluster, throw_away=True):
        assert ask(cluster, "select n from kept") == 42
        assert ask(cluster, "show fsync") == "off"


def test_nobody_else_may_connect(cluster):
    with database.served(cluster):
        assert ask(cluster, "show listen_addresses") == ""
        if os.geteuid() == 0 and cluster.owner:
            tool = [
                cluster.binaries / "psql",
                "-h",
                cluster.sockets,
                "-U",
                "benchlab",
                "-c",
                "select",
            ]
            done = subprocess.run(
                tool, user=cluster.owner.uid, capture_output=True, text=True, cwd="/"
            )
            assert "Peer authentication failed" in done.stderr


def test_a_half_made_cluster_is_made_again(state, cluster, monkeypatch):
    other = postgres.Postgres(
        cluster.binaries,
        cluster.data.parent / "half" / cluster.data.name,
        cluster.sockets,
        cluster.log,
        cluster.owner,
    )
    postgres.own_directory(other.data.parent, other.owner)
    other.unfinished.mkdir()
    (other.unfinished / "PG_VERSION").write_text("18")
    assert "unfinished database" in postgres.make_cluster(other)
    assert postgres.make_cluster(other) == ""


def test_a_damaged_cluster_is_not_touched(cluster, tmp_path):
    data = tmp_path / cluster.data.name
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    damaged = postgres.Postgres(cluster.binaries, data, tmp_path, tmp_path / "log", cluster.owner)
    with pytest.raises(Trouble, match=r"(?s)not a whole PostgreSQL.*global/pg_control.*mv "):
        postgres.make_cluster(damaged)
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_a_full_disk_gets_its_own_words(cluster):
    said = 'initdb: error: could not write file "x": No space left on device'
    assert "no space left on the disk" in str(postgres.failure(cluster, "initdb failed", said))


def test_a_server_that_does_not_start_says_why(cluster):
    with database.served(cluster):
        with (
            pytest.raises(Trouble, match=r"(?s)did not start.*lock file"),
            database.served(cluster),
        ):
            pass
        assert ask(cluster, "select 1") == 1


def test_sockets_of_somebody_else_are_refused(tmp_path):
    if os.geteuid():
        pytest.skip("only root can make a directory of somebody else's")
    place = tmp_path / "run"
    place.mkdir()
    os.chown(place, 12345, 12345)
    with pytest.raises(Trouble, match="belongs to user 12345"):
        postgres.own_directory(place, None)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def test_valkey_wants_its_password_and_keeps_its_data(state):
    recipe, url = supervised.valkey(state)
    for expected in (None, b"kept"):
        process = spawn(recipe.argv, recipe.env, subprocess.DEVNULL, stdin=recipe.stdin)
        try:
            deadline = time.monotonic() + 10
            while not recipe.ready(process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            with redis.Redis.from_url(url) as client:
                assert client.get("key") == expected
                client.set("key", "kept")
            with (
                redis.Redis.from_url(valkey.url(port_of(url), "wrong")) as bad,
                pytest.raises(redis.AuthenticationError),
            ):
                bad.ping()
        finally:
            found = identify("valkey", process.pid)
            assert found
            end([found])
            process.wait()
