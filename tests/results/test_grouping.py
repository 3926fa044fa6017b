"""Columns that group, values as JSON, and the index behind an order: what is refused, and how each kind is written."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from psycopg.sql import SQL

from benchlab.results import arrow, grouped, query_language, reading, table_pages
from benchlab.results.columns import Column, Kind

AT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
ZONED = pa.timestamp("us", "UTC")


def column(name: str = "host", kind: Kind = Kind.NAME, per_row: bool = False) -> Any:
    return SimpleNamespace(name=name, kind=kind, per_row=per_row)


@pytest.mark.parametrize(
    ("by", "figures", "refusal"),
    [
        ([column()], grouped.MAX_FIGURES, ""),
        ([column()] * grouped.MAX_GROUP_COLUMNS, 1, ""),
        ([column()], grouped.MAX_FIGURES + 1, "figures at most"),
        ([column()] * (grouped.MAX_GROUP_COLUMNS + 1), 1, "columns at most"),
        ([column(per_row=True)], 1, "host makes no groups"),
        ([column("metric.iops")], 1, "metric.iops makes no groups"),
        ([column(kind=Kind.TIME)], 1, "host makes no groups"),
        *[([column(kind=kind)], 1, "") for kind in Kind if kind is not Kind.TIME],
    ],
)
def test_what_makes_no_groups_is_refused(by, figures, refusal):
    found = grouped._grouping_error(by, [f"m{number}" for number in range(figures)])
    assert refusal in found and bool(found) is bool(refusal)


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        (["a", '"', None, "a"], pa.string(), b'"a","\\"",null,"a"'),
        ([1.5, None], pa.float64(), b"1.5,null"),
        ([AT], ZONED, b'"2026-01-02T03:04:05.000006Z"'),
        ([AT, None], ZONED, b'"2026-01-02 03:04:05.000006Z",null'),
        ([7, None], pa.int64(), b"7,null"),
        ([True, None], pa.bool_(), b"true,null"),
    ],
)
def test_a_column_is_written_as_json(values, kind, text):
    assert arrow._json(pa.chunked_array([pa.array(values, kind)])) == text


@pytest.mark.parametrize(("operator", "refused"), [("eq", True), ("in", True), ("contains", False)])
def test_a_word_that_is_none_of_a_columns_words_is_refused(operator, refused):
    outcome = Column("outcome", Kind.NAME, "a.outcome", "", choices=("", "succeeded", "failed"))
    if not refused:
        assert query_language._parse_value(outcome, operator, "fail") == "fail"
        return
    with pytest.raises(ValueError, match="'fail' is not one of them; there are succeeded, failed"):
        query_language._parse_value(outcome, operator, "fail")


@pytest.mark.parametrize(
    ("name", "operator", "named"),
    [
        *[(name, "eq", True) for name in ("campaign", "campaign_id", "run", "attempt")],
        ("campaign", "in", True),
        ("campaign", "ne", False),
        ("host", "eq", False),
    ],
)
def test_certain_campaigns_are_named_by_themselves_or_by_a_run(name, operator, named):
    condition = SimpleNamespace(column=column(name), operator=operator, values=("7",))
    asked: Any = SimpleNamespace(conditions=(condition,))
    assert reading.names_campaigns(asked) is named
    assert not reading.names_campaigns(None)


@pytest.mark.parametrize(
    ("columns", "way"),
    [
        (
            ("attempt", "run", "started_at", "outcome", "outstanding", "tool"),
            table_pages.ColumnWalk,
        ),
        (("campaign", "host_id", "topology", "workload_id", "source"), table_pages.NameWalk),
        (("metric.iops",), table_pages.MetricWalk),
        (("param.bs",), type(None)),
    ],
)
def test_an_order_that_an_index_has_is_walked_along_it(columns, way):
    for name in columns:
        asked: Any = SimpleNamespace(order=((column(name), False),))
        assert type(table_pages._choose_walk(asked, SQL(""))) is way, name
