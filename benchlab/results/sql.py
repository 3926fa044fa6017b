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
from benchlab.results.query_language import ORDER_OPERATORS, Condition, TableQuery, Value
from benchlab.web.texts import FORMULA_STARTS

ATTEMPTS_FROM = """
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id
JOIN hosts_host h ON h.id = r.host_id JOIN topologies_topology t ON t.id = r.topology_id
JOIN campaigns_workload w ON w.id = r.workload_id"""
# The last attempt of a run that succeeded: what the charts draw.
LATEST = """a.outcome = 'succeeded' AND NOT EXISTS (
    SELECT FROM runs_attempt l WHERE l.run_id = a.run_id AND l.outcome = 'succeeded' AND l.number > a.number)"""
WHOLE_ONLY = "m.labels = '{}'::jsonb AND m.value IS NOT NULL"
SERIES_ORDER = 'x."#", s.sampler, s.device, s.metric'
SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# name, unit
Metric = tuple[str, str]


def trusted_sql(text: str) -> SQL:
    """SQL of our own making; never anything that came with a request."""
    return SQL(text)


def table_statement(
    query: TableQuery, campaigns: Composable, metrics: Sequence[Metric], *, spreadsheet: bool
) -> Composed:
    """Select the table. `campaigns` is a subquery of the visible ids; with `spreadsheet` no text is a formula.

    The wide table has a row per attempt, with a column for each of the `metrics` of the whole (not of one job, say). If
    figures were chosen by `fields` those are its columns, and an attempt without any has a row, too.
    """
    if has_figure_columns(query):
        part = _attempts_part(
            query, campaigns, query.columns, spreadsheet, measurement_conditions(query)
        )
        return _select(part, query, _identifiers("x", query.columns), trusted_sql(""))
    outputs: list[Composable]
    if query.wide:
        names = wide_column_names(query, metrics)
        outputs = [
            SQL("max(m.value) FILTER (WHERE m.name = {} AND m.unit = {}) AS {}").format(
                Literal(name), Literal(unit), Identifier(column)
            )
            for (name, unit), column in zip(metrics, names, strict=True)
        ]
        ending = SQL("AND {} {} HAVING count(*) > 0").format(
            trusted_sql(WHOLE_ONLY), _row_conditions(query)
        )
        selected = [
            *_identifiers("x", query.columns),
            *(Identifier("y", name) for name in names),
        ]
    else:
        outputs = [
            *(_output(c, spreadsheet) for c in query.columns if c.per_row),
            *_sort_keys(query, per_row=True),
        ]
        ending = SQL("{} ORDER BY {}").format(
            _row_conditions(query), trusted_sql(query.shape.order)
        )
        selected = [Identifier("y" if c.per_row else "x", c.name) for c in query.columns]
    lateral = SQL(" CROSS JOIN LATERAL (SELECT {} {} {}) y").format(
        _list([*outputs, trusted_sql("1")]), trusted_sql(query.shape.rows), ending
    )
    shared = [c for c in query.columns if not c.per_row]
    return _select(_attempts_part(query, campaigns, shared, spreadsheet), query, selected, lateral)


def _select(
    attempts: Composable, query: TableQuery, outputs: Iterable[Composable], lateral: Composable
) -> Composed:
    terms = [
        SQL("{} {} NULLS LAST").format(
            Identifier("y" if column.per_row else "x", f"#{n}"),
            trusted_sql("DESC" if down else "ASC"),
        )
        for n, (column, down) in enumerate(query.order)
    ]
    order = SQL(' ORDER BY {}, x."#"').format(_list(terms)) if terms else trusted_sql("")
    limit = SQL(" LIMIT {}").format(Literal(query.limit)) if query.limit else trusted_sql("")
    return SQL("{}\nSELECT {} FROM x{}{}{}").format(attempts, _list(outputs), lateral, order, limit)


def own_rows(noun: str, campaigns: Composable) -> Composable:
    """Condition on rows `k` of a noun: these campaigns, or what belongs to their teams."""
    if noun == "campaign":
        return SQL("k.id IN ({})").format(campaigns)
    return SQL("k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))").format(
        campaigns
    )


