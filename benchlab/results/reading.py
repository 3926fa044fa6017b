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
from benchlab.results.columns import KNOWN_METRICS, PARAM, Column, Kind
from benchlab.results.query_language import (
    EQUALITY_OPERATORS,
    Condition,
    QueryError,
    TableQuery,
    Value,
)
from benchlab.results.sql_conditions import trusted_sql
from benchlab.runs.models import Attempt
from benchlab.web.filters import MAX_LISTED_WORDS, unknown_word_message
from benchlab.web.texts import parse_row_id

# Words that BenchLab knows; imported results have others, which only the rows tell.
KNOWN_WORDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "tool": registry.all_tools,
    "sampler": registry.all_samplers,
    "metric": lambda: KNOWN_METRICS,
}

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
    return any(
        condition.column.name in CAMPAIGN_COLUMNS
        and condition.operator in ("eq", "in")
        and any(_is_in_library(condition.column.name, value, user) for value in condition.values)
        for condition in query.conditions
    )


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
    conditions = query.conditions if query else ()
    return any(
        condition.column.name in CAMPAIGN_COLUMNS and condition.operator in ("eq", "in")
        for condition in conditions
    )


def resolve_query(query: TableQuery, campaigns: Composable) -> TableQuery:
    """Mark the options that are numbers in every run as numeric.

    Raises QueryError for an option, tool, sampler, metric or name that neither BenchLab nor any run has.
    """
    for condition in query.conditions:
        _check_known_words(condition, campaigns, query.shape.name)
        _check_names(condition, campaigns)
    used = {c.column.option: f"{PARAM}{c.column.option}" for c in query.conditions}
    used |= {c.option: "fields" for c in query.columns}
    used |= {c.option: "ordering" for c, _ in query.order}
    used.pop("", None)
    if not used:
        return query
    [flags] = fetch_rows(sql.options_statement(list(used), campaigns))
    by_option = dict(zip(used, zip(flags[::2], flags[1::2], strict=True), strict=True))
    if wrong := [name for name, (exists, _) in by_option.items() if not exists]:
        raise QueryError({used[name]: f"No run of yours has an option {name}." for name in wrong})
    numbers = {name for name, (_, number) in by_option.items() if number}
    return replace(
        query,
        columns=tuple(_as_numeric(c) if c.option in numbers else c for c in query.columns),
        order=tuple((_as_numeric(c) if c.option in numbers else c, d) for c, d in query.order),
    )


def _check_known_words(condition: Condition, campaigns: Composable, table: str) -> None:
    name = condition.column.name
    if name not in KNOWN_WORDS or condition.operator not in EQUALITY_OPERATORS:
        return
    own_words = set(() if table == "series" and name == "metric" else KNOWN_WORDS[name]())
    unknown = sorted({str(value) for value in condition.values} - own_words)
    if name == "metric":
        patterns = {word for word in unknown if condition.column.glob and "*" in word}
        unknown = [
            word
            for word in unknown
            if word not in patterns and not _is_measured(word, campaigns, table)
        ]
        stored = _newest_metrics(campaigns, table) if unknown else set()
    else:
        stored = (
            {word for (word,) in fetch_rows(sql.words_statement(name, campaigns))}
            if unknown
            else set()
        )
    if strange := [word for word in unknown if word not in stored]:
        raise _unknown_word_error(
            condition, strange[0], stored or own_words if name == "metric" else own_words | stored
        )


def _is_measured(metric: str, campaigns: Composable, table: str) -> bool:
    return bool(fetch_rows(sql.has_metric_statement(metric, campaigns, table)))


def _newest_metrics(campaigns: Composable, table: str) -> set[str]:
    """Return the metrics of the newest attempts: those of all would need a scan of the whole table."""
    return {word for (word,) in fetch_rows(sql.newest_metrics_statement(campaigns, table))}


def _check_names(condition: Condition, campaigns: Composable) -> None:
    """Refuse unknown names. An unknown id only finds nothing, as another team's does."""
    column = condition.column
    if column.kind is not Kind.NAME or condition.operator not in EQUALITY_OPERATORS:
        return
    typed = sorted({str(value) for value in condition.values})
    names = [text for text in typed if not (text.isascii() and text.isdecimal())]
    if not names:
        return
    stored = {name for (name,) in fetch_rows(sql.names_statement(column.name, names, campaigns))}
    if strange := [name for name in names if name not in stored]:
        some = {
            name
            for (name,) in fetch_rows(
                sql.names_statement(column.name, None, campaigns, MAX_LISTED_WORDS)
            )
        }
        raise _unknown_word_error(condition, strange[0], some)


def _unknown_word_error(condition: Condition, word: str, choices: Iterable[str]) -> QueryError:
    name, operator = condition.column.name, condition.operator
    parameter = name if operator == "eq" else f"{name}__{operator}"
    return QueryError({parameter: unknown_word_message(word, choices)})


def _as_numeric(column: Column) -> Column:
    return replace(column, kind=Kind.NUMBER, sql=f"({column.sql})::float8")


def fetch_rows(statement: Composable) -> list[tuple[Any, ...]]:
    """Return all rows of a statement that yields few."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(raw_connection()))
        return list(cursor.fetchall())


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
