# SPDX-License-Identifier: Apache-2.0
"""Translate a query into SQL. Pure: psycopg's composition, no connection.

The values that all rows of an attempt share are built once, in the materialised part `x` (key "#"); then the index
finds each attempt's rows. So the text shared by 40 figures is escaped once and not forty times, rows come in order
without a sort, and the first of them come at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from benchlab.results.columns import METRIC, Column, Kind
from benchlab.results.query_language import TableQuery
from benchlab.results.sql_conditions import condition_sql, sort_expression, trusted_sql
from benchlab.web.texts import FORMULA_STARTS

ATTEMPTS_FROM = """
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id
JOIN hosts_host h ON h.id = r.host_id JOIN topologies_topology t ON t.id = r.topology_id
JOIN campaigns_workload w ON w.id = r.workload_id"""
# The last attempt of a run that succeeded: what the charts draw.
LATEST = """a.outcome = 'succeeded' AND NOT EXISTS (
    SELECT FROM runs_attempt l WHERE l.run_id = a.run_id AND l.outcome = 'succeeded' AND l.number > a.number)"""
WHOLE_ONLY = "m.labels = '{}'::jsonb AND m.value IS NOT NULL"
# name, unit
Metric = tuple[str, str]


def long_table(query: TableQuery, campaigns: Composable, *, spreadsheet: bool = False) -> Composed:
    """Select the long table. `campaigns` is a subquery of the visible ids; with `spreadsheet` no text is a formula."""
    x = [c for c in query.columns if not c.per_row]
    y = [c for c in query.columns if c.per_row]
    keys = [(n, column, down) for n, (column, down) in enumerate(query.order)]
    inner = SQL(", ").join(
        [
            *(_as_name(_output_expression(c, spreadsheet), c.name) for c in y),
            *(_as_name(sort_expression(c), f"#{n}") for n, c, _ in keys if c.per_row),
            trusted_sql("1"),
        ]
    )
    return SQL(
        "{}\nSELECT {} FROM x CROSS JOIN LATERAL (SELECT {} {} {} ORDER BY {}) y{}{}"
    ).format(
        _attempts_part(query, campaigns, x, spreadsheet),
        SQL(", ").join(Identifier("y" if c.per_row else "x", c.name) for c in query.columns),
        inner,
        trusted_sql(query.shape.rows),
        _and_all(_row_conditions(query)),
        trusted_sql(query.shape.order),
        _order_by(keys),
        _limit_clause(query),
    )


def wide_table(
    query: TableQuery,
    metrics: Sequence[Metric],
    campaigns: Composable,
    *,
    spreadsheet: bool = False,
) -> Composed:
    """A row per attempt, its columns and then one per metric of the whole (not of one job, say)."""
    columns = wide_column_names(query, metrics)
    values = SQL(", ").join(
        [
            *(
                SQL("max(m.value) FILTER (WHERE m.name = {} AND m.unit = {}) AS {}").format(
                    Literal(name), Literal(unit), Identifier(column)
                )
                for (name, unit), column in zip(metrics, columns, strict=True)
            ),
            trusted_sql("1"),
        ]
    )
    keys = [(n, column, down) for n, (column, down) in enumerate(query.order)]
    return SQL(
        "{}\nSELECT {} FROM x CROSS JOIN LATERAL (SELECT {} {} AND {} {} HAVING count(*) > 0) y{}{}"
    ).format(
        _attempts_part(query, campaigns, query.columns, spreadsheet),
        SQL(", ").join(
            [
                *(Identifier("x", c.name) for c in query.columns),
                *(Identifier("y", name) for name in columns),
            ]
        ),
        values,
        trusted_sql(query.shape.rows),
        trusted_sql(WHOLE_ONLY),
        _and_all(_row_conditions(query)),
        _order_by(keys),
        _limit_clause(query),
    )


def figures_table(
    query: TableQuery, campaigns: Composable, *, spreadsheet: bool = False
) -> Composed:
    """Select a row per attempt with the figures named in `fields` as columns; an attempt without any has a row, too."""
    return SQL("{}\nSELECT {} FROM x{}{}").format(
        _attempts_part(query, campaigns, query.columns, spreadsheet, measurement_conditions(query)),
        SQL(", ").join(Identifier("x", c.name) for c in query.columns),
        _order_by([(n, column, down) for n, (column, down) in enumerate(query.order)]),
        _limit_clause(query),
    )


def measurement_conditions(query: TableQuery) -> list[Composable]:
    """Return measurement conditions for attempts, met if a measurement of the whole attempt meets them."""
    rows = _row_conditions(query)
    if not rows:
        return []
    return [
        SQL("EXISTS (SELECT FROM runs_measurement m WHERE m.attempt_id = a.id AND {} {})").format(
            trusted_sql(WHOLE_ONLY), _and_all(rows)
        )
    ]


def has_figure_columns(query: TableQuery) -> bool:
    """True when the wide table's figures were chosen by `fields`."""
    return any(column.name.startswith(METRIC) for column in query.columns)


