# SPDX-License-Identifier: Apache-2.0
"""One page of the wide table, read without its other rows if there are many.

Up to MAX_SORTED_AT_ONCE matching attempts are read and sorted. More are walked along an index: there are enough of
them for that to fill a page soon. A page begins behind a PagePosition. Rows whose value is not known are last in
either direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg.sql import SQL, Composable, Composed, Literal

from benchlab.results import sql
from benchlab.results.columns import METRIC, NOUN_TABLES, Kind
from benchlab.results.query_language import MAX_BIGINT, QueryError, TableQuery
from benchlab.results.reading import fetch_rows
from benchlab.results.sql import sort_expression, trusted_sql
from benchlab.web import texts

# attempts
MAX_SORTED_AT_ONCE = 5_000
# attempts, ordered by something without an index
MAX_SORTED = 20_000
# Column -> the columns of the index that finds a page, the last of them unique in its table.
ATTEMPTS = ("number", "started_at", "ended_at", "outcome", "fingerprint")
RUNS = ("outstanding", "repeat", "stage", "tool")
INDEX_TERMS = {
    "attempt": ("a.id",),
    "run": ("r.id",),
    **{name: (f"a.{name}", "a.id") for name in ATTEMPTS},
    **{name: (f"r.{name}", "r.id") for name in RUNS},
}
NULLABLE = ("started_at", "ended_at", "outstanding")
# Column -> noun, its expression in the noun's table, the run's column that leads to it. Each of its rows has many runs.
NAME_ORDERS = {
    **{noun: (noun, texts.natural_sql("k.name"), f"r.{noun}_id") for noun in NOUN_TABLES},
    **{f"{noun}_id": (noun, "k.id", f"r.{noun}_id") for noun in NOUN_TABLES},
    "source": ("campaign", "k.source", "r.campaign_id"),
}
# Alias -> noun; the first letter
ALIASES = {noun[0]: noun for noun in NOUN_TABLES}
ALIAS = re.compile(r"\b([chtw])\.")


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A row's values of what the table is ordered by. `known`: whether it is one of those that have a value.

    `sorted`: whether all were read to find it; who follows it goes on like that.
    """

    was_sorted: bool
    has_value: bool
    values: tuple[Any, ...]


class IndexWalk(Protocol):
    """A walk along an index. `next_rows` selects (attempt's id, values of the terms …), with or without a value."""

    @property
    def nullable(self) -> bool: ...

    def next_rows(self, has_value: bool, after: tuple[Any, ...], size: int) -> Composed: ...


def read_page(
    query: TableQuery, campaigns: Composable, place: PagePosition | None, size: int
) -> tuple[list[int], PagePosition | None]:
    """Return the ids of the attempts after `place`, and the last one's place if more follow. Three queries at most.

    Raises QueryError if too many attempts would have to be read and sorted.
    """
    way = _choose_walk(query, campaigns)
    if way and (_has_many(query, campaigns) if place is None else not place.was_sorted):
        return _cut_page(False, _walk_index(way, place, size), size)
    return _cut_page(True, _sort_all(query, campaigns, place, size), size)


# (whether the value is known, (attempt's id, values …))
Read = list[tuple[bool, tuple[Any, ...]]]


def _cut_page(every: bool, rows_read: Read, size: int) -> tuple[list[int], PagePosition | None]:
    last = None
    if len(rows_read) > size:
        has_value, row = rows_read[size - 1]
        last = PagePosition(every, has_value, row[1:])
    return [row[0] for _, row in rows_read[:size]], last


def _has_many(query: TableQuery, campaigns: Composable) -> bool:
    """True if more than MAX_SORTED_AT_ONCE attempts match."""
    statement = SQL("SELECT count(*) FROM (SELECT {} WHERE {} LIMIT {}) s")
    [(number,)] = fetch_rows(
        statement.format(
            _from_clause(query), _page_conditions(query, campaigns), Literal(MAX_SORTED_AT_ONCE + 1)
        )
    )
    return bool(number > MAX_SORTED_AT_ONCE)


def _walk_index(way: IndexWalk, place: PagePosition | None, size: int) -> Read:
    rows_read: Read = []
    for has_value in (True, False) if way.nullable else (True,):
        if place and place.has_value < has_value:
            continue
        after = place.values if place and place.has_value == has_value else ()
        rows_read += [
            (has_value, row)
            for row in fetch_rows(way.next_rows(has_value, after, size + 1 - len(rows_read)))
        ]
        if len(rows_read) > size:
            break
    return rows_read


