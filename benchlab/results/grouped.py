# SPDX-License-Identifier: Apache-2.0
"""Figures of like runs together: mean, median, spread and number, of each run its last attempt that succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from benchlab.results import sql
from benchlab.results.columns import METRIC, Column, Kind
from benchlab.results.query_language import QueryError, TableQuery
from benchlab.results.reading import fetch_rows
from benchlab.results.sql import trusted_sql

# attempts: reading more takes longer than people wait
MAX_ATTEMPTS = 20_000
# limit of columns to group by
MAX_GROUP_COLUMNS = 4
MAX_FIGURES = 6
GROUPABLE_KINDS = (Kind.TEXT, Kind.NAME, Kind.WHOLE, Kind.NUMBER, Kind.PARAM, Kind.JSON)


@dataclass(frozen=True, slots=True)
class GroupFigure:
    """Statistics of one metric in one group.

    `spread` is the sample's standard deviation over the mean; None if it has none, as a single value has none.
    """

    number: int
    mean: float | None
    median: float | None
    spread: float | None
    # "" if the values differ in unit: then there are no other statistics
    unit: str


@dataclass(frozen=True, slots=True)
class RunGroup:
    """`values` of the grouping columns; `ids` of those that are names, by place; `figures` as requested."""

    values: tuple[Any, ...]
    ids: tuple[int | None, ...]
    runs: int
    figures: tuple[GroupFigure, ...]


def figure_names(query: TableQuery) -> list[str]:
    """Names of the figures that were chosen by `fields`."""
    return [c.name.removeprefix(METRIC) for c in query.columns if c.name.startswith(METRIC)]


def group_runs(query: TableQuery, by: Sequence[Column], campaigns: Composable) -> list[RunGroup]:
    """Group the runs. One query. Raises QueryError for columns that group nothing, or too many runs to read."""
    names = figure_names(query)
    if wrong := _grouping_error(by, names):
        raise QueryError({"group": wrong})
    rows = fetch_rows(_group_statement(replace(query, latest=True), by, names, campaigns))
    if sum(row[0] for row in rows) > MAX_ATTEMPTS:
        raise QueryError(
            {"group": f"At most {MAX_ATTEMPTS} runs are grouped; filter, so that fewer are left."}
        )
    return [_run_group(row, len(by), len(names)) for row in rows]


def _grouping_error(by: Sequence[Column], names: Sequence[str]) -> str:
    if len(by) > MAX_GROUP_COLUMNS:
        return f"Group by {MAX_GROUP_COLUMNS} columns at most."
    if len(names) > MAX_FIGURES:
        return f"Choose {MAX_FIGURES} figures at most; these are {len(names)}."
    for column in by:
        if column.per_row or column.kind not in GROUPABLE_KINDS or column.name.startswith(METRIC):
            return f"{column.name} makes no groups; take what runs have in common."
    return ""


def _group_statement(
    query: TableQuery, by: Sequence[Column], names: Sequence[str], campaigns: Composable
) -> Composed:
    places = [Identifier(f"g{n}") for n in range(len(by))]
    ids = [Identifier(f"i{n}") for n in range(len(by))]
    inner: list[Composable] = [
        trusted_sql('a.id AS "#"'),
        *(
            SQL("{} AS {}").format(trusted_sql(c.sql), place)
            for c, place in zip(by, places, strict=True)
        ),
        *(
            SQL("{} AS {}").format(trusted_sql(c.id_sql or "NULL::bigint"), id_name)
            for c, id_name in zip(by, ids, strict=True)
        ),
    ]
    outputs: list[Composable] = [trusted_sql("count(*)"), *places, *ids]
    for n in range(len(names)):
        value = Identifier(f"m{n}", "value")
        unit = Identifier(f"m{n}", "unit")
        outputs.append(
            SQL(
                "count({v}), avg({v}), percentile_cont(0.5) WITHIN GROUP (ORDER BY {v}), stddev_samp({v}),"
                " CASE WHEN min({u}) = max({u}) THEN min({u}) ELSE '' END"
            ).format(v=value, u=unit)
        )
    joins = [
        SQL(
            ' LEFT JOIN runs_measurement {m} ON {m}.attempt_id = x."#" AND {m}.name = {name}'
            " AND {m}.labels = '{{}}'::jsonb AND {m}.value <> 'NaN'::float8"
        ).format(m=Identifier(f"m{n}"), name=Literal(name))
        for n, name in enumerate(names)
    ]
    return SQL(
        "WITH x AS MATERIALIZED (SELECT {} {} WHERE {} LIMIT {}) SELECT {} FROM x{} GROUP BY {}"
    ).format(
        SQL(", ").join(inner),
        trusted_sql(sql.ATTEMPTS_FROM),
        SQL(" AND ").join(
            [sql.attempt_conditions(query, campaigns), *sql.measurement_conditions(query)]
        ),
        Literal(MAX_ATTEMPTS + 1),
        SQL(", ").join(outputs),
        SQL("").join(joins),
        SQL(", ").join([*places, *ids]),
    )


def _run_group(row: Sequence[Any], columns: int, figures: int) -> RunGroup:
    rest = row[1 + 2 * columns :]
    return RunGroup(
        tuple(row[1 : 1 + columns]),
        tuple(row[1 + columns : 1 + 2 * columns]),
        row[0],
        tuple(_group_figure(*rest[5 * n : 5 * n + 5]) for n in range(figures)),
    )


def _group_figure(
    number: int, mean: float | None, median: float | None, deviation: float | None, unit: str | None
) -> GroupFigure:
    if number and not unit:
        return GroupFigure(number, None, None, None, "")
    spread = deviation / abs(mean) if deviation is not None and mean else None
    return GroupFigure(number, mean, median, spread, unit or "")
