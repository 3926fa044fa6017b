# SPDX-License-Identifier: Apache-2.0
"""Words of the query language: which options, tools, samplers, metrics and names there are. A query that names another
is refused; what a person types is completed. Imported results have words of their own, which only the rows tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from psycopg.sql import SQL, Composable, Literal

from agents.drivers import registry
from benchlab.results import sql
from benchlab.results.columns import (
    ALIASES,
    KNOWN_METRICS,
    METRIC,
    NOUN_TABLES,
    PARAM,
    RESULTS,
    Column,
    Kind,
)
from benchlab.results.query_language import (
    EQUALITY_OPERATORS,
    Condition,
    QueryError,
    TableQuery,
    parse_query,
)
from benchlab.results.reading import fetch_rows, fetch_words
from benchlab.results.sql import trusted_sql
from benchlab.web.filters import MAX_LISTED_WORDS, unknown_word_message

# Words that BenchLab knows.
KNOWN_WORDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "tool": registry.all_tools,
    "sampler": registry.all_samplers,
    "metric": lambda: KNOWN_METRICS,
}
# SQL of the tools and samplers that runs have.
STORED_WORDS = {
    "tool": "r.tool FROM campaigns_run r",
    "sampler": "s.sampler FROM campaigns_run r JOIN runs_attempt a ON a.run_id = r.id"
    " JOIN runs_series s ON s.attempt_id = a.id",
}
# Table and column of the metrics of a table's rows.
METRIC_PLACES = {"results": ("runs_measurement", "name"), "series": ("runs_series", "metric")}
# the newest attempts, which are searched: all of them would need a scan of the whole table
NEWEST_ATTEMPTS = 100
# words
MAX_WORDS = 20
LISTABLE_KINDS = (Kind.TEXT, Kind.WHOLE, Kind.PARAM)


def resolve_query(query: TableQuery, campaigns: Composable) -> TableQuery:
    """Mark the options that are numbers in every run as numeric.

    Raises QueryError for an option, tool, sampler, metric or name that neither BenchLab nor any run has.
    """
    for condition in query.conditions:
        if condition.operator in EQUALITY_OPERATORS:
            _check_known_words(condition, campaigns, query.shape.name)
            _check_names(condition, campaigns)
    used = {c.column.option: f"{PARAM}{c.column.option}" for c in query.conditions}
    used |= {c.option: "fields" for c in query.columns}
    used |= {c.option: "ordering" for c, _ in query.order}
    used.pop("", None)
    if not used:
        return query
    numbers = _numeric_options(used, campaigns)
    return replace(
        query,
        columns=tuple(_as_numeric(c) if c.option in numbers else c for c in query.columns),
        order=tuple((_as_numeric(c) if c.option in numbers else c, d) for c, d in query.order),
    )


def _numeric_options(used: Mapping[str, str], campaigns: Composable) -> set[str]:
    """Options that are numbers in all runs that have them. `used`: option -> parameter. Raises QueryError."""
    tests = [
        SQL("bool_or(r.options ? {0}), bool_and(jsonb_typeof(r.options -> {0}) = 'number')").format(
            Literal(name)
        )
        for name in used
    ]
    [flags] = fetch_rows(
        SQL("SELECT {} FROM campaigns_run r WHERE r.campaign_id IN ({})").format(
            SQL(", ").join(tests), campaigns
        )
    )
    by_option = dict(zip(used, zip(flags[::2], flags[1::2], strict=True), strict=True))
    if wrong := [name for name, (exists, _) in by_option.items() if not exists]:
        raise QueryError({used[name]: f"No run of yours has an option {name}." for name in wrong})
    return {name for name, (_, number) in by_option.items() if number}


def _as_numeric(column: Column) -> Column:
    return replace(column, kind=Kind.NUMBER, sql=f"({column.sql})::float8")


def _check_known_words(condition: Condition, campaigns: Composable, table: str) -> None:
    name = condition.column.name
    if name not in KNOWN_WORDS:
        return
    own_words = set(() if table == "series" and name == "metric" else KNOWN_WORDS[name]())
    unknown = sorted({str(value) for value in condition.values} - own_words)
    if name == "metric":
        unknown = [
            word
            for word in unknown
            if not (condition.column.glob and "*" in word)
            and not _is_measured(word, campaigns, table)
        ]
    if not unknown:
        return
    if name == "metric":
        stored = _newest_metrics(campaigns, table)
        choices = stored or own_words
    else:
        statement = SQL("SELECT DISTINCT {} WHERE r.campaign_id IN ({})")
        stored = set(fetch_words(statement.format(trusted_sql(STORED_WORDS[name]), campaigns)))
        choices = own_words | stored
    _refuse_unknown(condition, [word for word in unknown if word not in stored], choices)


def _is_measured(metric: str, campaigns: Composable, table: str) -> bool:
    source, column = METRIC_PLACES[table]
    statement = SQL(
        "SELECT 1 FROM {} m JOIN runs_attempt a ON a.id = m.attempt_id JOIN campaigns_run r ON r.id = a.run_id"
        " WHERE m.{} = {} AND r.campaign_id IN ({}) LIMIT 1"
    )
    source_sql, column_sql = trusted_sql(source), trusted_sql(column)
    return bool(fetch_rows(statement.format(source_sql, column_sql, Literal(metric), campaigns)))


def _newest_metrics(campaigns: Composable, table: str) -> set[str]:
    source, column = METRIC_PLACES[table]
    statement = SQL(
        "SELECT DISTINCT m.{} FROM {} m WHERE m.attempt_id IN (SELECT a.id FROM runs_attempt a"
        " JOIN campaigns_run r ON r.id = a.run_id WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {})"
    ).format(trusted_sql(column), trusted_sql(source), campaigns, Literal(NEWEST_ATTEMPTS))
    return set(fetch_words(statement))


def _check_names(condition: Condition, campaigns: Composable) -> None:
    """Refuse unknown names. An unknown id only finds nothing, as another team's does."""
    column = condition.column
    typed = sorted({str(value) for value in condition.values})
    names = [text for text in typed if not (text.isascii() and text.isdecimal())]
    if column.kind is not Kind.NAME or not names:
        return
    chosen = SQL("k.name = ANY({})").format(Literal(names))
    stored = _names(column.name, chosen, campaigns, len(names))
    if strange := [name for name in names if name not in stored]:
        some = _names(column.name, trusted_sql("true"), campaigns, MAX_LISTED_WORDS)
        _refuse_unknown(condition, strange, some)


