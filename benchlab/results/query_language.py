# SPDX-License-Identifier: Apache-2.0
"""The query language of the tables: conditions, columns and order. It refuses by name what it does not understand.

    topology=lvm_cache   oio__gte=4   metric=read.*   param.iodepth=4   metric.iops__gt=1000   value__lt=0.001
    host__in=vm-09,vm-12   campaign=7   tool__ne=dd   workload__contains=randread   outstanding__isnull=true
    wide=true   fields=host,param.bs,metric.iops   ordering=-metric.iops

`table_schema` describes it for OpenAPI: a parameter per column, the other parameters, formats and examples.

The same parameter twice, or a comma after `__in`, means any of them; different parameters must all hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from benchlab.results.columns import (
    ALIASES,
    METRIC,
    OPTION_NAME,
    PARAM,
    Column,
    Kind,
    TableShape,
    metric_column,
    option_column,
)
from benchlab.topologies import moments

Value = str | int | float | bool | datetime
OPERATORS = ("in", "ne", "gt", "gte", "lt", "lte", "contains", "isnull")
EQUALITY_OPERATORS = ("eq", "ne", "in")
ORDER_OPERATORS = ("gt", "gte", "lt", "lte")
MAX_BIGINT = 2**63 - 1
MAX_ROWS = 10**9
# limit of one request
MAX_COLUMNS = 200
# Parameter -> attribute of TableQuery, where it has another name.
ATTRIBUTES = {"fields": "columns", "ordering": "order"}
OWN_PARAMETERS = ("fields", "ordering", "limit", "wide", "library", "latest", "format")


class QueryError(Exception):
    """`errors` is {parameter: what is wrong with it, and what would be right}."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in errors.items()))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Condition:
    """True if `column` `operator` any of `values`; with `metric`, for that metric of the attempt instead of the row."""

    column: Column
    # "eq" or one of OPERATORS
    operator: str
    values: tuple[Value, ...]
    metric: str = ""


@dataclass(frozen=True, slots=True)
class TableQuery:
    shape: TableShape
    conditions: tuple[Condition, ...]
    columns: tuple[Column, ...]
    # (column, descending)
    order: tuple[tuple[Column, bool], ...] = ()
    limit: int | None = None
    wide: bool = False
    library: bool = False
    latest: bool = False


def parse_query(shape: TableShape, query: Mapping[str, Sequence[str]]) -> TableQuery:
    """Parse a query. Raises QueryError with every parameter that is wrong."""
    errors: dict[str, str] = {}
    conditions: list[Condition] = []
    wide = query.get("wide", [""])[-1].lower() == "true"
    own: dict[str, Any] = {"columns": _default_columns(shape, wide)}
    readers: dict[str, Callable[[str], object]] = {
        "fields": lambda text: _parse_fields(shape, text, wide),
        "ordering": lambda text: _parse_ordering(shape, text, wide),
        "limit": _parse_limit,
        "wide": lambda text: _parse_wide(shape, text),
        "library": _parse_flag,
        "latest": _parse_flag,
        # of the answer, not of the table
        "format": str,
    }
    for name, texts in query.items():
        try:
            if name in readers:
                own[ATTRIBUTES.get(name, name)] = readers[name](texts[-1])
            else:
                conditions.append(_parse_condition(shape, name, texts))
        except ValueError as error:
            errors[name] = str(error)
    if errors:
        raise QueryError(errors)
    own.pop("format", None)
    return TableQuery(shape, tuple(conditions), **own)


def _parse_condition(shape: TableShape, name: str, texts: Sequence[str]) -> Condition:
    stem, mark, operator = name.rpartition("__")
    if not mark:
        stem, operator = name, "eq"
    elif operator not in OPERATORS:
        raise ValueError(
            f"No such operator as {operator[:20]!r}; there are {', '.join(OPERATORS)}."
        )
    column = _find_column(shape, stem)
    if operator in ORDER_OPERATORS and column.kind in (Kind.TEXT, Kind.NAME, Kind.JSON):
        raise ValueError(f"{stem} is {column.kind.value}; it is not more or less than anything.")
    if operator == "contains" and column.kind not in (Kind.TEXT, Kind.NAME, Kind.JSON, Kind.PARAM):
        raise ValueError(f"{stem} is a {column.kind.value}; it contains nothing.")
    if operator == "in":
        texts = [part for text in texts for part in text.split(",")]
    values = (
        (_parse_flag(texts[-1]),)
        if operator == "isnull"
        else tuple(_parse_value(column, operator, text) for text in texts)
    )
    metric = stem.removeprefix(METRIC) if stem.startswith(METRIC) else ""
    return Condition(column, operator, values, metric)


