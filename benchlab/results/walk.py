# SPDX-License-Identifier: Apache-2.0
"""One page of the wide table: which attempts are on it, without reading the others where they are many.

Up to FEW attempts that are let through are read and sorted. More are walked along an index: there are enough of them
for that to find a page soon. A page begins behind a Place. Rows whose value is not known are last in either direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg.sql import SQL, Composable, Composed, Literal

from benchlab.results import sql
from benchlab.results.columns import METRIC, Kind
from benchlab.results.language import GREATEST, Asked, Refused
from benchlab.results.reading import rows
from benchlab.results.where import raw, sort_key
from benchlab.web import natural

# attempts
FEW = 5_000
# attempts, by what no index has
MOST_SORTED = 20_000
# Column -> what leads to a page: columns of one index, the last of them unique in its table.
ATTEMPTS = ("number", "started_at", "ended_at", "outcome", "fingerprint")
RUNS = ("outstanding", "repeat", "stage", "tool")
INDEXED = {
    "attempt": ("a.id",),
    "run": ("r.id",),
    **{name: (f"a.{name}", "a.id") for name in ATTEMPTS},
    **{name: (f"r.{name}", "r.id") for name in RUNS},
}
NULLABLE = ("started_at", "ended_at", "outstanding")
# Column -> table, its expression there, the run's column that leads to it. Each of its rows has many runs.
NAMED = {
    **{
        f"{noun}{suffix}": (table, natural.sql("k.name") if not suffix else "k.id", f"r.{noun}_id")
        for noun, table in (
            ("campaign", "campaigns_campaign"),
            ("host", "hosts_host"),
            ("topology", "topologies_topology"),
            ("workload", "campaigns_workload"),
        )
        for suffix in ("", "_id")
    },
    "source": ("campaigns_campaign", "k.source", "r.campaign_id"),
}


TABLES = {
    "c": "campaigns_campaign c ON c.id = r.campaign_id",
    "h": "hosts_host h ON h.id = r.host_id",
    "t": "topologies_topology t ON t.id = r.topology_id",
    "w": "campaigns_workload w ON w.id = r.workload_id",
}
ALIAS = re.compile(r"\b([chtw])\.")


@dataclass(frozen=True, slots=True)
class Place:
    """A row's values of what the table is ordered by. `known`: whether it is one of those that have a value.

    `sorted`: whether all were read to find it; who follows it goes on like that.
    """

    sorted: bool
    known: bool
    values: tuple[Any, ...]


class Way(Protocol):
    """`statement`: the next rows of either kind: (attempt's id, values of the terms …)."""

    @property
    def nullable(self) -> bool: ...

    def statement(self, known: bool, after: tuple[Any, ...], size: int) -> Composed: ...


def page(
    asked: Asked, seen: Composable, place: Place | None, size: int
) -> tuple[list[int], Place | None]:
    """Ids of the attempts behind `place`, and the last one's place if there are more of them. Three queries at most.

    Raises Refused: more than MOST_SORTED would have to be read to sort them.
    """
    way = _way(asked, seen)
    if way and (_many(asked, seen) if place is None else not place.sorted):
        return _cut(False, _walked(way, place, size), size)
    return _cut(True, _sorted(asked, seen, place, size), size)


# (whether the value is known, (attempt's id, values …))
Read = list[tuple[bool, tuple[Any, ...]]]


def _cut(every: bool, found: Read, size: int) -> tuple[list[int], Place | None]:
    last = None
    if len(found) > size:
        known, row = found[size - 1]
        last = Place(every, known, row[1:])
    return [row[0] for _, row in found[:size]], last


def _many(asked: Asked, seen: Composable) -> bool:
    """True when more than FEW are let through."""
    statement = SQL("SELECT count(*) FROM (SELECT {} WHERE {} LIMIT {}) s")
    [(number,)] = rows(statement.format(_source(asked), _where(asked, seen), Literal(FEW + 1)))
    return bool(number > FEW)


def _walked(way: Way, place: Place | None, size: int) -> Read:
    found: Read = []
    for known in (True, False) if way.nullable else (True,):
        if place and place.known < known:
            continue
        after = place.values if place and place.known == known else ()
        found += [(known, row) for row in rows(way.statement(known, after, size + 1 - len(found)))]
        if len(found) > size:
            break
    return found


def _way(asked: Asked, seen: Composable) -> Way | None:
    """None: no index has that column."""
    column, down = asked.order[0]
    if column.name in NAMED:
        return Named(asked, seen, down, *NAMED[column.name])
    if column.name.startswith(METRIC):
        return Measured(asked, seen, down, column.name.removeprefix(METRIC))
    if column.name in INDEXED:
        return Indexed(asked, seen, down, INDEXED[column.name], column.name in NULLABLE)
    return None


def _sorted(asked: Asked, seen: Composable, place: Place | None, size: int) -> Read:
    """All of them read and sorted. One query. Raises Refused: they are too many."""
    column, down = asked.order[0]
    key = sort_key(column)
    if column.kind in (Kind.TEXT, Kind.NAME, Kind.JSON, Kind.PARAM):
        key = raw(natural.sql(column.sql))
    sign, direction = raw("<" if down else ">"), raw("DESC" if down else "ASC")
    after: Composable = raw("true")
    if place and place.known:
        after = SQL("(s.k IS NULL OR (s.k, s.id) {} ({}, {}))").format(
            sign, *map(Literal, place.values)
        )
    elif place:
        after = SQL("s.k IS NULL AND s.id {} {}").format(sign, Literal(place.values[-1]))
    found = rows(
        SQL(
            "WITH s AS MATERIALIZED (SELECT a.id, {key} AS k {source} WHERE {where} LIMIT {most})"
            " SELECT n.number, p.id, p.k FROM (SELECT count(*) AS number FROM s) n LEFT JOIN (SELECT s.id, s.k FROM s"
            " WHERE {after} ORDER BY s.k IS NULL, s.k {d}, s.id {d} LIMIT {size}) p ON true"
            " ORDER BY p.k IS NULL, p.k {d}, p.id {d}"
        ).format(
            key=key,
            source=_source(asked, [column.sql]),
            where=_where(asked, seen),
            most=Literal(MOST_SORTED + 1),
            after=after,
            size=Literal(size + 1),
            d=direction,
        )
    )
    if found[0][0] > MOST_SORTED:
        raise Refused(
            {
                "ordering": f"{column.name} sorts at most {MOST_SORTED} rows; filter, so that fewer are left,"
                " or sort by another column."
            }
        )
    return [(k is not None, (pk, k, pk)) for _, pk, k in found if pk is not None]


@dataclass(frozen=True, slots=True)
class Indexed:
    """By columns of an attempt or its run."""

    asked: Asked
    seen: Composable
    down: bool
    terms: tuple[str, ...]
    nullable: bool

    def statement(self, known: bool, after: tuple[Any, ...], size: int) -> Composed:
        terms = self.terms if known else ("a.id",)
        null = raw(f"{self.terms[0]} IS {'NOT ' if known else ''}NULL")
        return _select(
            _source(self.asked),
            terms,
            [
                _where(self.asked, self.seen),
                *([null] if self.nullable else []),
                *_behind(terms, after, self.down),
            ],
            self.down,
            size,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """By a figure; of attempts that have none by their id."""

    asked: Asked
    seen: Composable
    down: bool
    metric: str
    nullable: bool = True

    def statement(self, known: bool, after: tuple[Any, ...], size: int) -> Composed:
        its = SQL(
            "o.attempt_id = a.id AND o.name = {} AND o.labels = '{{}}'::jsonb AND o.value <> 'NaN'::float8"
        ).format(Literal(self.metric))
        where, source = _where(self.asked, self.seen), _source(self.asked)
        if known:
            joined = SQL("{} JOIN runs_measurement o ON {}").format(source, its)
            terms: tuple[str, ...] = ("o.value", "o.id")
            return _select(
                joined, terms, [where, *_behind(terms, after, self.down)], self.down, size
            )
        none = SQL("NOT EXISTS (SELECT FROM runs_measurement o WHERE {})").format(its)
        tests = [where, none, *_behind(("a.id",), after, self.down)]
        return _select(source, ("a.id",), tests, self.down, size)


@dataclass(frozen=True, slots=True)
class Named:
    """By the name of what has many runs: its rows in order, and of each the first runs that fill the page."""

    asked: Asked
    seen: Composable
    down: bool
    table: str
    place: str
    key: str
    nullable: bool = False

    def statement(self, known: bool, after: tuple[Any, ...], size: int) -> Composed:
        sign, direction = raw("<" if self.down else ">"), raw("DESC" if self.down else "ASC")
        outer = [self._mine()]
        inner: list[Composable] = [raw(f"{self.key} = k.id"), _where(self.asked, self.seen)]
        if after:
            place, owner, run, attempt = map(Literal, after)
            outer.append(SQL("({}, k.id) {}= ({}, {})").format(raw(self.place), sign, place, owner))
            most = Literal(GREATEST if self.down else 0)
            inner.append(
                SQL("r.id {}= CASE WHEN k.id = {} THEN {} ELSE {} END").format(
                    sign, owner, run, most
                )
            )
            inner.append(
                SQL("NOT (r.id = {} AND a.id {sign}= {})").format(
                    run, attempt, sign=raw(">" if self.down else "<")
                )
            )
        return SQL(
            "SELECT y.id, k.place, k.id, y.run, y.id FROM (SELECT k.id, {} AS place FROM {} k WHERE {}"
            " ORDER BY 2 {d}, 1 {d} OFFSET 0) k CROSS JOIN LATERAL (SELECT a.id, r.id AS run {} WHERE {}"
            " ORDER BY r.id {d}, a.id {d} LIMIT {size}) y ORDER BY 2 {d}, 3 {d}, 4 {d}, 5 {d} LIMIT {size}"
        ).format(
            raw(self.place),
            raw(self.table),
            _both(outer),
            _source(self.asked),
            _both(inner),
            d=direction,
            size=Literal(size),
        )

    def _mine(self) -> Composable:
        if self.key == "r.campaign_id":
            return SQL("k.id IN ({})").format(self.seen)
        teams = "k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))"
        return raw(teams).format(self.seen)


def _source(asked: Asked, more: Iterable[str] = ()) -> SQL:
    """Attempts and runs, and only those tables beside that are asked about: the fewer, the better they are planned."""
    told = [f"{c.column.sql} {c.column.id_sql}" for c in asked.conditions if not c.column.every_row]
    used = {alias for text in (*told, *more) for alias in ALIAS.findall(text)}
    joins = "".join(f" JOIN {table}" for alias, table in TABLES.items() if alias in used)
    return raw(f"FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id{joins}")


def _select(
    source: Composable, terms: Sequence[str], tests: Sequence[Composable], down: bool, size: int
) -> Composed:
    """Runs have several attempts: those are told apart by their id, whatever the order is."""
    ordered = terms if terms[-1] != "r.id" else (*terms, "a.id")
    return SQL("SELECT a.id, {} {} WHERE {} ORDER BY {} LIMIT {}").format(
        raw(", ".join(ordered)), source, _both(tests), _ordered(ordered, down), Literal(size)
    )


def _where(asked: Asked, seen: Composable) -> Composed:
    return _both([sql.of_attempts(asked, seen), *sql.measured(asked)])


def _behind(terms: Sequence[str], after: Sequence[Any], down: bool) -> list[Composable]:
    """From the row on, without it: PostgreSQL would take "more than" for hardly any row where most are equal."""
    if not after:
        return []
    sign, back = ("<", ">") if down else (">", "<")
    first = after[: len(terms)]
    from_it = SQL("({}) {}= ({})").format(
        raw(", ".join(terms)), raw(sign), SQL(", ").join(map(Literal, first))
    )
    same = SQL("{} = {}").format(raw(terms[-1]), Literal(first[-1]))
    if terms[-1] == "r.id":
        same = SQL("{} AND a.id {}= {}").format(same, raw(back), Literal(after[-1]))
    return [from_it, SQL("NOT ({})").format(same)]


def _both(tests: Sequence[Composable]) -> Composed:
    return SQL(" AND ").join(tests)


def _ordered(terms: Sequence[str], down: bool) -> SQL:
    return raw(", ".join(f"{term} {'DESC' if down else 'ASC'}" for term in terms))
