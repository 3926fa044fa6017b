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
from django.urls import reverse
from django.views.decorators.http import require_GET
from psycopg.sql import Composable

from benchlab.audit import request_notes
from benchlab.campaigns.models import Run
from benchlab.charts import metric_naming
from benchlab.charts.request_params import BUILT
from benchlab.pages.runs import cells, query
from benchlab.pages.runs.query import CURSOR, FORM, GROUP, GROUP_ORDER, PAGE, PageQuery
from benchlab.results import completions, grouped, reading, table_pages
from benchlab.results.columns import METRIC, PARAM, RESULTS, Column
from benchlab.results.query_language import OPERATORS, QueryError, TableQuery
from benchlab.web.cursors import CURSOR_SALT
from benchlab.web.lists import ColumnHead, query_address, sortable_head, without_parameters
from benchlab.web.natural import natural_key
from benchlab.web.pages import BoundedPaginator

# rows of a page
PAGE_SIZE = 50
MAX_COMPARED = 200
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
    wish = query.parse_page_query(request.GET)
    seen = reading.queried_campaigns(wish.request, request.user, few_rows=True)
    found: dict[str, Any] = {}
    if wish.request is not None:
        try:
            found = (
                _groups_context(request, wish, wish.request, seen)
                if wish.group_columns
                else _rows_context(request, wish, wish.request, seen)
            )
        except QueryError as refused:
            wish.refuse(refused)
    context = {"query": wish, **_form_choices(wish, seen), **found}
    return render(request, "runs/list.html", context, status=400 if wish.errors else 200)


def _rows_context(
    request: HttpRequest, wish: PageQuery, asked: TableQuery, seen: Composable
) -> dict[str, Any]:
    asked = reading.resolve_query(asked, seen)
    ids, last = table_pages.read_page(asked, seen, _decode_place(wish), PAGE_SIZE)
    shown = [column for column in asked.columns if column.name not in query.ROW]
    following = without_parameters(request.GET)
    if last:
        following[CURSOR] = signing.dumps(
            [wish.order_term, last.was_sorted, last.has_value, _values_to_json(last.values)],
            salt=CURSOR_SALT,
        )
    return {
        "heads": [
            sortable_head(request.GET, "ordering", "attempt", wish.order_term, "Run"),
            *(_column_head(request, wish, column) for column in shown),
        ],
        "rows": cells.table_rows(ids, shown),
        "next": query_address(following) if last else "",
        "first": query_address(without_parameters(request.GET, CURSOR))
        if wish.page_parameters[CURSOR]
        else "",
        "downloads": _downloads(wish),
    }


def _downloads(wish: PageQuery) -> list[tuple[str, str]]:
    """(format, address) of the exports of all rows of this filter."""
    where = reverse("api:results-list")
    return [(form, f"{where}?{wish.download_query(form)}") for form in ("csv", "parquet")]


def _column_head(request: HttpRequest, wish: PageQuery, column: Column) -> ColumnHead:
    css = "num" if cells.is_number(column) else ""
    return sortable_head(
        request.GET, "ordering", column.name, wish.order_term, cells.column_label(column.name), css
    )


def _values_to_json(values: Iterable[Any]) -> list[Any]:
    return [{"at": v.isoformat()} if isinstance(v, datetime) else v for v in values]


def _decode_place(wish: PageQuery) -> table_pages.PagePosition | None:
    """Raises Refused: it is none of ours, or of another order."""
    if not wish.page_parameters[CURSOR]:
        return None
    try:
        order, every, known, values = signing.loads(wish.page_parameters[CURSOR], salt=CURSOR_SALT)
    except (signing.BadSignature, ValueError):
        raise QueryError({CURSOR: "Begin at the first page: that address was changed."}) from None
    if order != wish.order_term:
        raise QueryError(
            {CURSOR: "Begin at the first page: the table was sorted by another column."}
        )
    made = (datetime.fromisoformat(v["at"]) if isinstance(v, dict) else v for v in values)
    return table_pages.PagePosition(every, known, tuple(made))


def _groups_context(
    request: HttpRequest, wish: PageQuery, asked: TableQuery, seen: Composable
) -> dict[str, Any]:
    try:
        by = reading.resolve_query(
            TableQuery(RESULTS, (), wish.group_columns, wide=True), seen
        ).columns
    except QueryError as refused:
        raise QueryError({GROUP: next(iter(refused.errors.values()))}) from None
    asked = reading.resolve_query(asked, seen)
    names = grouped.figure_names(asked)
    found = _sort_groups(grouped.group_runs(asked, by, seen), [c.name for c in by], names, wish)
    page = BoundedPaginator(found, PAGE_SIZE).get_page(wish.page_parameters[PAGE])
    rest = without_parameters(request.GET, PAGE)
    return {
        "heads": _group_heads(request, wish, by, names),
        "groups": [
            cells.group_row(one, by, names, _group_runs_address(request, by, one))
            for one in page.object_list
        ],
        "page": page,
        "page_query": rest.urlencode(),
        "downloads": _downloads(wish),
    }


