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

from benchlab.results import arrow, columns, query_language, reading, sql, vocabulary
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
            exc = ValidationError({name: [message] for name, message in exc.errors.items()})
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
        query = query_language.parse_query(self.shape, dict(request.query_params.lists()))
        visible = reading.queried_campaigns(query, request.user)
        query = vocabulary.resolve_query(query, visible)
        form = cast(TableRenderer, request.accepted_renderer)
        make_answer = self.answer_maker(query, visible, form)
        if request.method == "HEAD":
            # How long it is, nobody knows before it is made; a length of none would be believed (DuckDB, polars).
            return StreamingHttpResponse((), content_type=form.media_type)
        return table_response(
            request._request, make_answer, str(form.media_type), f"{self.shape.name}.{form.ending}"
        )

    def answer_maker(
        self, query: TableQuery, visible: Composable, form: TableRenderer
    ) -> Callable[[], Iterator[bytes]]:
        """Function that makes the answer, anew with each call."""
        fields = [Field(c.name, c.kind) for c in query.columns]
        metrics: list[sql.Metric] = []
        if query.wide and not sql.has_figure_columns(query):
            metrics = reading.wide_metrics(query, visible)
            names = sql.wide_column_names(query, metrics)
            fields += [
                Field(name, columns.NUMBER, unit)
                for name, (_, unit) in zip(names, metrics, strict=True)
            ]
        spreadsheet = form.format == "csv"
        statement = sql.table_statement(query, visible, metrics, spreadsheet=spreadsheet)
        if isinstance(form, Csv):
            first = csv_header([field.name for field in fields])
            return lambda: chain([first], reading.csv_lines(statement))

        def arrow_tables() -> Iterator[pa.Table]:
            return arrow.csv_tables(fields, reading.csv_lines(statement))

        if isinstance(form, Json):
            return lambda: arrow.columnar_json(fields, arrow.json_columns(fields, arrow_tables()))
        write = arrow.parquet if isinstance(form, Parquet) else arrow.arrow_stream
        return lambda: write(fields, arrow_tables())


class Results(TableViewSet):
    """Every measurement of every attempt, a row each, in one answer; or with wide=true a row per attempt."""

    shape = columns.RESULTS
    noun = "result"
    queryset = Measurement.objects.all()

    @extend_schema(**query_language.table_schema(columns.RESULTS))
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

    @extend_schema(**query_language.table_schema(columns.SERIES))
    def list(self, request: Request) -> HttpResponseBase:
        """List the samples of each device, value by value; filters and formats as /api/results/ has them."""
        return self._table_response(request)

    def answer_maker(
        self, query: TableQuery, visible: Composable, form: TableRenderer
    ) -> Callable[[], Iterator[bytes]]:
        if not _as_arrays(query):
            return super().answer_maker(query, visible, form)
        fields = [Field(c.name, c.kind) for c in query.columns]
        if isinstance(form, Csv):
            lines, first = (
                sql.series_csv_statement(query, visible),
                csv_header([field.name for field in fields]),
            )
            return lambda: chain(
                [first], (text for (text,) in reading.stream_series(lines) if text)
            )
        statement = sql.series_arrays(query, visible)
        if isinstance(form, Json):
            return lambda: arrow.columnar_json(
                fields, arrow.series_json(fields, reading.stream_series(statement))
            )
        write = arrow.parquet if isinstance(form, Parquet) else arrow.arrow_stream
        return lambda: write(fields, arrow.series_tables(fields, reading.stream_series(statement)))


def _as_arrays(query: TableQuery) -> bool:
    """True when whole series are wanted: then no value of theirs is made text on the way."""
    about_values = {c.column.name for c in query.conditions} & {"time", "value"}
    return not (about_values or query.order or query.limit)
