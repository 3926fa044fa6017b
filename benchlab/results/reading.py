# SPDX-License-Identifier: Apache-2.0
"""Rows out of PostgreSQL without ever holding them all: COPY as CSV lines, or a cursor for series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q
from psycopg.sql import SQL, Composable, Composed

from agents.drivers import registry
from benchlab.campaigns.models import Campaign, Run
from benchlab.results import sql
from benchlab.results.columns import FIGURES, PARAM, Column, Kind
from benchlab.results.language import EQUALS, Asked, Condition, Refused, Value
from benchlab.results.where import raw
from benchlab.runs.models import Attempt
from benchlab.web.filters import MOST_WORDS, none_of
from benchlab.web.row_ids import row_id

# Words that BenchLab knows; imported results have others, which only the rows tell.
SPOKEN: Mapping[str, Callable[[], Iterable[str]]] = {
    "tool": registry.all_tools,
    "sampler": registry.all_samplers,
    "metric": lambda: FIGURES,
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
    except EmptyResultSet:
        # of nobody's teams
        return raw("SELECT NULL::bigint")
    return raw(psycopg.ClientCursor(database()).mogrify(statement, parameters))


def asked_for(
    asked: Asked | None, user: AbstractBaseUser | AnonymousUser, *, few_rows: bool = False
) -> Composable:
    """The subquery of the campaigns that a table is of. Who names a campaign, run or attempt has it, also where it is
    archived or the reference library's.
    """
    library = asked is not None and (asked.library or _names_library(asked, user))
    return campaigns(user, library, few_rows=few_rows, archived=names_campaigns(asked))


def _names_library(asked: Asked, user: AbstractBaseUser | AnonymousUser) -> bool:
    """True when it names what is in the library and not the person's own, who may have a campaign of the same name."""
    return any(
        condition.column.name in CERTAIN
        and condition.operator in ("eq", "in")
        and any(_in_library(condition.column.name, value, user) for value in condition.values)
        for condition in asked.conditions
    )


def _in_library(column: str, value: Value, user: AbstractBaseUser | AnonymousUser) -> bool:
    rows = {"run": Run.objects, "attempt": Attempt.objects}.get(column, Campaign.objects)
    which = Q(name=value) if column == "campaign" else Q()
    if (number := row_id(str(value))) is not None:
        which |= Q(pk=number)
    return (
        bool(which)
        and not rows.for_user(user).filter(which).exists()
        and rows.visible_to(user).filter(which).exists()
    )


def names_campaigns(asked: Asked | None) -> bool:
    """True when it asks for certain campaigns, runs or attempts: then what is archived may be among them."""
    conditions = asked.conditions if asked else ()
    return any(one.column.name in CERTAIN and one.operator in ("eq", "in") for one in conditions)


def resolved(asked: Asked, seen: Composable) -> Asked:
    """With options that are numbers everywhere known as such. Raises Refused for one, and for a tool, a sampler, a
    metric or a name, that neither BenchLab knows nor any run has."""
    for condition in asked.conditions:
        _spoken(condition, seen, asked.shape.name)
        _named(condition, seen)
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


def _spoken(condition: Condition, seen: Composable, table: str) -> None:
    name = condition.column.name
    if name not in SPOKEN or condition.operator not in EQUALS:
        return
    known = set(() if table == "series" and name == "metric" else SPOKEN[name]())
    unknown = sorted({str(value) for value in condition.values} - known)
    if name == "metric":
        patterns = {word for word in unknown if condition.column.glob and "*" in word}
        unknown = [
            word for word in unknown if word not in patterns and not _measured(word, seen, table)
        ]
        there = _metrics(seen, table) if unknown else set()
    else:
        there = {word for (word,) in rows(sql.words(name, seen))} if unknown else set()
    if strange := [word for word in unknown if word not in there]:
        raise _refusal(condition, strange[0], there or known if name == "metric" else known | there)


def _measured(metric: str, seen: Composable, table: str) -> bool:
    return bool(rows(sql.has_metric(metric, seen, table)))


def _metrics(seen: Composable, table: str) -> set[str]:
    """Metrics of the newest attempts: all of them would be a walk through the whole table."""
    return {word for (word,) in rows(sql.newest_metrics(seen, table))}


def _named(condition: Condition, seen: Composable) -> None:
    """An id that nobody has finds nothing, as another team's does; a name that nobody gave is a mistake."""
    column = condition.column
    if column.kind is not Kind.NAME or condition.operator not in EQUALS:
        return
    typed = sorted({str(value) for value in condition.values})
    names = [text for text in typed if not (text.isascii() and text.isdecimal())]
    if not names:
        return
    there = {name for (name,) in rows(sql.names(column.name, names, seen))}
    if strange := [name for name in names if name not in there]:
        some = {name for (name,) in rows(sql.names(column.name, None, seen, MOST_WORDS))}
        raise _refusal(condition, strange[0], some)


def _refusal(condition: Condition, word: str, there: Iterable[str]) -> Refused:
    name, operator = condition.column.name, condition.operator
    parameter = name if operator == "eq" else f"{name}__{operator}"
    return Refused({parameter: none_of(word, there)})


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
