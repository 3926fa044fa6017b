# SPDX-License-Identifier: Apache-2.0
"""From what was asked to SQL. Pure: psycopg's composition, no connection.

What is the same for all rows of an attempt is made once, in the materialised part `x` (key "#"); then each attempt's
rows are looked up by the index. So a text of 40 figures is escaped once and not forty times, rows come in order
without a sort, and the first of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from benchlab.results.columns import METRIC, Column, Kind
from benchlab.results.language import Asked
from benchlab.results.where import condition, raw, sort_key
from benchlab.web.spreadsheets import STARTS

FROM = """
FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id JOIN campaigns_campaign c ON c.id = r.campaign_id
JOIN hosts_host h ON h.id = r.host_id JOIN topologies_topology t ON t.id = r.topology_id
JOIN campaigns_workload w ON w.id = r.workload_id"""
# The last attempt of a run that succeeded: what the charts draw.
LATEST = """a.outcome = 'succeeded' AND NOT EXISTS (
    SELECT FROM runs_attempt l WHERE l.run_id = a.run_id AND l.outcome = 'succeeded' AND l.number > a.number)"""
WHOLE_ONLY = "m.labels = '{}'::jsonb AND m.value IS NOT NULL"
# name, unit
Metric = tuple[str, str]


def table(asked: Asked, campaigns: Composable, *, spreadsheet: bool = False) -> Composed:
    """The long table. `campaigns`: a subquery of the ids that may be seen; `spreadsheet`: no text is a formula."""
    x = [c for c in asked.columns if not c.every_row]
    y = [c for c in asked.columns if c.every_row]
    keys = [(n, column, down) for n, (column, down) in enumerate(asked.order)]
    inner = SQL(", ").join(
        [
            *(_named(_out(c, spreadsheet), c.name) for c in y),
            *(_named(sort_key(c), f"#{n}") for n, c, _ in keys if c.every_row),
            raw("1"),
        ]
    )
    return SQL(
        "{}\nSELECT {} FROM x CROSS JOIN LATERAL (SELECT {} {} {} ORDER BY {}) y{}{}"
    ).format(
        _attempts(asked, campaigns, x, spreadsheet),
        SQL(", ").join(Identifier("y" if c.every_row else "x", c.name) for c in asked.columns),
        inner,
        raw(asked.shape.rows),
        _all_of(_row_conditions(asked)),
        raw(asked.shape.order),
        _order(keys),
        _limit(asked),
    )


def wide(
    asked: Asked, metrics: Sequence[Metric], campaigns: Composable, *, spreadsheet: bool = False
) -> Composed:
    """A row per attempt, its columns and then one per metric of the whole (not of one job, say)."""
    named = wide_names(asked, metrics)
    values = SQL(", ").join(
        [
            *(
                SQL("max(m.value) FILTER (WHERE m.name = {} AND m.unit = {}) AS {}").format(
                    Literal(name), Literal(unit), Identifier(column)
                )
                for (name, unit), column in zip(metrics, named, strict=True)
            ),
            raw("1"),
        ]
    )
    keys = [(n, column, down) for n, (column, down) in enumerate(asked.order)]
    return SQL(
        "{}\nSELECT {} FROM x CROSS JOIN LATERAL (SELECT {} {} AND {} {} HAVING count(*) > 0) y{}{}"
    ).format(
        _attempts(asked, campaigns, asked.columns, spreadsheet),
        SQL(", ").join(
            [
                *(Identifier("x", c.name) for c in asked.columns),
                *(Identifier("y", name) for name in named),
            ]
        ),
        values,
        raw(asked.shape.rows),
        raw(WHOLE_ONLY),
        _all_of(_row_conditions(asked)),
        _order(keys),
        _limit(asked),
    )


def chosen(asked: Asked, campaigns: Composable, *, spreadsheet: bool = False) -> Composed:
    """A row per attempt, with those figures as columns that were named in `fields`; also one that has none of them."""
    return SQL("{}\nSELECT {} FROM x{}{}").format(
        _attempts(asked, campaigns, asked.columns, spreadsheet, measured(asked)),
        SQL(", ").join(Identifier("x", c.name) for c in asked.columns),
        _order([(n, column, down) for n, (column, down) in enumerate(asked.order)]),
        _limit(asked),
    )


def measured(asked: Asked) -> list[Composable]:
    """Conditions on a measurement, asked of attempts: they have one of the whole like that."""
    rows = _row_conditions(asked)
    if not rows:
        return []
    return [
        SQL("EXISTS (SELECT FROM runs_measurement m WHERE m.attempt_id = a.id AND {} {})").format(
            raw(WHOLE_ONLY), _all_of(rows)
        )
    ]


def names_figures(asked: Asked) -> bool:
    """True when the wide table's figures were chosen by `fields`."""
    return any(column.name.startswith(METRIC) for column in asked.columns)


