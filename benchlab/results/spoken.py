# SPDX-License-Identifier: Apache-2.0
"""Completions of the query language: the columns there are, and some values of the newest runs, never all of them."""

from __future__ import annotations

from psycopg.sql import SQL, Composable, Literal

from agents.drivers import registry
from benchlab.results import sql
from benchlab.results.columns import ALIASES, METRIC, PARAM, RESULTS, Column, Kind
from benchlab.results.language import Refused, understand
from benchlab.results.reading import rows
from benchlab.results.walk import NAMED
from benchlab.results.where import raw

# attempts that are looked at
NEWEST = 100
# words
MOST = 20
BARE = (Kind.TEXT, Kind.WHOLE, Kind.PARAM)


def figures(seen: Composable) -> dict[str, str]:
    """Metric -> unit, of the newest attempts."""
    found = rows(
        SQL(
            "SELECT DISTINCT m.name, m.unit FROM ({}) s JOIN runs_measurement m ON m.attempt_id = s.id"
            " WHERE {} ORDER BY 1, 2"
        ).format(_newest(raw("a.id"), seen), raw(sql.WHOLE_ONLY))
    )
    return dict(found)


def options(seen: Composable) -> list[str]:
    """Of the tools, as the newest runs have them."""
    found = rows(
        SQL("SELECT DISTINCT jsonb_object_keys(s.options) FROM ({}) s ORDER BY 1").format(
            _newest(raw("r.options"), seen)
        )
    )
    return [name for (name,) in found]


def names(metrics: dict[str, str], tools_options: list[str]) -> list[str]:
    """All that a condition may be about."""
    return [
        *RESULTS.columns,
        *ALIASES,
        *(METRIC + name for name in metrics),
        *(PARAM + name for name in tools_options),
    ]


def values(name: str, typed: str, seen: Composable) -> list[str]:
    """Some that a column has and that contain what is typed; [] where nobody could list them. One query at most."""
    try:
        [condition] = understand(RESULTS, {f"{name}__isnull": ["true"]}).conditions
    except (Refused, ValueError):
        return []
    column, part = condition.column, typed.replace("\0", "").lower()
    if words := _known(column):
        return [word for word in words if part in word.lower()][:MOST]
    if column.name in NAMED and column.kind is Kind.NAME:
        return _of_table(NAMED[column.name][0], part, seen)
    if column.name == "metric":
        return [one for one in figures(seen) if part in one.lower()][:MOST]
    if column.every_row or condition.metric or column.kind not in BARE:
        return []
    found = rows(
        SQL("SELECT DISTINCT v FROM ({}) s WHERE position({} IN lower(v)) > 0 LIMIT {}").format(
            _newest(raw(f"({column.sql})::text AS v"), seen), Literal(part), Literal(MOST)
        )
    )
    return sorted(word for (word,) in found if word)


def _known(column: Column) -> list[str]:
    if column.name == "tool":
        return sorted(registry.all_tools())
    return [word for word in column.words if word]


def _of_table(table: str, part: str, seen: Composable) -> list[str]:
    mine = (
        "k.id IN ({})"
        if table == "campaigns_campaign"
        else ("k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))")
    )
    found = rows(
        SQL(
            "SELECT DISTINCT k.name FROM {} k WHERE {} AND position({} IN lower(k.name)) > 0"
            " ORDER BY 1 LIMIT {}"
        ).format(raw(table), raw(mine).format(seen), Literal(part), Literal(MOST))
    )
    return [name for (name,) in found]


def _newest(wanted: Composable, seen: Composable) -> Composable:
    return SQL("SELECT {} {} WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {}").format(
        wanted, raw(sql.FROM), seen, Literal(NEWEST)
    )
