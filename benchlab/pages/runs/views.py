# SPDX-License-Identifier: Apache-2.0
"""The table of runs, what may be typed into it, and the way from it to a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_GET
from psycopg.sql import Composable

from benchlab.audit import request_notes
from benchlab.campaigns.models import Run
from benchlab.charts import metric_naming
from benchlab.charts.request_params import BUILT
from benchlab.pages.runs import query
from benchlab.pages.runs.query import CURSOR, FORM, GROUP, GROUP_ORDER, PAGE, PageQuery
from benchlab.results import grouped, reading, table_pages, vocabulary
from benchlab.results.columns import METRIC, PARAM, RESULTS, Column
from benchlab.results.query_language import OPERATORS, QueryError, TableQuery
from benchlab.web.cursors import CURSOR_SALT
from benchlab.web.lists import (
    BoundedPaginator,
    ColumnHead,
    query_address,
    sort_by_key,
    sortable_head,
    value_rank,
    without_parameters,
)
from benchlab.web.texts import parse_row_id

# rows of a page
PAGE_SIZE = 50
MAX_COMPARED = 200
# what tells set-ups apart
SET_UP = ("campaign", "topology", "host", "workload", "stage")
COUNT = "count"
# How an operator is said; those that a form offers.
OPERATOR_WORDS = {
    "eq": "is",
    "ne": "is not",
    "contains": "contains",
    "gte": "at least",
    "lte": "at most",
    "gt": "more than",
    "lt": "less than",
    "in": "is one of (a,b)",
    "isnull": "is unknown (true, false)",
}
PARTS = ("Mean", "Median", "Spread", "n")


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    if FORM in request.GET:
        return redirect(f"{reverse('run-list')}?{query.query_from_form(request.GET)}")
    page_query = query.parse_page_query(request.GET)
    visible = reading.queried_campaigns(page_query.request, request.user, few_rows=True)
    table: dict[str, Any] = {}
    if page_query.request is not None:
        try:
            table = (
                _groups_context(request, page_query, page_query.request, visible)
                if page_query.group_columns
                else _rows_context(request, page_query, page_query.request, visible)
            )
        except QueryError as refused:
            page_query.refuse(refused)
    context = {"query": page_query, **_form_choices(page_query, visible), **table}
    return render(request, "runs/list.html", context, status=400 if page_query.errors else 200)


def _rows_context(
    request: HttpRequest, page_query: PageQuery, table_query: TableQuery, visible: Composable
) -> dict[str, Any]:
    table_query = vocabulary.resolve_query(table_query, visible)
    ids, last = table_pages.read_page(table_query, visible, _decode_place(page_query), PAGE_SIZE)
    columns = [column for column in table_query.columns if column.name not in query.ROW]
    following = without_parameters(request.GET)
    if last:
        following[CURSOR] = signing.dumps(
            [page_query.order_term, last.was_sorted, last.has_value, _values_to_json(last.values)],
            salt=CURSOR_SALT,
        )
    return {
        "heads": [
            sortable_head(request.GET, "ordering", "attempt", page_query.order_term, "Run"),
            *(_column_head(request, page_query, column) for column in columns),
        ],
        "rows": query.table_rows(ids, columns),
        "next": query_address(following) if last else "",
        "first": query_address(without_parameters(request.GET, CURSOR))
        if page_query.page_parameters[CURSOR]
        else "",
        "downloads": _downloads(page_query),
    }


def _downloads(page_query: PageQuery) -> list[tuple[str, str]]:
    """(format, address) of the exports of all rows of this filter."""
    where = reverse("api:results-list")
    return [(form, f"{where}?{page_query.download_query(form)}") for form in ("csv", "parquet")]


def _column_head(request: HttpRequest, page_query: PageQuery, column: Column) -> ColumnHead:
    css = "num" if query.is_number(column) else ""
    return sortable_head(
        request.GET,
        "ordering",
        column.name,
        page_query.order_term,
        query.column_label(column.name),
        css,
    )


def _values_to_json(values: Iterable[Any]) -> list[Any]:
    return [{"at": v.isoformat()} if isinstance(v, datetime) else v for v in values]


def _decode_place(page_query: PageQuery) -> table_pages.PagePosition | None:
    """Raises Refused: it is none of ours, or of another order."""
    if not page_query.page_parameters[CURSOR]:
        return None
    try:
        order, every, is_known, values = signing.loads(
            page_query.page_parameters[CURSOR], salt=CURSOR_SALT
        )
    except (signing.BadSignature, ValueError):
        raise QueryError({CURSOR: "Begin at the first page: that address was changed."}) from None
    if order != page_query.order_term:
        raise QueryError(
            {CURSOR: "Begin at the first page: the table was sorted by another column."}
        )
    decoded = (datetime.fromisoformat(v["at"]) if isinstance(v, dict) else v for v in values)
    return table_pages.PagePosition(every, is_known, tuple(decoded))


def _groups_context(
    request: HttpRequest, page_query: PageQuery, table_query: TableQuery, visible: Composable
) -> dict[str, Any]:
    try:
        by = vocabulary.resolve_query(
            TableQuery(RESULTS, (), page_query.group_columns, wide=True), visible
        ).columns
    except QueryError as refused:
        raise QueryError({GROUP: next(iter(refused.errors.values()))}) from None
    table_query = vocabulary.resolve_query(table_query, visible)
    names = grouped.figure_names(table_query)
    run_groups = _sort_groups(
        grouped.group_runs(table_query, by, visible), [c.name for c in by], names, page_query
    )
    page = BoundedPaginator(run_groups, PAGE_SIZE).get_page(page_query.page_parameters[PAGE])
    rest = without_parameters(request.GET, PAGE)
    return {
        "heads": _group_heads(request, page_query, by, names),
        "groups": [
            query.group_row(run_group, by, names, _group_runs_address(request, by, run_group))
            for run_group in page.object_list
        ],
        "page": page,
        "page_query": rest.urlencode(),
        "downloads": _downloads(page_query),
    }


def _sort_groups(
    run_groups: list[grouped.RunGroup], by: list[str], names: list[str], page_query: PageQuery
) -> list[grouped.RunGroup]:
    """Sort by the group columns or the requested one, with unknown values last. Raises QueryError."""
    run_groups = sorted(run_groups, key=lambda group: [value_rank(v) for v in group.values])
    term = page_query.page_parameters[GROUP_ORDER]
    if not term:
        return run_groups
    word = term.removeprefix("-")
    sortable = [*by, COUNT, *(METRIC + name for name in names)]
    if word not in sortable:
        raise QueryError(
            {GROUP_ORDER: f"{word[:40]!r} is not one of them; there are {', '.join(sortable)}."}
        )

    def group_value(group: grouped.RunGroup) -> Any:
        if word == COUNT:
            return group.runs
        if word in by:
            return group.values[by.index(word)]
        return group.figures[names.index(word.removeprefix(METRIC))].median

    return sort_by_key(run_groups, group_value, down=term.startswith("-"))


def _group_heads(
    request: HttpRequest, page_query: PageQuery, by: Sequence[Column], names: Sequence[str]
) -> list[ColumnHead]:
    term = page_query.page_parameters[GROUP_ORDER]

    def group_head(word: str, label: str, css: str = "", more: str = "") -> ColumnHead:
        return sortable_head(request.GET, GROUP_ORDER, word, term, label, css, more)

    figures = [
        group_head(METRIC + name, metric_naming.metric_title(name), "num", part)
        if part == "Median"
        else ColumnHead(metric_naming.metric_title(name), css="num", more=part)
        for name in names
        for part in PARTS
    ]
    return [
        *(
            group_head(c.name, query.column_label(c.name), "num" if query.is_number(c) else "")
            for c in by
        ),
        group_head(COUNT, "Runs", "num"),
        *figures,
    ]


def _group_runs_address(
    request: HttpRequest, by: Sequence[Column], run_group: grouped.RunGroup
) -> str:
    """The table of a group's runs: what it has in common is asked for as well."""
    parameters = without_parameters(request.GET, GROUP, GROUP_ORDER, PAGE)
    for column, value, pk in zip(by, run_group.values, run_group.ids, strict=True):
        name = f"{column.name}_id" if pk is not None else column.name
        if value is None:
            parameters[f"{name}__isnull"] = "true"
        else:
            parameters[name] = str(pk if pk is not None else value)
    parameters["latest"] = "true"
    return query_address(parameters)