def wide_names(asked: Asked, metrics: Sequence[Metric]) -> list[str]:
    """Column names for these metrics. One that is there in two units, or is called as a column, says so."""
    names = [name for name, _ in metrics]
    taken = {column.name for column in asked.columns}
    return [
        f"{METRIC if name in taken else ''}{name}{f' ({unit})' if names.count(name) > 1 else ''}"
        for name, unit in metrics
    ]


def metrics(asked: Asked, campaigns: Composable) -> Composed:
    """Name and unit of every metric that the wide table has a column for."""
    return SQL(
        '{}\nSELECT DISTINCT m.name, m.unit FROM x JOIN runs_measurement m ON m.attempt_id = x."#"'
        " WHERE {} {} ORDER BY 1, 2"
    ).format(
        _attempts(asked, campaigns, (), False), raw(WHOLE_ONLY), _all_of(_row_conditions(asked))
    )


def options(names: Sequence[str], campaigns: Composable) -> Composed:
    """For each option: whether any run has it, and whether it is a number wherever it is there."""
    tests = [
        SQL("bool_or(r.options ? {0}), bool_and(jsonb_typeof(r.options -> {0}) = 'number')").format(
            Literal(name)
        )
        for name in names
    ]
    return SQL("SELECT {} FROM campaigns_run r WHERE r.campaign_id IN ({})").format(
        SQL(", ").join(tests), campaigns
    )


def words(column: str, campaigns: Composable) -> Composed:
    """Query of the tools, or samplers, that their runs have."""
    series = " JOIN runs_attempt a ON a.run_id = r.id JOIN runs_series s ON s.attempt_id = a.id"
    what, more = ("s.sampler", series) if column == "sampler" else ("r.tool", "")
    return SQL("SELECT DISTINCT {} FROM campaigns_run r{} WHERE r.campaign_id IN ({})").format(
        raw(what), raw(more), campaigns
    )


# Where the metrics of a table's rows stand.
MEASURED = {"results": "runs_measurement", "series": "runs_series"}
METRIC_IN = {"results": "name", "series": "metric"}
# attempts
NEWEST = 100
TABLES = {
    "campaign": "campaigns_campaign",
    "host": "hosts_host",
    "topology": "topologies_topology",
    "workload": "campaigns_workload",
}


def has_metric(metric: str, campaigns: Composable, table: str) -> Composed:
    """Query with one row when any of their runs has it."""
    return SQL(
        "SELECT 1 FROM {} m JOIN runs_attempt a ON a.id = m.attempt_id JOIN campaigns_run r ON r.id = a.run_id"
        " WHERE m.{} = {} AND r.campaign_id IN ({}) LIMIT 1"
    ).format(raw(MEASURED[table]), raw(METRIC_IN[table]), Literal(metric), campaigns)


def newest_metrics(campaigns: Composable, table: str) -> Composed:
    """Query of the metrics that their newest attempts have."""
    return SQL(
        "SELECT DISTINCT m.{} FROM {} m WHERE m.attempt_id IN (SELECT a.id FROM runs_attempt a"
        " JOIN campaigns_run r ON r.id = a.run_id WHERE r.campaign_id IN ({}) ORDER BY a.id DESC LIMIT {})"
    ).format(raw(METRIC_IN[table]), raw(MEASURED[table]), campaigns, Literal(NEWEST))


def names(
    column: str, wanted: Sequence[str] | None, campaigns: Composable, most: int | None = None
) -> Composed:
    """Query of names in that table, of the teams of these campaigns; only those of `wanted` where there are some."""
    table = TABLES[column]
    mine = "k.id IN ({})"
    if column != "campaign":
        mine = "k.team_id IN (SELECT team_id FROM campaigns_campaign WHERE id IN ({}))"
    return SQL("SELECT DISTINCT k.name FROM {} k WHERE {} {} ORDER BY 1 {}").format(
        raw(table),
        raw(mine).format(campaigns),
        raw("") if wanted is None else SQL("AND k.name = ANY({})").format(Literal(list(wanted))),
        raw("") if most is None else SQL("LIMIT {}").format(Literal(most)),
    )


def series_arrays(asked: Asked, campaigns: Composable) -> Composed:
    """Each series' columns, then times and values as PostgreSQL sends float8[] (times NULL: as before)."""
    shown = [c for c in asked.columns if c.name not in ("time", "value")]
    x = [c for c in shown if not c.every_row]
    return SQL(
        '{}\nSELECT {} FROM x JOIN runs_series s ON s.attempt_id = x."#" WHERE true {}'
        ' ORDER BY x."#", s.sampler, s.device, s.metric'
    ).format(
        _attempts(asked, campaigns, x, False),
        SQL(", ").join(
            [
                *(raw(c.sql) if c.every_row else Identifier("x", c.name) for c in shown),
                # Devices that were watched together share their times: those are sent once.
                raw(
                    'CASE WHEN s.times = lag(s.times) OVER (ORDER BY x."#", s.sampler, s.device, s.metric)'
                    " THEN NULL ELSE array_send(s.times) END, array_send(s.values)"
                ),
            ]
        ),
        _all_of(_row_conditions(asked)),
    )


