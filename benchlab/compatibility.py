# SPDX-License-Identifier: Apache-2.0
"""Compatibility of this program and a database: the server's version, and tables of a newer BenchLab.

Asked before anything is written: by `prepare`, which `up` and containers run, by the web server, workers and commands.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

# app, name of a migration
Step = tuple[str, str]

# Versions of PostgreSQL: none before is taken, and with none later BenchLab was tried.
OLDEST, NEWEST = 15, 18
PATIENCE_S = 5
# Settings that a server may have other defaults for: with those, times are not read, and figures lose digits.
SETTINGS = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
}
NEWER = "{what} is of a newer BenchLab: this one does not know {steps}. Take that version{way}. Nothing was changed."
ANOTHER = ", or restore a backup that this one made into another database"


def unfit() -> str:
    """Words for why nothing may start on the database that is set; "" where it fits, is empty or does not answer.

    By a connection of its own: whoever starts may go on without the database, and wait for it later.
    """
    parameters = {**connection.get_connection_params(), "connect_timeout": PATIENCE_S}
    try:
        with psycopg.connect(**parameters) as own:
            return (
                of_server(own.info.server_version)
                or _of_settings(own)
                or newer("This database", _applied(own), ANOTHER)
            )
    except psycopg.Error:
        return ""


def of_server(number: int) -> str:
    """Words for a server that is too old; `number` as libpq gives it, such as 150004."""
    if number // 10_000 >= OLDEST:
        return ""
    return f"PostgreSQL {number // 10_000} is too old: BenchLab needs {OLDEST} or newer. Nothing was changed."


def _of_settings(own: psycopg.Connection[tuple[object, ...]]) -> str:
    """Words for settings with which stored values would be read wrongly, and the statements that mend it."""
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name"
    rows = own.execute(query, [list(SETTINGS)]).fetchall()
    wrong = [
        (str(name), str(value)) for name, value in rows if not _is_accepted(str(name), str(value))
    ]
    if not wrong:
        return ""
    settings_text = ", ".join(f"{name} is {value}" for name, value in wrong)
    database = sql.Identifier(own.info.dbname)
    todo = "; ".join(
        sql.SQL("ALTER DATABASE {} SET {} = {}")
        .format(database, sql.SQL(name), sql.Literal(SETTINGS[name]))
        .as_string(own)
        for name, _ in wrong
    )
    return (
        f"The server's default of {settings_text}: BenchLab cannot read its values so. Say to it: {todo}. "
        "Nothing was changed."
    )


def _is_accepted(name: str, value: str) -> bool:
    if name == "DateStyle":
        return value.startswith("ISO")
    return int(value) >= 1 if name == "extra_float_digits" else value == SETTINGS[name]


def newer(what: str, applied: Iterable[Step], way: str = "") -> str:
    """Words for a database or backup with migrations that this program does not have; "" for any other."""
    migrations = MigrationLoader(None).disk_migrations or {}
    known_steps = {
        *migrations,
        *(step for migration in migrations.values() for step in migration.replaces),
    }
    strange = sorted(set(applied) - known_steps)
    steps = ", ".join(".".join(step) for step in strange[:3])
    return NEWER.format(what=what, steps=steps, way=way) if strange else ""


def _applied(own: psycopg.Connection[tuple[object, ...]]) -> set[Step]:
    rows = own.execute("SELECT to_regclass('django_migrations') IS NOT NULL").fetchone()
    if not rows or not rows[0]:
        return set()
    applied_rows = own.execute(sql.SQL("SELECT app, name FROM django_migrations")).fetchall()
    return {(str(app), str(name)) for app, name in applied_rows}