def wide_column_names(query: TableQuery, metrics: Sequence[Metric]) -> list[str]:
    """Return column names for these metrics. Those in two units, or with the name of a column, are marked."""
    names = [name for name, _ in metrics]
    used = {column.name for column in query.columns}
    return [
        f"{METRIC if name in used else ''}{name}{f' ({unit})' if names.count(name) > 1 else ''}"
        for name, unit in metrics
    ]


def metrics_statement(query: TableQuery, campaigns: Composable) -> Composed:
    """Name and unit of every metric that the wide table has a column for."""
    return SQL(
        '{}\nSELECT DISTINCT m.name, m.unit FROM x JOIN runs_measurement m ON m.attempt_id = x."#"'
        " WHERE {} {} ORDER BY 1, 2"
    ).format(
        _attempts_part(query, campaigns, (), False),
        trusted_sql(WHOLE_ONLY),
        _and_all(_row_conditions(query)),
    )


def options_statement(names: Sequence[str], campaigns: Composable) -> Composed:
    """Select for each option whether any run has it, and whether it is a number in all runs that have it."""
    tests = [
        SQL("bool_or(r.options ? {0}), bool_and(jsonb_typeof(r.options -> {0}) = 'number')").format(
            Literal(name)
        )
        for name in names
    ]
    return SQL("SELECT {} FROM campaigns_run r WHERE r.campaign_id IN ({})").format(
        SQL(", ").join(tests), campaigns
    )


def words_statement(column: str, campaigns: Composable) -> Composed:
    """Query of the tools, or samplers, that their runs have."""
    series = " JOIN runs_attempt a ON a.run_id = r.id JOIN runs_series s ON s.attempt_id = a.id"
    what, more = ("s.sampler", series) if column == "sampler" else ("r.tool", "")
    return SQL("SELECT DISTINCT {} FROM campaigns_run r{} WHERE r.campaign_id IN ({})").format(
        trusted_sql(what), trusted_sql(more), campaigns
    )


# Where the metrics of a table's rows stand.
METRIC_TABLES = {"results": "runs_measurement", "series": "runs_series"}
METRIC_COLUMNS = {"results": "name", "series": "metric"}
# attempts
NEWEST_ATTEMPTS = 100
NAME_TABLES = {
    "campaign": "campaigns_campaign",
    "host": "hosts_host",
    "topology": "topologies_topology",
    "workload": "campaigns_workload",
}


def has_metric_statement(metric: str, campaigns: Composable, table: str) -> Composed:
    """Query with one row when any of their runs has it."""
    return SQL(
        "SELECT 1 FROM {} m JOIN runs_attempt a ON a.id = m.attempt_id JOIN campaigns_run r ON r.id = a.run_id"
        " WHERE m.{} = {} AND r.campaign_id IN ({}) LIMIT 1"
    ).format(
        trusted_sql(METRIC_TABLES[table]),
        trusted_sql(METRIC_COLUMNS[table]),
        Literal(metric),
        campaigns,
    )


def newest_metrics_statement(campaigns: Composable, table: str) -> Composed:
    """Query of the metrics that their newest attempts have."""
    return SQL(
        "SELECT DISTINCT m.{} FROM {} m WHERE m.attempt_id IN (SELECT a.id FROM runs_attempt a"
        " JOIN campaigns_run r ON r.id = a.run_id WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {})"
    ).format(
        trusted_sql(METRIC_COLUMNS[table]),
        trusted_sql(METRIC_TABLES[table]),
        campaigns,
        Literal(NEWEST_ATTEMPTS),
    )


def names_statement(
    column: str, names: Sequence[str] | None, campaigns: Composable, most: int | None = None
) -> Composed:
    """Query of names in that table, of the teams of these campaigns; only those of `wanted` where there are some."""
    table = NAME_TABLES[column]
    mine = "k.id IN ({})"
    if column != "campaign":
        mine = "k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))"
    return SQL("SELECT DISTINCT k.name FROM {} k WHERE {} {} ORDER BY 1 {}").format(
        trusted_sql(table),
        trusted_sql(mine).format(campaigns),
        trusted_sql("")
        if names is None
        else SQL("AND k.name = ANY({})").format(Literal(list(names))),
        trusted_sql("") if most is None else SQL("LIMIT {}").format(Literal(most)),
    )


def series_arrays(query: TableQuery, campaigns: Composable) -> Composed:
    """Each series' columns, then times and values as PostgreSQL sends float8[] (times NULL: as before)."""
    columns = [c for c in query.columns if c.name not in ("time", "value")]
    x = [c for c in columns if not c.per_row]
    return SQL(
        '{}\nSELECT {} FROM x JOIN runs_series s ON s.attempt_id = x."#" WHERE true {}'
        ' ORDER BY x."#", s.sampler, s.device, s.metric'
    ).format(
        _attempts_part(query, campaigns, x, False),
        SQL(", ").join(
            [
                *(trusted_sql(c.sql) if c.per_row else Identifier("x", c.name) for c in columns),
                # Devices sampled together share their times, which are sent once.
                trusted_sql(
                    'CASE WHEN s.times = lag(s.times) OVER (ORDER BY x."#", s.sampler, s.device, s.metric)'
                    " THEN NULL ELSE array_send(s.times) END, array_send(s.values)"
                ),
            ]
        ),
        _and_all(_row_conditions(query)),
    )