def series_csv(asked: Asked, campaigns: Composable) -> Composed:
    """CSV's lines of each series in one text, in UTF-8: millions of rows cost the driver a thousand steps."""
    shown = [c for c in asked.columns if c.name not in ("time", "value")]
    x = [c for c in shown if not c.every_row]
    told = SQL(", ").join(
        SQL("{} AS {}").format(_csv_text(c, "" if c.every_row else "x"), Identifier(c.name))
        for c in shown
    )
    line = SQL(" || ',' || ").join(
        raw(f"coalesce({c.sql}::text, '')")
        if c.name in ("time", "value")
        else Identifier("k", c.name)
        for c in asked.columns
    )
    return SQL(
        "{}\nSELECT (SELECT convert_to(string_agg({} || E'\\n', '' ORDER BY v.place), 'UTF8')"
        ' FROM unnest(k."#times", k."#values") WITH ORDINALITY AS v(time, value, place))'
        ' FROM (SELECT {} s.times AS "#times", s.values AS "#values" FROM x JOIN runs_series s'
        ' ON s.attempt_id = x."#" WHERE true {} ORDER BY x."#", s.sampler, s.device, s.metric OFFSET 0) k'
    ).format(
        _attempts(asked, campaigns, x, True),
        line,
        SQL("{},").format(told) if shown else raw(""),
        _all_of(_row_conditions(asked)),
    )


def _csv_text(column: Column, table: str) -> Composable:
    """A field of CSV: text in quotes, what is not there as nothing."""
    found = Identifier(table, column.name) if table else _out(column, True)
    if column.kind in (Kind.WHOLE, Kind.NUMBER):
        return SQL("coalesce(({})::text, '')").format(found)
    return SQL("coalesce('\"' || replace(({})::text, '\"', '\"\"') || '\"', '')").format(found)


def _attempts(
    asked: Asked,
    campaigns: Composable,
    columns: Iterable[Column],
    spreadsheet: bool,
    more: Sequence[Composable] = (),
) -> Composed:
    wanted = [
        raw('a.id AS "#"'),
        *(_named(_out(c, spreadsheet), c.name) for c in columns),
        *(_named(sort_key(c), f"#{n}") for n, (c, _) in enumerate(asked.order) if not c.every_row),
    ]
    return SQL("WITH x AS MATERIALIZED (SELECT {} {} WHERE {} {} ORDER BY a.id)").format(
        SQL(", ").join(wanted), raw(FROM), of_attempts(asked, campaigns), _all_of(more)
    )


def of_attempts(asked: Asked, campaigns: Composable) -> Composed:
    """The condition that decides which attempts are in the table, as far as they are asked for themselves."""
    return SQL("r.campaign_id IN ({}) {} {}").format(
        campaigns,
        raw(f"AND {LATEST}" if asked.latest else ""),
        _all_of([condition(c) for c in asked.conditions if not c.column.every_row]),
    )


def _row_conditions(asked: Asked) -> list[Composable]:
    return [condition(c) for c in asked.conditions if c.column.every_row]


def _all_of(conditions: Iterable[Composable]) -> Composable:
    return SQL(" ").join(SQL("AND ({})").format(one) for one in conditions)


def _order(keys: Sequence[tuple[int, Column, bool]]) -> Composable:
    if not keys:
        return raw("")
    terms = [
        SQL("{} {} NULLS LAST").format(
            Identifier("y" if c.every_row else "x", f"#{n}"), raw("DESC" if down else "ASC")
        )
        for n, c, down in keys
    ]
    return SQL(' ORDER BY {}, x."#"').format(SQL(", ").join(terms))


def _limit(asked: Asked) -> Composable:
    return SQL(" LIMIT {}").format(Literal(asked.limit)) if asked.limit else raw("")


def _named(expression: Composable, name: str) -> Composed:
    return SQL("{} AS {}").format(expression, Identifier(name))


def _out(column: Column, spreadsheet: bool) -> Composable:
    """The expression as it is written: times as text, and for a spreadsheet no text that is a formula."""
    if column.kind is Kind.TIME:
        return raw(f"to_char({column.sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    if spreadsheet and column.kind in (Kind.TEXT, Kind.NAME, Kind.PARAM):
        codes = ", ".join(str(ord(start)) for start in STARTS)
        text = f"CASE WHEN ascii({column.sql}) IN ({codes}) THEN '''' || ({column.sql}) ELSE {column.sql} END"
        # a number below zero is none
        if column.option:
            text = f"CASE jsonb_typeof(r.options -> '{column.option}') WHEN 'string' THEN {text} ELSE {column.sql} END"
        return raw(text)
    return raw(column.sql)