def measurement_conditions(query: TableQuery) -> list[Composable]:
    """Return measurement conditions for attempts, met if a measurement of the whole attempt meets them."""
    if not any(condition.column.per_row for condition in query.conditions):
        return []
    return [
        SQL("EXISTS (SELECT FROM runs_measurement m WHERE m.attempt_id = a.id AND {} {})").format(
            trusted_sql(WHOLE_ONLY), _row_conditions(query)
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
        _row_conditions(query),
    )


def series_arrays(query: TableQuery, campaigns: Composable) -> Composed:
    """Each series' columns, then times and values as PostgreSQL sends float8[] (times NULL: as before)."""
    columns = _series_columns(query)
    # Devices sampled together share their times, which are sent once.
    arrays = (
        f"CASE WHEN s.times = lag(s.times) OVER (ORDER BY {SERIES_ORDER})"
        " THEN NULL ELSE array_send(s.times) END, array_send(s.values)"
    )
    outputs = [trusted_sql(c.sql) if c.per_row else Identifier("x", c.name) for c in columns]
    return SQL("{}\nSELECT {} {}").format(
        _attempts_part(query, campaigns, (c for c in columns if not c.per_row), False),
        _list([*outputs, trusted_sql(arrays)]),
        _series_rows(query),
    )


def series_csv_statement(query: TableQuery, campaigns: Composable) -> Composed:
    """CSV's lines of each series in one text, in UTF-8: millions of rows cost the driver a thousand steps."""
    columns = _series_columns(query)
    outputs = [
        *(SQL("{} AS {}").format(_csv_field(c), Identifier(c.name)) for c in columns),
        trusted_sql('s.times AS "#times", s.values AS "#values"'),
    ]
    line = SQL(" || ',' || ").join(
        Identifier("k", c.name) if c in columns else trusted_sql(f"coalesce({c.sql}::text, '')")
        for c in query.columns
    )
    return SQL(
        "{}\nSELECT (SELECT convert_to(string_agg({} || E'\\n', '' ORDER BY v.place), 'UTF8')"
        ' FROM unnest(k."#times", k."#values") WITH ORDINALITY AS v(time, value, place))'
        " FROM (SELECT {} {} OFFSET 0) k"
    ).format(
        _attempts_part(query, campaigns, (c for c in columns if not c.per_row), True),
        line,
        _list(outputs),
        _series_rows(query),
    )


def _series_columns(query: TableQuery) -> list[Column]:
    """Columns that all values of a series share."""
    return [c for c in query.columns if c.name not in ("time", "value")]


def _series_rows(query: TableQuery) -> Composed:
    return SQL(
        'FROM x JOIN runs_series s ON s.attempt_id = x."#" WHERE true {} ORDER BY {}'
    ).format(_row_conditions(query), trusted_sql(SERIES_ORDER))


def _csv_field(column: Column) -> Composable:
    """A field of CSV: text in quotes, what is not there as nothing."""
    expression = (
        _output_expression(column, True) if column.per_row else Identifier("x", column.name)
    )
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
        *(_output(column, spreadsheet) for column in columns),
        *_sort_keys(query, per_row=False),
    ]
    return SQL("WITH x AS MATERIALIZED (SELECT {} {} WHERE {} {} ORDER BY a.id)").format(
        _list(outputs),
        trusted_sql(ATTEMPTS_FROM),
        attempt_conditions(query, campaigns),
        _and_all(more),
    )


def attempt_conditions(query: TableQuery, campaigns: Composable) -> Composed:
    """Return the conditions on the attempts themselves, which decide what attempts are in the table."""
    return SQL("r.campaign_id IN ({}) {} {}").format(
        campaigns,
        trusted_sql(f"AND {LATEST}" if query.latest else ""),
        _and_all(condition_sql(c) for c in query.conditions if not c.column.per_row),
    )


def _row_conditions(query: TableQuery) -> Composable:
    return _and_all(condition_sql(c) for c in query.conditions if c.column.per_row)


def _and_all(conditions: Iterable[Composable]) -> Composable:
    return SQL(" ").join(SQL("AND ({})").format(condition) for condition in conditions)


def _list(parts: Iterable[Composable]) -> Composed:
    return SQL(", ").join(parts)


