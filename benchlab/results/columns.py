# SPDX-License-Identifier: Apache-2.0
"""Columns of the tables: each one's SQL, and the conditions that it allows. Pure data.

Aliases in SQL: a attempt, r run, c campaign, h host, t topology, w workload; m measurement; s series, v one value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from psycopg.sql import quote

from agents.contracts import Unit
from benchlab.analysis.steady import State
from benchlab.runs.states import Outcome


class Kind(Enum):
    """Kind of a column's values; decides its operators and its type in Arrow."""

    TEXT = "text"
    NAME = "name or id"
    WHOLE = "whole number"
    NUMBER = "number"
    TIME = "time"
    JSON = "JSON"
    PARAM = "value of an option"


@dataclass(frozen=True, slots=True)
class Column:
    """`sql` is an expression; `id_sql` the id beside a name. `every_row`: not the same for all rows of an attempt."""

    name: str
    kind: Kind
    sql: str
    description: str
    per_row: bool = False
    # without `fields`
    by_default: bool = True
    id_sql: str = ""
    # whether `*` in a comparison for equality matches anything
    glob: bool = False
    # of a PARAM: which
    option: str = ""
    # all valid values, if they are known; else anything is valid
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table: its columns in order, and where its rows come from, for one attempt `a`."""

    name: str
    columns: Mapping[str, Column]
    # FROM … WHERE of one attempt's rows
    rows: str
    # within an attempt
    order: str


TEXT, NAME, WHOLE, NUMBER, TIME, JSON, _ = Kind
# Other names of filters.
ALIASES = {"oio": "outstanding", "name": "metric"}
UNITS = tuple(unit.value for unit in Unit)
# Nouns whose rows have names.
NOUN_TABLES = {
    "campaign": "campaigns_campaign",
    "host": "hosts_host",
    "topology": "topologies_topology",
    "workload": "campaigns_workload",
}
PARAM = "param."
METRIC = "metric."
FIGURE_SQL = (
    "(SELECT o.value FROM runs_measurement o WHERE o.attempt_id = a.id AND o.name = {}"
    " AND o.labels = '{{}}'::jsonb)"
)
# Names of the tools' metrics: valid even before any run has them.
_WAYS = ("", "read.", "write.", "trim.")
_STATISTICS = ("mean", "stddev", "min", "max", "p50", "p90", "p95", "p99", "p99.9", "p99.99")
LATENCIES = frozenset(
    {"sync.lat"} | {f"{way}{kind}" for way in _WAYS for kind in ("lat", "clat", "slat")}
)
KNOWN_METRICS = frozenset(
    {f"{way}{what}" for way in _WAYS for what in ("iops", "bandwidth", "bytes", "ios")}
    | {f"{latency}.{statistic}" for latency in LATENCIES for statistic in _STATISTICS}
    | {"errors", "runtime"}
)
OPTION_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,60}")

ATTEMPT_COLUMNS = (
    Column("campaign", NAME, "c.name", "The campaign's name", id_sql="c.id"),
    Column("campaign_id", WHOLE, "c.id", "The campaign's id", by_default=False),
    Column("run", WHOLE, "r.id", "The run's id: one cell of the matrix and one repeat"),
    Column("attempt", WHOLE, "a.id", "The attempt's id: one try of the run"),
    Column("number", WHOLE, "a.number", "Which try it is, from 1", by_default=False),
    Column("host", NAME, "h.name", "The host's name", id_sql="h.id"),
    Column("host_id", WHOLE, "h.id", "The host's id", by_default=False),
    Column("topology", NAME, "t.name", "The topology's name", id_sql="t.id"),
    Column("topology_id", WHOLE, "t.id", "The topology's id", by_default=False),
    Column("stage", TEXT, "r.stage", "The moment: empty as built, resync, during-1, after-1, …"),
    Column("workload", NAME, "w.name", "The workload's name", id_sql="w.id"),
    Column("workload_id", WHOLE, "w.id", "The workload's id", by_default=False),
    Column("tool", TEXT, "r.tool", "fio, dd, …"),
    Column("tool_version", TEXT, "a.tool_version", "As the tool says it"),
    Column("outstanding", WHOLE, "r.outstanding", "Outstanding I/Os: queue depth times jobs"),
    Column(
        "scheduler",
        TEXT,
        "r.scheduler",
        "The I/O scheduler that was set for the run; empty: it was as the host has it",
        by_default=False,
    ),
    Column("repeat", WHOLE, "r.repeat", "From 1"),
    Column("visit", WHOLE, "r.visit", "Which time that its layout was built (order ABBA), from 1"),
    Column(
        "layout",
        WHOLE,
        "a.layout_id",
        "The id of the layout that it was measured on",
        by_default=False,
    ),
    Column("point", JSON, "r.point::text", "What the sweep varies, as a JSON object"),
    Column(
        "options",
        JSON,
        "r.options::text",
        "All options of the tool, as a JSON object",
        by_default=False,
    ),
    Column("started_at", TIME, "a.started_at", "When the tool was started, UTC"),
    Column("ended_at", TIME, "a.ended_at", "When the attempt was over, UTC", by_default=False),
    Column(
        "outcome",
        TEXT,
        "a.outcome",
        "Of the attempt: succeeded, failed, …; empty: not over",
        choices=("", *Outcome.values),
    ),
    Column("fingerprint", TEXT, "a.fingerprint", "Equal: comparable without a warning"),
    Column(
        "degraded",
        TEXT,
        "coalesce((SELECT string_agg(d->>'says', '; ') FROM jsonb_array_elements(a.degraded) d), '')",
        "What of its layout was not in order; empty: all was",
    ),
    Column(
        "course",
        TEXT,
        "coalesce(a.course->>'state', '')",
        "Of its rate: steady, step, trend, …; empty: not judged",
        choices=("", *State),
    ),
    Column(
        "source",
        TEXT,
        "c.source",
        "Empty: measured here; imported; library",
        choices=("", "imported", "library"),
    ),
)
MEASUREMENT_COLUMNS = (
    Column("id", WHOLE, "m.id", "The measurement's id", True, False),
    Column(
        "metric", TEXT, "m.name", "iops, read.lat.mean, …; * stands for anything", True, glob=True
    ),
    Column("labels", JSON, "m.labels::text", "What it is of, {} for the whole, as JSON", True),
    Column("value", NUMBER, "m.value", "In base units", True),
    Column("unit", TEXT, "m.unit", "op/s, B/s, s, B or 1", True, choices=UNITS),
    Column("note", TEXT, "m.note", "What the reader of the tool's output remarked", True),
)
SERIES_COLUMNS = (
    Column("sampler", TEXT, "s.sampler", "Who saw it: diskstats, cpu, …", True),
    Column("device", TEXT, "s.device", "Of which device; * stands for anything", True, glob=True),
    Column("metric", TEXT, "s.metric", "What was seen; * stands for anything", True, glob=True),
    Column("unit", TEXT, "s.unit", "op/s, B/s, s, B or 1", True, choices=UNITS),
    Column("time", NUMBER, "v.time", "Seconds since the first sample", True),
    Column("value", NUMBER, "v.value", "In base units; NaN where it is not known", True),
)
_SERIES_SHOWS = ("attempt",)


def _columns_by_name(*columns: Column) -> dict[str, Column]:
    return {column.name: column for column in columns}


RESULTS = TableShape(
    "results",
    _columns_by_name(*ATTEMPT_COLUMNS, *MEASUREMENT_COLUMNS),
    'FROM runs_measurement m WHERE m.attempt_id = x."#"',
    "m.id",
)
SERIES = TableShape(
    "series",
    _columns_by_name(
        *(replace(c, by_default=c.name in _SERIES_SHOWS) for c in ATTEMPT_COLUMNS), *SERIES_COLUMNS
    ),
    "FROM runs_series s, unnest(s.times, s.values) WITH ORDINALITY AS v(time, value, place)"
    ' WHERE s.attempt_id = x."#"',
    "s.sampler, s.device, s.metric, v.place",
)


def option_column(name: str) -> Column:
    """The option of that name of a run's tool. The name must be an OPTION_NAME."""
    return Column(
        PARAM + name,
        Kind.PARAM,
        f"r.options ->> '{name}'",
        "An option of the tool",
        by_default=False,
        option=name,
    )


def metric_column(name: str) -> Column:
    """A figure of the attempt's whole, as a column of the wide table; NULL where the attempt has none."""
    return Column(
        METRIC + name,
        Kind.NUMBER,
        FIGURE_SQL.format(quote(name)),
        "A figure of the attempt's whole",
        by_default=False,
    )