def series_csv_statement(query: TableQuery, campaigns: Composable) -> Composed:
    """CSV's lines of each series in one text, in UTF-8: millions of rows cost the driver a thousand steps."""
    columns = [c for c in query.columns if c.name not in ("time", "value")]
    x = [c for c in columns if not c.per_row]
    outputs = SQL(", ").join(
        SQL("{} AS {}").format(_csv_field(c, "" if c.per_row else "x"), Identifier(c.name))
        for c in columns
    )
    line = SQL(" || ',' || ").join(
        trusted_sql(f"coalesce({c.sql}::text, '')")
        if c.name in ("time", "value")
        else Identifier("k", c.name)
        for c in query.columns
    )
    return SQL(
        "{}\nSELECT (SELECT convert_to(string_agg({} || E'\\n', '' ORDER BY v.place), 'UTF8')"
        ' FROM unnest(k."#times", k."#values") WITH ORDINALITY AS v(time, value, place))'
        ' FROM (SELECT {} s.times AS "#times", s.values AS "#values" FROM x JOIN runs_series s'
        ' ON s.attempt_id = x."#" WHERE true {} ORDER BY x."#", s.sampler, s.device, s.metric OFFSET 0) k'
    ).format(
        _attempts_part(query, campaigns, x, True),
        line,
        SQL("{},").format(outputs) if columns else trusted_sql(""),
        _and_all(_row_conditions(query)),
    )


def _csv_field(column: Column, table: str) -> Composable:
    """A field of CSV: text in quotes, what is not there as nothing."""
    expression = Identifier(table, column.name) if table else _output_expression(column, True)
    if column.kind in (Kind.WHOLE, Kind.NUMBER):
        return SQL("coalesce(({})::text, '')").format(expression)
    return SQL("coalesce('\"' || replace(({})::text, '\"', '\"\"') || '\"', '')").format(expression)


def _attempts_part(
    query: TableQuery,
    campaigns: Composable,
    columns: Iterable[Column],
    spreadsheet: bool,
    more: Sequence[Composable] = (),
) -> Composed:
    outputs = [
        trusted_sql('a.id AS "#"'),
        *(_as_name(_output_expression(c, spreadsheet), c.name) for c in columns),
        *(
            _as_name(sort_expression(c), f"#{n}")
            for n, (c, _) in enumerate(query.order)
            if not c.per_row
        ),
    ]
    return SQL("WITH x AS MATERIALIZED (SELECT {} {} WHERE {} {} ORDER BY a.id)").format(
        SQL(", ").join(outputs),
        trusted_sql(ATTEMPTS_FROM),
        attempt_conditions(query, campaigns),
        _and_all(more),
    )


def attempt_conditions(query: TableQuery, campaigns: Composable) -> Composed:
    """Return the conditions on the attempts themselves, which decide what attempts are in the table."""
    return SQL("r.campaign_id IN ({}) {} {}").format(
        campaigns,
        trusted_sql(f"AND {LATEST}" if query.latest else ""),
        _and_all([condition_sql(c) for c in query.conditions if not c.column.per_row]),
    )


def _row_conditions(query: TableQuery) -> list[Composable]:
    return [condition_sql(c) for c in query.conditions if c.column.per_row]


def _and_all(conditions: Iterable[Composable]) -> Composable:
    return SQL(" ").join(SQL("AND ({})").format(condition) for condition in conditions)


def _order_by(keys: Sequence[tuple[int, Column, bool]]) -> Composable:
    if not keys:
        return trusted_sql("")
    terms = [
        SQL("{} {} NULLS LAST").format(
            Identifier("y" if c.per_row else "x", f"#{n}"), trusted_sql("DESC" if down else "ASC")
        )
        for n, c, down in keys
    ]
    return SQL(' ORDER BY {}, x."#"').format(SQL(", ").join(terms))


def _limit_clause(query: TableQuery) -> Composable:
    return SQL(" LIMIT {}").format(Literal(query.limit)) if query.limit else trusted_sql("")


def _as_name(expression: Composable, name: str) -> Composed:
    return SQL("{} AS {}").format(expression, Identifier(name))


def _output_expression(column: Column, spreadsheet: bool) -> Composable:
    """The expression as it is written: times as text, and for a spreadsheet no text that is a formula."""
    if column.kind is Kind.TIME:
        return trusted_sql(
            f"to_char({column.sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        )
    if spreadsheet and column.kind in (Kind.TEXT, Kind.NAME, Kind.PARAM):
        codes = ", ".join(str(ord(start)) for start in FORMULA_STARTS)
        text = f"CASE WHEN ascii({column.sql}) IN ({codes}) THEN '''' || ({column.sql}) ELSE {column.sql} END"
        # a number below zero is not a formula
        if column.option:
            text = f"CASE jsonb_typeof(r.options -> '{column.option}') WHEN 'string' THEN {text} ELSE {column.sql} END"
        return trusted_sql(text)
    return trusted_sql(column.sql)
