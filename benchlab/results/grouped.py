# SPDX-License-Identifier: Apache-2.0
"""Figures of like runs together: mean, median, spread and number, of each run its last attempt that succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from benchlab.results import sql
from benchlab.results.columns import METRIC, Column, Kind
from benchlab.results.language import Asked, Refused
from benchlab.results.reading import rows
from benchlab.results.where import raw

# attempts: to read more takes longer than people wait
MOST = 20_000
# that one may group by
MOST_COLUMNS = 4
MOST_FIGURES = 6
KINDS = (Kind.TEXT, Kind.NAME, Kind.WHOLE, Kind.NUMBER, Kind.PARAM, Kind.JSON)


@dataclass(frozen=True, slots=True)
class Figure:
    """Of one metric in one group. `spread`: the sample's standard deviation over the mean; None: of one value, say."""

    number: int
    mean: float | None
    median: float | None
    spread: float | None
    # "" where they have several: then nothing else is told
    unit: str


@dataclass(frozen=True, slots=True)
class Group:
    """`values`: of the columns grouped by; `ids`: of those that are names, by place. `figures`: as they were asked."""

    values: tuple[Any, ...]
    ids: tuple[int | None, ...]
    runs: int
    figures: tuple[Figure, ...]


def metrics(asked: Asked) -> list[str]:
    """Names of the figures that were chosen by `fields`."""
    return [c.name.removeprefix(METRIC) for c in asked.columns if c.name.startswith(METRIC)]


def groups(asked: Asked, by: Sequence[Column], seen: Composable) -> list[Group]:
    """One query. Raises Refused: columns that group nothing, or more than MOST runs to read."""
    names = metrics(asked)
    if wrong := _refusal(by, names):
        raise Refused({"group": wrong})
    found = rows(_statement(replace(asked, latest=True), by, names, seen))
    if sum(row[0] for row in found) > MOST:
        raise Refused(
            {"group": f"At most {MOST} runs are grouped; filter, so that fewer are left."}
        )
    return [_group(row, len(by), len(names)) for row in found]


def _refusal(by: Sequence[Column], names: Sequence[str]) -> str:
    if len(by) > MOST_COLUMNS:
        return f"Group by {MOST_COLUMNS} columns at most."
    if len(names) > MOST_FIGURES:
        return f"Choose {MOST_FIGURES} figures at most; these are {len(names)}."
    for column in by:
        if column.every_row or column.kind not in KINDS or column.name.startswith(METRIC):
            return f"{column.name} makes no groups; take what runs have in common."
    return ""


def _statement(
    asked: Asked, by: Sequence[Column], names: Sequence[str], seen: Composable
) -> Composed:
    places = [Identifier(f"g{n}") for n in range(len(by))]
    ids = [Identifier(f"i{n}") for n in range(len(by))]
    inner: list[Composable] = [
        raw('a.id AS "#"'),
        *(SQL("{} AS {}").format(raw(c.sql), place) for c, place in zip(by, places, strict=True)),
        *(
            SQL("{} AS {}").format(raw(c.id_sql or "NULL::bigint"), one)
            for c, one in zip(by, ids, strict=True)
        ),
    ]
    told: list[Composable] = [raw("count(*)"), *places, *ids]
    for n in range(len(names)):
        value = Identifier(f"m{n}", "value")
        unit = Identifier(f"m{n}", "unit")
        told.append(
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
        raw(sql.FROM),
        SQL(" AND ").join([sql.of_attempts(asked, seen), *sql.measured(asked)]),
        Literal(MOST + 1),
        SQL(", ").join(told),
        SQL("").join(joins),
        SQL(", ").join([*places, *ids]),
    )


def _group(row: Sequence[Any], columns: int, figures: int) -> Group:
    rest = row[1 + 2 * columns :]
    return Group(
        tuple(row[1 : 1 + columns]),
        tuple(row[1 + columns : 1 + 2 * columns]),
        row[0],
        tuple(_figure(*rest[5 * n : 5 * n + 5]) for n in range(figures)),
    )


def _figure(
    number: int, mean: float | None, median: float | None, deviation: float | None, unit: str | None
) -> Figure:
    if number and not unit:
        return Figure(number, None, None, None, "")
    spread = deviation / abs(mean) if deviation is not None and mean else None
    return Figure(number, mean, median, spread, unit or "")
