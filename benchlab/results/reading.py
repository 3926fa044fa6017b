"""Rows out of PostgreSQL without ever holding them all: COPY as CSV lines, or a cursor for series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from psycopg.sql import SQL, Composable, Composed

from benchlab.campaigns.models import Campaign
from benchlab.results import sql
from benchlab.results.columns import PARAM, Column, Kind
from benchlab.results.language import Asked, Refused
from benchlab.results.where import raw


def database() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    return connection.connection  # type: ignore[no-any-return]


def campaigns(user: AbstractBaseUser | AnonymousUser, library: bool) -> Composable:
    """The subquery of what this person may see."""
    every = Campaign.objects.all()
    seen = every.visible_to(user) if library else every.for_user(user)
    statement, parameters = seen.order_by().values("pk").query.sql_with_params()
    return raw(psycopg.ClientCursor(database()).mogrify(statement, parameters))


def resolved(asked: Asked, seen: Composable) -> Asked:
    """With options that are numbers everywhere known as such. Raises Refused for one that no run has."""
    used = {c.column.option: f"{PARAM}{c.column.option}" for c in asked.conditions}
    used |= {c.option: "fields" for c in asked.columns}
    used |= {c.option: "ordering" for c, _ in asked.order}
    used.pop("", None)
    if not used:
        return asked
    found = one_row(sql.options(list(used), seen))
    there = dict(zip(used, zip(found[::2], found[1::2], strict=True), strict=True))
    if wrong := [name for name, (known, _) in there.items() if not known]:
        raise Refused({used[name]: f"No run of yours has an option {name}." for name in wrong})
    numbers = {name for name, (_, number) in there.items() if number}
    return replace(
        asked,
        columns=tuple(_numeric(c) if c.option in numbers else c for c in asked.columns),
        order=tuple((_numeric(c) if c.option in numbers else c, d) for c, d in asked.order),
    )


def _numeric(column: Column) -> Column:
    return replace(column, kind=Kind.NUMBER, sql=f"({column.sql})::float8")


def one_row(statement: Composed) -> tuple[Any, ...]:
    with database().cursor() as cursor:
        return cursor.execute(statement).fetchone() or ()


def metrics(asked: Asked, seen: Composable) -> list[sql.Metric]:
    with database().cursor() as cursor:
        return cursor.execute(sql.metrics(asked, seen)).fetchall()


def lines(statement: Composed) -> Iterator[bytes]:
    """CSV (RFC 4180 with plain line feeds), a whole row each: NULL is nothing, an empty text is ""."""
    with (
        database().cursor() as cursor,
        cursor.copy(SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)) as copy,
    ):
        for line in copy:
            yield bytes(line)


def series(statement: Composed) -> Iterator[tuple[Any, ...]]:
    """Row by row as they come, in binary; one round trip."""
    with psycopg.Cursor(database()) as cursor:
        yield from cursor.stream(statement, binary=True)


def gathered(parts: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of about `size`, each of whole parts."""
    held: list[bytes] = []
    length = 0
    for part in parts:
        held.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)