def _choose_walk(query: TableQuery, campaigns: Composable) -> IndexWalk | None:
    """Return the walk along the index of the first column; None if it has no index."""
    column, down = query.order[0]
    if column.name in NAME_ORDERS:
        return NameWalk(query, campaigns, down, *NAME_ORDERS[column.name])
    if column.name.startswith(METRIC):
        return MetricWalk(query, campaigns, down, column.name.removeprefix(METRIC))
    if column.name in INDEX_TERMS:
        return ColumnWalk(query, campaigns, down, INDEX_TERMS[column.name], column.name in NULLABLE)
    return None


def _sort_all(
    query: TableQuery, campaigns: Composable, place: PagePosition | None, size: int
) -> Read:
    """Read and sort all attempts. One query. Raises QueryError if they are too many."""
    column, down = query.order[0]
    key = sort_expression(column)
    if column.kind in (Kind.TEXT, Kind.NAME, Kind.JSON, Kind.PARAM):
        key = trusted_sql(texts.natural_sql(column.sql))
    sign, direction = trusted_sql("<" if down else ">"), trusted_sql("DESC" if down else "ASC")
    after: Composable = trusted_sql("true")
    if place and place.has_value:
        after = SQL("(s.k IS NULL OR (s.k, s.id) {} ({}, {}))").format(
            sign, *map(Literal, place.values)
        )
    elif place:
        after = SQL("s.k IS NULL AND s.id {} {}").format(sign, Literal(place.values[-1]))
    sorted_rows = fetch_rows(
        SQL(
            "WITH s AS MATERIALIZED (SELECT a.id, {key} AS k {source} WHERE {where} LIMIT {most})"
            " SELECT n.number, p.id, p.k FROM (SELECT count(*) AS number FROM s) n LEFT JOIN (SELECT s.id, s.k FROM s"
            " WHERE {after} ORDER BY s.k IS NULL, s.k {d}, s.id {d} LIMIT {size}) p ON true"
            " ORDER BY p.k IS NULL, p.k {d}, p.id {d}"
        ).format(
            key=key,
            source=_from_clause(query, [column.sql]),
            where=_page_conditions(query, campaigns),
            most=Literal(MAX_SORTED + 1),
            after=after,
            size=Literal(size + 1),
            d=direction,
        )
    )
    if sorted_rows[0][0] > MAX_SORTED:
        raise QueryError(
            {
                "ordering": f"{column.name} sorts at most {MAX_SORTED} rows; filter, so that fewer are left,"
                " or sort by another column."
            }
        )
    return [(k is not None, (pk, k, pk)) for _, pk, k in sorted_rows if pk is not None]


@dataclass(frozen=True, slots=True)
class ColumnWalk:
    """Order by columns of an attempt or its run."""

    query: TableQuery
    campaigns: Composable
    down: bool
    terms: tuple[str, ...]
    nullable: bool

    def next_rows(self, has_value: bool, after: tuple[Any, ...], size: int) -> Composed:
        terms = self.terms if has_value else ("a.id",)
        null = trusted_sql(f"{self.terms[0]} IS {'NOT ' if has_value else ''}NULL")
        return _select_page(
            _from_clause(self.query),
            terms,
            [
                _page_conditions(self.query, self.campaigns),
                *([null] if self.nullable else []),
                *_after_position(terms, after, self.down),
            ],
            self.down,
            size,
        )


@dataclass(frozen=True, slots=True)
class MetricWalk:
    """Order by a figure; attempts without it by their id."""

    query: TableQuery
    campaigns: Composable
    down: bool
    metric: str
    nullable: bool = True

    def next_rows(self, has_value: bool, after: tuple[Any, ...], size: int) -> Composed:
        its = SQL(
            "o.attempt_id = a.id AND o.name = {} AND o.labels = '{{}}'::jsonb AND o.value <> 'NaN'::float8"
        ).format(Literal(self.metric))
        where, source = _page_conditions(self.query, self.campaigns), _from_clause(self.query)
        if has_value:
            joined = SQL("{} JOIN runs_measurement o ON {}").format(source, its)
            terms: tuple[str, ...] = ("o.value", "o.id")
            return _select_page(
                joined, terms, [where, *_after_position(terms, after, self.down)], self.down, size
            )
        none = SQL("NOT EXISTS (SELECT FROM runs_measurement o WHERE {})").format(its)
        tests = [where, none, *_after_position(("a.id",), after, self.down)]
        return _select_page(source, ("a.id",), tests, self.down, size)