def _form_choices(page_query: PageQuery, visible: Composable) -> dict[str, Any]:
    """Choices that the form offers."""
    figures, options = vocabulary.newest_units(visible), vocabulary.newest_options(visible)
    plain = [c for c in RESULTS.columns.values() if not c.per_row and c.name not in query.ROW]
    params = [PARAM + name for name in options]
    columns = [*(c.name for c in plain), *(METRIC + name for name in figures), *params]
    groupable = [*(c.name for c in plain if c.kind in grouped.GROUPABLE_KINDS), *params]
    return {
        "typed": [
            (
                condition,
                vocabulary.complete_values(condition.name, "", visible) if condition.name else [],
            )
            for condition in page_query.conditions[:20]
        ],
        "names": vocabulary.condition_names(figures, options),
        "columns": _column_choices(page_query.column_names, columns),
        "groupable": _column_choices(page_query.group_names, groupable),
        "operators": [
            (word, OPERATOR_WORDS[word])
            for word in OPERATOR_WORDS
            if word == "eq" or word in OPERATORS
        ],
        "group_said": ", ".join(
            query.column_label(name).lower() for name in page_query.group_names
        ),
    }


def _column_choices(chosen: Sequence[str], available: Sequence[str]) -> list[tuple[str, str, bool]]:
    """(name, what it is called, whether it is chosen); the chosen ones first, in their order."""
    every = dict.fromkeys([*chosen, *available])
    return [(name, query.column_label(name), name in chosen) for name in every]


@require_GET
def run_words(request: HttpRequest) -> HttpResponse:
    """Values that may be typed for ?field=, as options of a list: those that contain ?value=."""
    visible = reading.visible_campaigns(request.user, False, few_rows=True)
    name, typed = request.GET.get("field", "")[:100], request.GET.get("value", "")[:100]
    return render(
        request, "runs/_words.html", {"words": vocabulary.complete_values(name, typed, visible)}
    )


@require_GET
def run_compare(request: HttpRequest) -> HttpResponse:
    """Redirect to the comparison of the set-ups of the runs in ?run=."""
    run_ids = [pk for text in request.GET.getlist("run") if (pk := parse_row_id(text)) is not None]
    runs = Run.objects.visible_to(request.user).filter(pk__in=run_ids[:MAX_COMPARED])
    pairs = {
        (name, BUILT if name == "stage" and not value else value)
        for row in runs.values(*SET_UP).distinct().order_by()
        for name, value in row.items()
    }
    if not pairs:
        request_notes.mark_refused(request, "Select the runs to compare first.")
        return redirect("run-list")
    return redirect(f"{reverse('compare')}?{urlencode(sorted(pairs, key=str))}")


urlpatterns = [
    path("", run_list, name="run-list"),
    path("words/", run_words, name="run-words"),
    path("compare/", run_compare, name="run-compare"),
]
