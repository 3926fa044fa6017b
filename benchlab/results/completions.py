# SPDX-License-Identifier: Apache-2.0
"""Completions for the query language: columns, and some of the values that the newest runs have."""

from __future__ import annotations

from psycopg.sql import SQL, Composable, Literal

from agents.drivers import registry
from benchlab.results import sql
from benchlab.results.columns import ALIASES, METRIC, PARAM, RESULTS, Column, Kind
from benchlab.results.query_language import QueryError, parse_query
from benchlab.results.reading import fetch_rows
from benchlab.results.sql_conditions import trusted_sql
from benchlab.results.table_pages import NAME_ORDERS

# the newest attempts, which are searched
NEWEST_ATTEMPTS = 100
# words
MAX_WORDS = 20
LISTABLE_KINDS = (Kind.TEXT, Kind.WHOLE, Kind.PARAM)


def newest_units(campaigns: Composable) -> dict[str, str]:
    """Metric -> unit, of the newest attempts."""
    rows = fetch_rows(
        SQL(
            "SELECT DISTINCT m.name, m.unit FROM ({}) s JOIN runs_measurement m ON m.attempt_id = s.id"
            " WHERE {} ORDER BY 1, 2"
        ).format(_newest_attempts(trusted_sql("a.id"), campaigns), trusted_sql(sql.WHOLE_ONLY))
    )
    return dict(rows)


def newest_options(campaigns: Composable) -> list[str]:
    """Options of the tools, as the newest runs have them."""
    rows = fetch_rows(
        SQL("SELECT DISTINCT jsonb_object_keys(s.options) FROM ({}) s ORDER BY 1").format(
            _newest_attempts(trusted_sql("r.options"), campaigns)
        )
    )
    return [name for (name,) in rows]


def condition_names(metrics: dict[str, str], tools_options: list[str]) -> list[str]:
    """Return every name that a condition may begin with."""
    return [
        *RESULTS.columns,
        *ALIASES,
        *(METRIC + name for name in metrics),
        *(PARAM + name for name in tools_options),
    ]


def complete_values(name: str, typed: str, campaigns: Composable) -> list[str]:
    """Return some values of a column that contain the typed text; [] if they cannot be listed. One query at most."""
    try:
        [condition] = parse_query(RESULTS, {f"{name}__isnull": ["true"]}).conditions
    except (QueryError, ValueError):
        return []
    column, part = condition.column, typed.replace("\0", "").lower()
    if words := _known_words(column):
        return [word for word in words if part in word.lower()][:MAX_WORDS]
    if column.name in NAME_ORDERS and column.kind is Kind.NAME:
        return _names_in_table(NAME_ORDERS[column.name][0], part, campaigns)
    if column.name == "metric":
        return [metric for metric in newest_units(campaigns) if part in metric.lower()][:MAX_WORDS]
    if column.per_row or condition.metric or column.kind not in LISTABLE_KINDS:
        return []
    rows = fetch_rows(
        SQL("SELECT DISTINCT v FROM ({}) s WHERE position({} IN lower(v)) > 0 LIMIT {}").format(
            _newest_attempts(trusted_sql(f"({column.sql})::text AS v"), campaigns),
            Literal(part),
            Literal(MAX_WORDS),
        )
    )
    return sorted(word for (word,) in rows if word)


def _known_words(column: Column) -> list[str]:
    if column.name == "tool":
        return sorted(registry.all_tools())
    return [word for word in column.choices if word]


def _names_in_table(table: str, part: str, campaigns: Composable) -> list[str]:
    mine = (
        "k.id IN ({})"
        if table == "campaigns_campaign"
        else ("k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))")
    )
    rows = fetch_rows(
        SQL(
            "SELECT DISTINCT k.name FROM {} k WHERE {} AND position({} IN lower(k.name)) > 0"
            " ORDER BY 1 LIMIT {}"
        ).format(
            trusted_sql(table),
            trusted_sql(mine).format(campaigns),
            Literal(part),
            Literal(MAX_WORDS),
        )
    )
    return [name for (name,) in rows]


def _newest_attempts(outputs: Composable, campaigns: Composable) -> Composable:
    return SQL("SELECT {} {} WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {}").format(
        outputs, trusted_sql(sql.ATTEMPTS_FROM), campaigns, Literal(NEWEST_ATTEMPTS)
    )