@dataclass(frozen=True, slots=True)
class NameWalk:
    """Order by a name that many runs share: walk the named rows, and read the first runs of each for the page."""

    query: TableQuery
    campaigns: Composable
    down: bool
    noun: str
    place: str
    key: str
    nullable: bool = False

    def next_rows(self, has_value: bool, after: tuple[Any, ...], size: int) -> Composed:
        sign, direction = (
            trusted_sql("<" if self.down else ">"),
            trusted_sql("DESC" if self.down else "ASC"),
        )
        outer = [sql.own_rows(self.noun, self.campaigns)]
        inner: list[Composable] = [
            trusted_sql(f"{self.key} = k.id"),
            _page_conditions(self.query, self.campaigns),
        ]
        if after:
            place, owner, run, attempt = map(Literal, after)
            outer.append(
                SQL("({}, k.id) {}= ({}, {})").format(trusted_sql(self.place), sign, place, owner)
            )
            most = Literal(MAX_BIGINT if self.down else 0)
            inner.append(
                SQL("r.id {}= CASE WHEN k.id = {} THEN {} ELSE {} END").format(
                    sign, owner, run, most
                )
            )
            inner.append(
                SQL("NOT (r.id = {} AND a.id {sign}= {})").format(
                    run, attempt, sign=trusted_sql(">" if self.down else "<")
                )
            )
        return SQL(
            "SELECT y.id, k.place, k.id, y.run, y.id FROM (SELECT k.id, {} AS place FROM {} k WHERE {}"
            " ORDER BY 2 {d}, 1 {d} OFFSET 0) k CROSS JOIN LATERAL (SELECT a.id, r.id AS run {} WHERE {}"
            " ORDER BY r.id {d}, a.id {d} LIMIT {size}) y ORDER BY 2 {d}, 3 {d}, 4 {d}, 5 {d} LIMIT {size}"
        ).format(
            trusted_sql(self.place),
            trusted_sql(NOUN_TABLES[self.noun]),
            _and_all(outer),
            _from_clause(self.query),
            _and_all(inner),
            d=direction,
            size=Literal(size),
        )


def _from_clause(query: TableQuery, more: Iterable[str] = ()) -> SQL:
    """Join attempts and runs with the needed tables only: PostgreSQL plans fewer joins better."""
    expressions = [
        f"{c.column.sql} {c.column.id_sql}" for c in query.conditions if not c.column.per_row
    ]
    used = {alias for text in (*expressions, *more) for alias in ALIAS.findall(text)}
    joins = "".join(
        f" JOIN {NOUN_TABLES[noun]} {alias} ON {alias}.id = r.{noun}_id"
        for alias, noun in ALIASES.items()
        if alias in used
    )
    return trusted_sql(f"FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id{joins}")


def _select_page(
    source: Composable, terms: Sequence[str], tests: Sequence[Composable], down: bool, size: int
) -> Composed:
    """Select a page. The attempt's id breaks the tie between attempts of one run, whatever the order is."""
    ordered = terms if terms[-1] != "r.id" else (*terms, "a.id")
    return SQL("SELECT a.id, {} {} WHERE {} ORDER BY {} LIMIT {}").format(
        trusted_sql(", ".join(ordered)),
        source,
        _and_all(tests),
        _order_terms(ordered, down),
        Literal(size),
    )


def _page_conditions(query: TableQuery, campaigns: Composable) -> Composed:
    return _and_all([sql.attempt_conditions(query, campaigns), *sql.measurement_conditions(query)])


def _after_position(terms: Sequence[str], after: Sequence[Any], down: bool) -> list[Composable]:
    """Start at the row and exclude it: for ">" PostgreSQL would expect hardly any rows if most values are equal."""
    if not after:
        return []
    sign, back = ("<", ">") if down else (">", "<")
    first = after[: len(terms)]
    from_it = SQL("({}) {}= ({})").format(
        trusted_sql(", ".join(terms)), trusted_sql(sign), SQL(", ").join(map(Literal, first))
    )
    same = SQL("{} = {}").format(trusted_sql(terms[-1]), Literal(first[-1]))
    if terms[-1] == "r.id":
        same = SQL("{} AND a.id {}= {}").format(same, trusted_sql(back), Literal(after[-1]))
    return [from_it, SQL("NOT ({})").format(same)]


def _and_all(tests: Sequence[Composable]) -> Composed:
    return SQL(" AND ").join(tests)


def _order_terms(terms: Sequence[str], down: bool) -> SQL:
    return trusted_sql(", ".join(f"{term} {'DESC' if down else 'ASC'}" for term in terms))
