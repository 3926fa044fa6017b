# SPDX-License-Identifier: Apache-2.0
"""Rows out of PostgreSQL without ever holding them all: COPY as CSV lines, or a cursor for series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q
from psycopg.sql import SQL, Composable, Composed

from benchlab.campaigns.models import Campaign, Run
from benchlab.results import sql
from benchlab.results.query_language import TableQuery, Value
from benchlab.results.sql import trusted_sql
from benchlab.runs.models import Attempt
from benchlab.web.texts import parse_row_id

# Columns that identify a campaign.
CAMPAIGN_COLUMNS = ("campaign", "campaign_id", "run", "attempt")


def raw_connection() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    return connection.connection  # type: ignore[no-any-return]


def visible_campaigns(
    user: AbstractBaseUser | AnonymousUser,
    library: bool,
    *,
    few_rows: bool = False,
    archived: bool = False,
) -> Composable:
    """Return the subquery of the campaigns that this person may see.

    `few_rows` is for a table that is not read whole; it costs a query. `archived` includes archived campaigns, which
    lists leave out.
    """
    every = Campaign.objects.teams_first() if few_rows else Campaign.objects.all()
    visible = every.visible_to(user) if library else every.for_user(user)
    visible = visible if archived else visible.current()
    try:
        statement, parameters = visible.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:
        # a person without teams
        return trusted_sql("SELECT NULL::bigint")
    return trusted_sql(psycopg.ClientCursor(raw_connection()).mogrify(statement, parameters))


def queried_campaigns(
    query: TableQuery | None, user: AbstractBaseUser | AnonymousUser, *, few_rows: bool = False
) -> Composable:
    """Return the subquery of the campaigns in a table.

    A campaign, run or attempt that is named is in it even if it is archived or belongs to the reference library.
    """
    library = query is not None and (query.library or _names_library(query, user))
    return visible_campaigns(user, library, few_rows=few_rows, archived=names_campaigns(query))


def _names_library(query: TableQuery, user: AbstractBaseUser | AnonymousUser) -> bool:
    """True if it names something in the library and not the person's own, who may have a campaign of that name."""
    return any(_is_in_library(name, value, user) for name, value in _named_campaigns(query))


def _is_in_library(column: str, value: Value, user: AbstractBaseUser | AnonymousUser) -> bool:
    rows = {"run": Run.objects, "attempt": Attempt.objects}.get(column, Campaign.objects)
    which = Q(name=value) if column == "campaign" else Q()
    if (number := parse_row_id(str(value))) is not None:
        which |= Q(pk=number)
    return (
        bool(which)
        and not rows.for_user(user).filter(which).exists()
        and rows.visible_to(user).filter(which).exists()
    )


def names_campaigns(query: TableQuery | None) -> bool:
    """True if it names campaigns, runs or attempts: then archived ones may be among them."""
    return query is not None and any(_named_campaigns(query))


def _named_campaigns(query: TableQuery) -> Iterator[tuple[str, Value]]:
    """(column, value) of each condition that names one."""
    for condition in query.conditions:
        if condition.column.name in CAMPAIGN_COLUMNS and condition.operator in ("eq", "in"):
            yield from ((condition.column.name, value) for value in condition.values)


def fetch_rows(statement: Composable) -> list[tuple[Any, ...]]:
    """Return all rows of a statement that yields few."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(raw_connection()))
        return list(cursor.fetchall())


def fetch_words(statement: Composable) -> list[str]:
    """Return the only column of a statement that yields few rows."""
    return [word for (word,) in fetch_rows(statement)]


def wide_metrics(query: TableQuery, campaigns: Composable) -> list[sql.Metric]:
    return [(name, unit) for name, unit in fetch_rows(sql.metrics_statement(query, campaigns))]


def csv_lines(statement: Composed) -> Iterator[bytes]:
    """CSV (RFC 4180 with plain line feeds), a whole row each: NULL is nothing, an empty text is ""."""
    with (
        raw_connection().cursor() as cursor,
        cursor.copy(SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)) as copy,
    ):
        for line in copy:
            yield bytes(line)


def stream_series(statement: Composed) -> Iterator[tuple[Any, ...]]:
    """Yield the rows one by one as they arrive, in binary. One round trip."""
    with psycopg.Cursor(raw_connection()) as cursor:
        yield from cursor.stream(statement, binary=True)


def gather_parts(parts: Iterator[bytes], size: int) -> Iterator[bytes]:
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
