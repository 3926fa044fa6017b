# SPDX-License-Identifier: Apache-2.0
"""The tables in the OpenAPI schema: a parameter per column, the other parameters, formats and examples."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from benchlab.results.columns import Column, Kind, TableShape
from benchlab.results.query_language import MAX_ROWS, OPERATORS

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