def _identifiers(table: str, columns: Iterable[Column]) -> list[Composable]:
    return [Identifier(table, column.name) for column in columns]


def _sort_keys(query: TableQuery, *, per_row: bool) -> list[Composable]:
    return [
        SQL("{} AS {}").format(sort_expression(column), Identifier(f"#{n}"))
        for n, (column, _) in enumerate(query.order)
        if column.per_row is per_row
    ]


def sort_expression(column: Column) -> Composable:
    """Return SQL to sort rows by, with NaN as NULL, so that unknown values are last in either direction."""
    if column.kind is not Kind.NUMBER:
        return trusted_sql(column.sql)
    return SQL("NULLIF({}, 'NaN'::float8)").format(trusted_sql(column.sql))


def _output(column: Column, spreadsheet: bool) -> Composed:
    return SQL("{} AS {}").format(_output_expression(column, spreadsheet), Identifier(column.name))


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


def condition_sql(condition: Condition) -> Composable:
    """SQL behind AND, with the row of an attempt and, for a metric, its measurements in sight."""
    test = _condition_test(condition)
    if not condition.metric:
        return test
    exists = SQL(
        "EXISTS (SELECT FROM runs_measurement o WHERE o.attempt_id = a.id AND o.name = {}"
        " AND o.labels = '{{}}'::jsonb AND {})"
    )
    if condition.operator == "isnull":
        is_measured = exists.format(Literal(condition.metric), trusted_sql("o.value IS NOT NULL"))
        return SQL("NOT {}").format(is_measured) if condition.values[0] else is_measured
    return exists.format(Literal(condition.metric), test)


def _condition_test(condition: Condition) -> Composable:
    column, operator = condition.column, condition.operator
    if operator == "isnull":
        return trusted_sql(f"({column.sql}) IS {'' if condition.values[0] else 'NOT '}NULL")
    if operator in ORDER_OPERATORS:
        return _any_of(_comparison(column, SIGNS[operator], value) for value in condition.values)
    if operator == "contains":
        return _any_of(
            SQL("position(lower({}) IN lower({})) > 0").format(
                Literal(value), trusted_sql(column.sql)
            )
            for value in condition.values
        )
    equal = _any_of(_equality(column, value) for value in condition.values)
    return SQL("({}) IS NOT TRUE").format(equal) if operator == "ne" else equal


def _any_of(tests: Iterable[Composable]) -> Composed:
    return SQL("({})").format(SQL(" OR ").join(tests))


def _comparison(column: Column, sign: str, value: Value) -> Composable:
    expression = column.sql
    if column.option:
        expression = _option_as_number(column)
    test = SQL("{} {} {}").format(trusted_sql(expression), trusted_sql(sign), Literal(value))
    if column.kind is not Kind.NUMBER or sign in ("<", "<="):
        return test
    # PostgreSQL sorts NaN as the greatest number; here it means an unknown value.
    return SQL("({} AND {} <> 'NaN'::float8)").format(test, trusted_sql(expression))


def _option_as_number(column: Column) -> str:
    option = f"r.options -> '{column.option}'"
    return f"(CASE jsonb_typeof({option}) WHEN 'number' THEN ({column.sql})::numeric END)"


def _equality(column: Column, value: Value) -> Composable:
    text = str(value)
    same = SQL("{} = {}").format(trusted_sql(column.sql), Literal(value))
    digits = text.isascii() and text.isdecimal() and len(text) < 19
    if column.glob and "*" in text:
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return SQL("{} LIKE {}").format(trusted_sql(column.sql), Literal(escaped.replace("*", "%")))
    if column.id_sql and digits:
        return SQL("({} OR {} = {})").format(same, trusted_sql(column.id_sql), Literal(int(text)))
    if column.option and _is_number(text):
        return SQL("({} OR {} = {}::numeric)").format(
            same, trusted_sql(_option_as_number(column)), Literal(text)
        )
    if column.kind is Kind.JSON:
        return SQL("({})::text = {}").format(trusted_sql(column.sql), Literal(value))
    return same


def _is_number(text: str) -> bool:
    mantissa = text.removeprefix("-").replace(".", "", 1)
    return mantissa.isascii() and mantissa.isdecimal() and len(text) < 40
