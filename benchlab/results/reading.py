"""Rows out of PostgreSQL without ever holding them all: COPY as CSV lines, or a cursor for series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import EmptyResultSet
from django.db import connection
from psycopg.sql import SQL, Composable, Composed

from agents.drivers import registry
from benchlab.campaigns.models import Campaign
from benchlab.results import sql
from benchlab.results.columns import PARAM, Column, Kind
from benchlab.results.language import EQUALS, Asked, Condition, Refused
from benchlab.results.where import raw

# Words that BenchLab knows; imported results have others, which only the rows tell.
SPOKEN: Mapping[str, Callable[[], Iterable[str]]] = {
    "tool": registry.all_tools,
    "sampler": registry.all_samplers,
}

# Columns that tell which campaigns are meant.
CERTAIN = ("campaign", "campaign_id", "run", "attempt")


def database() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    return connection.connection  # type: ignore[no-any-return]


def campaigns(
    user: AbstractBaseUser | AnonymousUser,
    library: bool,
    *,
    few_rows: bool = False,
    archived: bool = False,
) -> Composable:
    """The subquery of what this person may see. `few_rows`: of a table that is not read whole, which costs a query.

    `archived`: also what is; else a table would have what lists leave out.
    """
    every = Campaign.objects.teams_first() if few_rows else Campaign.objects.all()
    seen = every.visible_to(user) if library else every.for_user(user)
    seen = seen if archived else seen.current()
    try:
        statement, parameters = seen.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # of nobody's teams
        return raw("SELECT NULL::bigint")
    return raw(psycopg.ClientCursor(database()).mogrify(statement, parameters))


def names_campaigns(asked: Asked | None) -> bool:
    """True when it asks for certain campaigns, runs or attempts: then what is archived may be among them."""
    conditions = asked.conditions if asked else ()
    return any(one.column.name in CERTAIN and one.operator in ("eq", "in") for one in conditions)


def resolved(asked: Asked, seen: Composable) -> Asked:
    """With options that are numbers everywhere known as such. Raises Refused for one, and for a tool or sampler, that
    neither BenchLab knows nor any run has."""
    for condition in asked.conditions:
        _spoken(condition, seen)
    used = {c.column.option: f"{PARAM}{c.column.option}" for c in asked.conditions}
    used |= {c.option: "fields" for c in asked.columns}
    used |= {c.option: "ordering" for c, _ in asked.order}
    used.pop("", None)
    if not used:
        return asked
    [found] = rows(sql.options(list(used), seen))
    there = dict(zip(used, zip(found[::2], found[1::2], strict=True), strict=True))
    if wrong := [name for name, (known, _) in there.items() if not known]:
        raise Refused({used[name]: f"No run of yours has an option {name}." for name in wrong})
    numbers = {name for name, (_, number) in there.items() if number}
    return replace(
        asked,
        columns=tuple(_numeric(c) if c.option in numbers else c for c in asked.columns),
        order=tuple((_numeric(c) if c.option in numbers else c, d) for c, d in asked.order),
    )


def _spoken(condition: Condition, seen: Composable) -> None:
    name, operator = condition.column.name, condition.operator
    if name not in SPOKEN or operator not in EQUALS:
        return
    unknown = set(map(str, condition.values)) - set(SPOKEN[name]())
    if not unknown:
        return
    there = {word for (word,) in rows(sql.words(name, seen))}
    if strange := sorted(unknown - there):
        parameter = name if operator == "eq" else f"{name}__{operator}"
        known = ", ".join(sorted(word for word in {*SPOKEN[name](), *there} if word))
        raise Refused({parameter: f"{strange[0][:40]!r} is not one of them; there are {known}."})


def _numeric(column: Column) -> Column:
    return replace(column, kind=Kind.NUMBER, sql=f"({column.sql})::float8")


def rows(statement: Composable) -> list[tuple[Any, ...]]:
    """All of a statement's, which are few."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(database()))
        return list(cursor.fetchall())


def metrics(asked: Asked, seen: Composable) -> list[sql.Metric]:
    return [(name, unit) for name, unit in rows(sql.metrics(asked, seen))]


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