def _find_column(shape: TableShape, stem: str) -> Column:
    """Return the column of that name. Raises ValueError, which lists the valid names."""
    if stem.startswith(PARAM):
        if not OPTION_NAME.fullmatch(stem.removeprefix(PARAM)):
            raise ValueError("After param. stands the name of an option: letters, digits, _ . : -")
        return option_column(stem.removeprefix(PARAM))
    if stem.startswith(METRIC):
        if not stem.removeprefix(METRIC) or _is_unstorable(stem):
            raise ValueError("After metric. stands the name of a metric: metric.iops__gt=1000")
        return Column(stem, Kind.NUMBER, "o.value", "Of the attempt's whole", per_row=False)
    name = ALIASES.get(stem, stem)
    if name not in shape.columns:
        parameters = ", ".join(
            [*shape.columns, *ALIASES, "param.OPTION", "metric.NAME", *OWN_PARAMETERS]
        )
        raise ValueError(f"No such parameter; there are {parameters}.")
    return shape.columns[name]


def _parse_value(column: Column, operator: str, text: str) -> Value:
    if _is_unstorable(text):
        raise ValueError("Text must be without NUL and surrogate characters.")
    if column.choices and operator in EQUALITY_OPERATORS and text not in column.choices:
        choices = ", ".join(word for word in column.choices if word)
        raise ValueError(f"{text[:40]!r} is not one of them; there are {choices}.")
    if column.name == "stage" and operator in EQUALITY_OPERATORS:
        moments.parse_moment(text)
    if column.kind is Kind.WHOLE:
        return _parse_number(text) if operator in ORDER_OPERATORS else _parse_whole(text)
    if column.kind is Kind.NUMBER or (column.kind is Kind.PARAM and operator in ORDER_OPERATORS):
        return _parse_number(text)
    if column.kind is Kind.TIME:
        return _parse_time(text)
    return text


def _is_unstorable(text: str) -> bool:
    """True when PostgreSQL would not take the text."""
    return "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


def _parse_whole(text: str) -> int:
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20):
        raise ValueError(f"Give a whole number, not {text[:20]!r}.")
    if abs(int(text)) > MAX_BIGINT:
        raise ValueError(f"Give a whole number up to {MAX_BIGINT}.")
    return int(text)


def _parse_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"Give a number, in base units, not {text[:20]!r}.")
    return number


