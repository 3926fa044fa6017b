# SPDX-License-Identifier: Apache-2.0
"""/api/results/ and /api/series-table/: the long tidy tables, in the format that the notebook reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar, cast

import pyarrow as pa
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from psycopg.sql import Composable
from rest_framework import viewsets
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.results import arrow, columns, openapi, query_language, reading, sql
from benchlab.results.answers import (
    FORMATS,
    Csv,
    FormatNegotiation,
    Json,
    Parquet,
    TableRenderer,
    UnknownFormat,
    csv_header,
    table_response,
)
from benchlab.results.arrow import Field
from benchlab.results.query_language import QueryError, TableQuery
from benchlab.runs.models import Measurement, Series


class TableViewSet(viewsets.GenericViewSet[Any]):
    """One table in one answer. Filters, columns, order: benchlab/results/query_language.py."""

    shape: ClassVar[columns.TableShape]
    # in the permission table
    noun: ClassVar[str]
    # benchlab/web/throttling.py
    exports = True
    # benchlab/web/schema.py
    answers_whole = True
    renderer_classes = FORMATS
    content_negotiation_class = FormatNegotiation
    filter_backends = ()
    pagination_class = None
    ordering_fields: ClassVar[list[str]] = []

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, QueryError):
            exc = ValidationError({name: [said] for name, said in exc.errors.items()})
        return super().handle_exception(exc)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        try:
            return super().perform_content_negotiation(request, force)
        except UnknownFormat:
            # DRF's own fallback, for the refusal itself
            if not force:
                raise
            return Json(), Json.media_type

    def _table_response(self, request: Request) -> HttpResponseBase:
        asked = query_language.parse_query(self.shape, dict(request.query_params.lists()))
        seen = reading.queried_campaigns(asked, request.user)
        asked = reading.resolve_query(asked, seen)
        form = cast(TableRenderer, request.accepted_renderer)
        made = self.answer_maker(asked, seen, form)
        if request.method == "HEAD":
            # How long it is, nobody knows before it is made; a length of none would be believed (DuckDB, polars).
            return StreamingHttpResponse((), content_type=form.media_type)
        return table_response(
            request._request, made, str(form.media_type), f"{self.shape.name}.{form.ending}"
        )

    def answer_maker(
        self, asked: TableQuery, seen: Composable, form: TableRenderer
    ) -> Callable[[], Iterator[bytes]]:
        """Function that makes the answer, anew with each call."""
        spreadsheet = form.format == "csv"
        fields = [Field(c.name, c.kind) for c in asked.columns]
        if asked.wide and sql.has_figure_columns(asked):
            statement = sql.figures_table(asked, seen, spreadsheet=spreadsheet)
        elif asked.wide:
            found = reading.wide_metrics(asked, seen)
            statement = sql.wide_table(asked, found, seen, spreadsheet=spreadsheet)
            names = sql.wide_column_names(asked, found)
            fields += [
                Field(name, columns.NUMBER, unit)
                for name, (_, unit) in zip(names, found, strict=True)
            ]
        else:
            statement = sql.long_table(asked, seen, spreadsheet=spreadsheet)
        if isinstance(form, Csv):
            first = csv_header([field.name for field in fields])
            return lambda: chain([first], reading.csv_lines(statement))

        def tables() -> Iterator[pa.Table]:
            return arrow.csv_tables(fields, reading.csv_lines(statement))

        if isinstance(form, Json):
            return lambda: arrow.columnar_json(fields, arrow.json_columns(fields, tables()))
        write = arrow.parquet if isinstance(form, Parquet) else arrow.arrow_stream
        return lambda: write(fields, tables())


class Results(TableViewSet):
    """Every measurement of every attempt, a row each, in one answer; or with wide=true a row per attempt."""

    shape = columns.RESULTS
    noun = "result"
    queryset = Measurement.objects.all()

    @extend_schema(**openapi.table_schema(columns.RESULTS))
    def list(self, request: Request) -> HttpResponseBase:
        """Filter by any column, option (param.iodepth=4) or metric (metric.iops__gte=1000); choose columns by fields,
        with wide=true also figures (fields=host,metric.iops).

        Operators: __in, __ne, __gt, __gte, __lt, __lte, __contains, __isnull. Formats: csv, parquet, arrow, json (one
        array per column); by `format` or Accept. Names or ids; values in base units.
        """
        return self._table_response(request)


class SeriesTable(TableViewSet):
    """Every value of every series, a row each, in one answer."""

    shape = columns.SERIES
    noun = "seriesvalue"
    queryset = Series.objects.all()

    @extend_schema(**openapi.table_schema(columns.SERIES))
    def list(self, request: Request) -> HttpResponseBase:
        """List the samples of each device, value by value; filters and formats as /api/results/ has them."""
        return self._table_response(request)

    def answer_maker(
        self, asked: TableQuery, seen: Composable, form: TableRenderer
    ) -> Callable[[], Iterator[bytes]]:
        if not _as_arrays(asked):
            return super().answer_maker(asked, seen, form)
        fields = [Field(c.name, c.kind) for c in asked.columns]
        if isinstance(form, Csv):
            lines, first = (
                sql.series_csv_statement(asked, seen),
                csv_header([field.name for field in fields]),
            )
            return lambda: chain(
                [first], (text for (text,) in reading.stream_series(lines) if text)
            )
        statement = sql.series_arrays(asked, seen)
        if isinstance(form, Json):
            return lambda: arrow.columnar_json(
                fields, arrow.series_json(fields, reading.stream_series(statement))
            )
        write = arrow.parquet if isinstance(form, Parquet) else arrow.arrow_stream
        return lambda: write(fields, arrow.series_tables(fields, reading.stream_series(statement)))


def _as_arrays(asked: TableQuery) -> bool:
    """True when whole series are wanted: then no value of theirs is made text on the way."""
    about_values = {c.column.name for c in asked.conditions} & {"time", "value"}
    return not (about_values or asked.order or asked.limit)