def _sort_groups(
    found: list[grouped.RunGroup], by: list[str], names: list[str], wish: PageQuery
) -> list[grouped.RunGroup]:
    """By what they are grouped by, or by the column that is asked for; what is not known last. Raises Refused."""
    found = sorted(found, key=lambda one: [_value_rank(value) for value in one.values])
    asked = wish.page_parameters[GROUP_ORDER]
    if not asked:
        return found
    word, down = asked.removeprefix("-"), asked.startswith("-")
    known = [*by, COUNT, *(METRIC + name for name in names)]
    if word not in known:
        raise QueryError(
            {GROUP_ORDER: f"{word[:40]!r} is not one of them; there are {', '.join(known)}."}
        )

    def key(one: grouped.RunGroup) -> Any:
        if word == COUNT:
            return one.runs
        if word in by:
            return one.values[by.index(word)]
        return one.figures[names.index(word.removeprefix(METRIC))].median

    there = [one for one in found if key(one) is not None]
    return [
        *sorted(there, key=lambda one: _value_rank(key(one)), reverse=down),
        *(one for one in found if key(one) is None),
    ]


def _value_rank(value: Any) -> tuple[Any, ...]:
    """Numbers before texts, those in the order in which people count, nothing last."""
    if value is None:
        return (2,)
    if isinstance(value, str):
        return 1, natural_key(value.lower())
    return 0, value


def _group_heads(
    request: HttpRequest, wish: PageQuery, by: Sequence[Column], names: Sequence[str]
) -> list[ColumnHead]:
    asked = wish.page_parameters[GROUP_ORDER]

    def one(word: str, label: str, css: str = "", more: str = "") -> ColumnHead:
        return sortable_head(request.GET, GROUP_ORDER, word, asked, label, css, more)

    figures = [
        one(METRIC + name, metric_naming.metric_title(name), "num", part)
        if part == "Median"
        else ColumnHead(metric_naming.metric_title(name), css="num", more=part)
        for name in names
        for part in PARTS
    ]
    return [
        *(one(c.name, cells.column_label(c.name), "num" if cells.is_number(c) else "") for c in by),
        one(COUNT, "Runs", "num"),
        *figures,
    ]


def _group_runs_address(request: HttpRequest, by: Sequence[Column], one: grouped.RunGroup) -> str:
    """The table of a group's runs: what it has in common is asked for as well."""
    wanted = without_parameters(request.GET, GROUP, GROUP_ORDER, PAGE)
    for column, value, pk in zip(by, one.values, one.ids, strict=True):
        name = f"{column.name}_id" if pk is not None else column.name
        if value is None:
            wanted[f"{name}__isnull"] = "true"
        else:
            wanted[name] = str(pk if pk is not None else value)
    wanted["latest"] = "true"
    return query_address(wanted)


def _form_choices(wish: PageQuery, seen: Composable) -> dict[str, Any]:
    """Choices that the form offers."""
    figures, options = completions.newest_units(seen), completions.newest_options(seen)
    plain = [c for c in RESULTS.columns.values() if not c.per_row and c.name not in query.ROW]
    params = [PARAM + name for name in options]
    columns = [*(c.name for c in plain), *(METRIC + name for name in figures), *params]
    groupable = [*(c.name for c in plain if c.kind in grouped.GROUPABLE_KINDS), *params]
    return {
        "typed": [
            (one, completions.complete_values(one.name, "", seen) if one.name else [])
            for one in wish.conditions[:20]
        ],
        "names": completions.condition_names(figures, options),
        "columns": _column_choices(wish.column_names, columns),
        "groupable": _column_choices(wish.group_names, groupable),
        "operators": [
            (word, OPERATOR_WORDS[word])
            for word in OPERATOR_WORDS
            if word == "eq" or word in OPERATORS
        ],
        "group_said": ", ".join(cells.column_label(name).lower() for name in wish.group_names),
    }


def _column_choices(chosen: Sequence[str], known: Sequence[str]) -> list[tuple[str, str, bool]]:
    """(name, what it is called, whether it is chosen); the chosen ones first, in their order."""
    every = dict.fromkeys([*chosen, *known])
    return [(name, cells.column_label(name), name in chosen) for name in every]


@require_GET
def run_words(request: HttpRequest) -> HttpResponse:
    """Values that may be typed for ?field=, as options of a list: those that contain ?value=."""
    seen = reading.visible_campaigns(request.user, False, few_rows=True)
    name, typed = request.GET.get("field", "")[:100], request.GET.get("value", "")[:100]
    return render(
        request, "runs/_words.html", {"words": completions.complete_values(name, typed, seen)}
    )


@require_GET
def run_compare(request: HttpRequest) -> HttpResponse:
    """To the comparison of the set-ups that the runs ?run= are of."""
    wanted = [
        text
        for text in request.GET.getlist("run")
        if text.isascii() and text.isdecimal() and len(text) < 19
    ]
    runs = Run.objects.visible_to(request.user).filter(pk__in=wanted[:MAX_COMPARED])
    found = (
        runs.values_list("campaign", "topology", "host", "workload", "stage").distinct().order_by()
    )
    pairs = {
        (name, value if name != "stage" else value or BUILT)
        for row in found
        for name, value in zip(
            ("campaign", "topology", "host", "workload", "stage"), row, strict=True
        )
    }
    if not pairs:
        request_notes.mark_refused(request, "Select the runs to compare first.")
        return redirect("run-list")
    return redirect(f"{reverse('compare')}?{urlencode(sorted(pairs, key=str))}")
