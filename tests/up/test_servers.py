"""The same lab on PostgreSQL 15 to 18 by address: made, backed up, restored there and elsewhere, read again.

Its role owns a database and may nothing else; the servers' defaults are no one's habit (servers.py).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from benchlab import compatibility
from benchlab.up import store_programs
from tests.up import servers
from tests.up.servers import Server
from tests.up.test_backup import Installation

pytestmark = pytest.mark.night
NAME = 'a lab\'s "own" = one'
VERSIONS = (15, 16, 17, 18)
Start = Callable[[int], Server]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="benchlab-servers-", ignore_cleanup_errors=True
    ) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def start(place) -> Iterator[Start]:
    there: dict[int, Server] = {}
    with ExitStack() as held:

        def one(version: int) -> Server:
            if said := servers.missing(version):
                pytest.skip(said)
            if version not in there:
                there[version] = held.enter_context(servers.running(version, place))
            return there[version]

        yield one


def installed(state: Path, server: Server, name: str) -> Installation:
    """By address: over TLS where both sides have it."""
    address = server.database(name, tls=server.version == 15)
    programs = server.programs or store_programs.postgres_directory()
    redis = os.environ["REDIS_URL"]
    return Installation(state, DATABASE_URL=address, BENCHLAB_PG_BIN=str(programs), REDIS_URL=redis)


@pytest.fixture(scope="module")
def labs(start, place) -> Callable[[int], tuple[Installation, Path]]:
    made: dict[int, tuple[Installation, Path]] = {}

    def one(version: int) -> tuple[Installation, Path]:
        if version not in made:
            lab = installed(place / f"state {version}", start(version), f"{NAME} {version}")
            lab.manage("prepare")
            lab.call("make")
            lab.manage("backup", str(place / f"kept {version}"))
            made[version] = lab, place / f"kept {version}"
        return made[version]

    return one


@pytest.mark.parametrize(
    ("version", "into"), [*zip(VERSIONS, VERSIONS, strict=True), (15, 18), (16, 17)]
)
def test_all_of_it_comes_back(labs, start, place, version, into):
    lab, kept = labs(version)
    there = installed(place / f"state {version} {into}", start(into), f"{NAME} {version} {into}")
    assert "No damage found." in there.manage("restore", str(kept))
    before, after = pages(lab), pages(there)
    assert after == before and after[:2] == [200, 200] and len(after[2].splitlines()) > 1
    assert "with something that could not be read" in there.manage("reparse")
    assert pages(there)[3:] == before[3:]


def pages(lab: Installation) -> list[Any]:
    found: list[Any] = json.loads(lab.call("show").strip().splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("DateStyle", "German, DMY"),
        ("IntervalStyle", "sql_standard"),
        ("extra_float_digits", "0"),
        ("standard_conforming_strings", "off"),
        ("default_transaction_isolation", "serializable"),
    ],
)
def test_settings_that_spoil_values_are_named(start, place, setting, value):
    name = f"{NAME} {setting}"
    lab = installed(place / f"state {setting}", start(15), name)
    with psycopg.connect(lab.env["DATABASE_URL"]) as own:
        change = sql.SQL("ALTER DATABASE {} SET {} = {}")
        own.execute(change.format(sql.Identifier(name), sql.SQL(setting), sql.Literal(value)))
    refused = lab.manage("prepare", fails=True)
    assert f"{setting} is {value}" in refused and "Nothing was changed" in refused
    [todo] = re.findall(r"Say to it: (.*)\. Nothing was changed", refused)
    with psycopg.connect(lab.env["DATABASE_URL"]) as own:
        assert own.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,)
        own.execute(todo)
    with psycopg.connect(lab.env["DATABASE_URL"]) as own:
        assert compatibility._of_settings(own) == ""


@pytest.mark.parametrize(("version", "into"), [(18, 15), (17, 16)])
def test_an_older_server_is_refused_before_anything_is_written(labs, start, place, version, into):
    _, kept = labs(version)
    name = f"{NAME} {version} {into}"
    there = installed(place / f"state {version} {into}", start(into), name)
    refused = there.manage("restore", str(kept), fails=True)
    assert "of the version that it was made of, or a later one. Nothing was changed" in refused
    with psycopg.connect(there.env["DATABASE_URL"]) as own:
        assert own.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)


def test_programs_without_tls_are_named(labs, start, place):
    """The server is spoken to over TLS by BenchLab, and the wheel's pg_dump cannot."""
    lab, _ = labs(17)
    address = start(17).address(f"{NAME} 17", tls=True)
    over = Installation(lab.state.path, **{**lab.env, "DATABASE_URL": address})
    refused = over.manage("backup", str(place / "over TLS"), fails=True)
    assert (
        "have no TLS" in refused and "BENCHLAB_PG_BIN" in refused and "Nothing was done" in refused
    )
    assert not (place / "over TLS").exists()