def _parse_time(text: str) -> datetime:
    """Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"Give a time as 2026-11-21T11:00:00Z, not {text[:30]!r}.") from None


def _parse_wide(shape: TableShape, text: str) -> bool:
    if shape.name != "results":
        raise ValueError("Only /api/results/ has metrics that can be columns.")
    return _parse_flag(text)


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Give true or false.")
    return text.lower() == "true"


def _parse_limit(text: str) -> int:
    limit = _parse_whole(text)
    if not 1 <= limit <= MAX_ROWS:
        raise ValueError(f"Give a number from 1 to {MAX_ROWS}.")
    return limit


def _default_columns(shape: TableShape, wide: bool) -> tuple[Column, ...]:
    columns = (column for column in shape.columns.values() if column.by_default)
    return tuple(column for column in columns if not (wide and column.per_row))


def _parse_fields(shape: TableShape, text: str, wide: bool) -> tuple[Column, ...]:
    columns = tuple(_output_column(shape, name, wide) for name in _split_names(text))
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise ValueError(f"Name 1 to {MAX_COLUMNS} columns, separated by commas.")
    return columns


def _parse_ordering(shape: TableShape, text: str, wide: bool) -> tuple[tuple[Column, bool], ...]:
    return tuple(
        (_output_column(shape, name.removeprefix("-"), wide), name.startswith("-"))
        for name in _split_names(text)
    )


def _split_names(text: str) -> Iterable[str]:
    return dict.fromkeys(part for part in (word.strip() for word in text.split(",")) if part)


def _output_column(shape: TableShape, name: str, wide: bool) -> Column:
    column = _find_column(shape, name)
    if name.startswith(METRIC):
        if not wide:
            raise ValueError("Metrics are columns with wide=true; without it they are rows.")
        return metric_column(name.removeprefix(METRIC))
    if wide and column.per_row:
        raise ValueError(f"With wide=true there is one row per attempt, and no column {name}.")
    return column


EXAMPLES = {
    "results": (
        "curl -u token:blab_… 'https://lab/api/results/?topology=lvm_cache&oio__gte=4&metric=read.*'"
    ),
    "series": "curl -u token:blab_… 'https://lab/api/series-table/?attempt=17&metric=await'",
}
FILE: dict[str, Any] = {"type": "string", "format": "binary"}
COLUMNAR: dict[str, Any] = {
    "type": "object",
    "required": ["rows", "columns", "data"],
    "properties": {
        "rows": {"type": "integer", "minimum": 0},
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "kind", "unit"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"type": "string", "enum": [kind.value for kind in Kind]},
                    "unit": {"type": "string", "nullable": True},
                },
            },
        },
        "data": {
            "type": "object",
            "description": "Column -> its values, all of one length",
            "additionalProperties": {"type": "array", "items": {}},
        },
    },
}
TYPES = {
    Kind.WHOLE: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.TIME: {"type": "string", "format": "date-time"},
}
SAMPLES = {"topology": "lvm_cache", "metric": "read.*", "outcome": "succeeded"}


def table_schema(shape: TableShape) -> dict[str, Any]:
    """Arguments of extend_schema for a table."""
    return {
        "parameters": [
            *(_column_parameter(c) for c in shape.columns.values()),
            *_own_parameters(shape),
        ],
        "responses": {
            (200, "text/csv"): OpenApiResponse(
                OpenApiTypes.STR,
                "The table; its columns are those of `fields`",
                examples=[OpenApiExample("csv", EXAMPLES[shape.name], media_type="text/csv")],
            ),
            (200, "application/vnd.apache.parquet"): FILE,
            (200, "application/vnd.apache.arrow.stream"): FILE,
            (200, "application/json"): COLUMNAR,
        },
    }


def _column_parameter(column: Column) -> OpenApiParameter:
    kind = column.kind.value
    example = SAMPLES.get(column.name)
    return OpenApiParameter(
        column.name,
        {"type": "array", "items": TYPES.get(column.kind, {"type": "string"})},
        description=f"{column.description} ({kind}); given twice: any of them",
        explode=True,
        examples=[OpenApiExample(example, [example])] if example else [],
    )


def _own_parameters(shape: TableShape) -> list[OpenApiParameter]:
    names = {"type": "string", "enum": list(shape.columns)}
    terms = {"type": "string", "enum": [sign + c for c in shape.columns for sign in ("", "-")]}
    yes_or_no = {"type": "boolean"}
    every = [
        OpenApiParameter(
            "filters",
            {"type": "object", "additionalProperties": {"type": "string"}},
            style="form",
            explode=True,
            description=f"COLUMN__OPERATOR ({', '.join(OPERATORS)}), param.OPTION and metric.NAME, with or without one",
            examples=[
                OpenApiExample("at least four outstanding", {"outstanding__gte": "4"}),
                OpenApiExample("one option of the tool", {"param.bs": "4k"}),
                OpenApiExample("fast attempts", {"metric.iops__gte": "10000"}),
            ],
        ),
        OpenApiParameter(
            "fields",
            {"type": "array", "items": names},
            explode=False,
            description="Columns, in this order; also param.OPTION, and with wide=true metric.NAME",
        ),
        OpenApiParameter(
            "ordering",
            {"type": "array", "items": terms},
            explode=False,
            description="Columns; - in front: descending; what is not known is last. Without it, by attempt",
        ),
        OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_ROWS}),
        OpenApiParameter("library", yes_or_no, description="Also the reference library"),
        OpenApiParameter(
            "latest",
            yes_or_no,
            description="Only each run's last attempt that succeeded, as charts draw",
        ),
        OpenApiParameter("format", {"type": "string", "enum": ["csv", "parquet", "arrow", "json"]}),
    ]
    if shape.name == "results":
        every.append(OpenApiParameter("wide", yes_or_no, description="One row per attempt"))
    return every