def _refuse_unknown(condition: Condition, words: Sequence[str], choices: Iterable[str]) -> None:
    """Raises QueryError for the first of the words."""
    if not words:
        return
    name, operator = condition.column.name, condition.operator
    parameter = name if operator == "eq" else f"{name}__{operator}"
    raise QueryError({parameter: unknown_word_message(words[0], choices)})


def newest_units(campaigns: Composable) -> dict[str, str]:
    """Metric -> unit, of the newest attempts."""
    rows = fetch_rows(
        SQL(
            "SELECT DISTINCT m.name, m.unit FROM ({}) s JOIN runs_measurement m ON m.attempt_id = s.id"
            " WHERE {} ORDER BY 1, 2"
        ).format(_newest_attempts("a.id", campaigns), trusted_sql(sql.WHOLE_ONLY))
    )
    return dict(rows)


def newest_options(campaigns: Composable) -> list[str]:
    """Options of the tools, as the newest runs have them."""
    statement = SQL("SELECT DISTINCT jsonb_object_keys(s.options) FROM ({}) s ORDER BY 1")
    return fetch_words(statement.format(_newest_attempts("r.options", campaigns)))


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
    known = sorted(registry.all_tools()) if column.name == "tool" else filter(None, column.choices)
    if words := list(known):
        return [word for word in words if part in word.lower()][:MAX_WORDS]
    if column.name in NOUN_TABLES:
        matching = SQL("position({} IN lower(k.name)) > 0").format(Literal(part))
        return _names(column.name, matching, campaigns, MAX_WORDS)
    if column.name == "metric":
        return [metric for metric in newest_units(campaigns) if part in metric.lower()][:MAX_WORDS]
    if column.per_row or condition.metric or column.kind not in LISTABLE_KINDS:
        return []
    statement = SQL(
        "SELECT DISTINCT v FROM ({}) s WHERE position({} IN lower(v)) > 0 LIMIT {}"
    ).format(
        _newest_attempts(f"({column.sql})::text AS v", campaigns), Literal(part), Literal(MAX_WORDS)
    )
    return sorted(filter(None, fetch_words(statement)))


def _names(noun: str, test: Composable, campaigns: Composable, most: int) -> list[str]:
    """Names of hosts, say, of the teams of these campaigns."""
    return fetch_words(
        SQL("SELECT DISTINCT k.name FROM {} k WHERE {} AND {} ORDER BY 1 LIMIT {}").format(
            trusted_sql(NOUN_TABLES[noun]), sql.own_rows(noun, campaigns), test, Literal(most)
        )
    )


def _newest_attempts(outputs: str, campaigns: Composable) -> Composable:
    return SQL("SELECT {} {} WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {}").format(
        trusted_sql(outputs), trusted_sql(sql.ATTEMPTS_FROM), campaigns, Literal(NEWEST_ATTEMPTS)
    )
