# SPDX-License-Identifier: Apache-2.0
"""Query in the address of the table of runs, and the cells of its rows: links, units, words.

The query is in the language of the exports, with what only a page has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse
from psycopg.sql import SQL, Literal

from benchlab.analysis.formats import shown_unit
from benchlab.campaigns import matrix
from benchlab.charts import metric_naming
from benchlab.results import sql
from benchlab.results.columns import METRIC, PARAM, RESULTS, Column, Kind
from benchlab.results.grouped import GroupFigure, RunGroup
from benchlab.results.query_language import (
    OPERATORS,
    OWN_PARAMETERS,
    QueryError,
    TableQuery,
    parse_query,
)
from benchlab.results.reading import fetch_rows
from benchlab.results.sql import trusted_sql
from benchlab.topologies import moments
from benchlab.web.units import si

# of the form's fields, which are made into an address
FORM = "form"
GROUP, GROUP_ORDER, CURSOR, PAGE = "group", "group_ordering", "cursor", "page"
# what only downloads have
DOWNLOADS = ("wide", "format", "limit")
FIELDS = (
    "campaign",
    "host",
    "topology",
    "workload",
    "outstanding",
    "repeat",
    "outcome",
    "started_at",
    "metric.iops",
    "metric.bandwidth",
    "metric.lat.mean",
)
ORDER = "-attempt"
# the head of each row
ROW = ("run", "attempt")
SWITCHES = ("latest", "library")


@dataclass(frozen=True, slots=True)
class TypedCondition:
    """A condition as it was typed, and what is wrong with it."""

    name: str = ""
    operator: str = "eq"
    value: str = ""
    error: str = ""


@dataclass(slots=True)
class PageQuery:
    """`request` is None and `group_columns` is empty if there are `errors` (parameter -> message)."""

    # in the language
    parameters: dict[str, list[str]]
    page_parameters: dict[str, str]
    request: TableQuery | None = None
    group_columns: tuple[Column, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)

    def refuse(self, refused: QueryError) -> None:
        self.errors |= refused.errors
        self.request = None

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are shown beside the run, as far as they were understood."""
        text = self.parameters.get("fields", [",".join(FIELDS)])[-1]
        return [name for name in split_names([text]) if name not in ROW]

    @property
    def order_term(self) -> str:
        return self.parameters.get("ordering", [ORDER])[-1] or ORDER

    @property
    def group_names(self) -> list[str]:
        return split_names([self.page_parameters[GROUP]])

    @property
    def conditions(self) -> list[TypedCondition]:
        """The conditions, one for each value; and an empty one to fill in."""
        conditions = []
        for parameter, values in self.parameters.items():
            if parameter in OWN_PARAMETERS:
                continue
            stem, mark, operator = parameter.rpartition("__")
            name = (stem, operator) if mark and operator in OPERATORS else (parameter, "eq")
            error = self.errors.get(parameter, "")
            conditions += [TypedCondition(*name, value, error) for value in values]
        return [*conditions, TypedCondition()]

    @property
    def other_errors(self) -> Mapping[str, str]:
        """Errors of all that is no condition."""
        own = (*OWN_PARAMETERS, GROUP, GROUP_ORDER, CURSOR)
        return {name: error for name, error in self.errors.items() if name in own}

    def download_query(self, form: str) -> str:
        """The exports' query for the rows that are shown."""
        parameters = {
            **self.parameters,
            "fields": [",".join(["run", *self.column_names])],
            "ordering": [self.order_term],
        }
        return urlencode({**parameters, "wide": ["true"], "format": [form]}, doseq=True)


def parse_page_query(query: QueryDict) -> PageQuery:
    """Parse the address; what is wrong is in `errors`."""
    parameters = {name: list(values) for name, values in query.lists()}
    own = {name: parameters.pop(name, [""])[-1] for name in (GROUP, GROUP_ORDER, CURSOR, PAGE)}
    page_query = PageQuery(parameters, own)
    for name in DOWNLOADS:
        if parameters.pop(name, None):
            page_query.errors[name] = "Only downloads have that."
    try:
        page_query.request = parse_query(
            RESULTS,
            {
                **parameters,
                "fields": [",".join(page_query.column_names) or "run"],
                "ordering": [page_query.order_term],
                "wide": ["true"],
            },
        )
        if len(page_query.request.order) != 1:
            raise QueryError(
                {"ordering": "The page is sorted by one column; downloads by several."}
            )
    except QueryError as refused:
        page_query.refuse(refused)
    if page_query.group_names:
        try:
            page_query.group_columns = parse_columns(page_query.group_names)
        except QueryError as refused:
            page_query.refuse(QueryError({GROUP: next(iter(refused.errors.values()))}))
    if page_query.errors:
        page_query.request = None
    return page_query


def parse_columns(column_names: Iterable[str]) -> tuple[Column, ...]:
    """Raises Refused."""
    return parse_query(RESULTS, {"fields": [",".join(column_names)], "wide": ["true"]}).columns


def query_from_form(form: QueryDict) -> str:
    """The address's query for what the form says; what is wrong in it is told there."""
    pairs = [*_form_conditions(form), *((name, "true") for name in SWITCHES if form.get(name))]
    fields = [name for name in split_names(form.getlist("column")) if name not in ROW]
    if fields and sorted(fields) != sorted(FIELDS):
        pairs.append(("fields", ",".join(fields)))
    if by := split_names(form.getlist("by")):
        pairs.append((GROUP, ",".join(by)))
    if form.get("ordering", ORDER) != ORDER:
        pairs.append(("ordering", str(form["ordering"])))
    return urlencode(pairs)


def _form_conditions(form: QueryDict) -> list[tuple[str, str]]:
    typed = (map(str, form.getlist(name)) for name in ("field", "operator", "value"))
    return [
        (f"{name.strip()}__{operator}" if operator in OPERATORS else name.strip(), value)
        for name, operator, value in zip(*typed, strict=False)
        if name.strip() or value
    ]


def split_names(texts: Iterable[str]) -> list[str]:
    """Each once, in order; lists of them with commas."""
    parts = (part.strip() for text in texts for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


LABELS = {
    "outstanding": "Outstanding I/Os",
    "started_at": "Started (UTC)",
    "ended_at": "Ended (UTC)",
    "number": "Try",
    "stage": "Moment",
    "tool_version": "Version of the tool",
}
# Which noun's page a column's id leads to.
NOUNS = ("campaign", "host", "topology", "workload")
IDS = "a.id, r.id, c.id, h.id, t.id, w.id"
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    url: str = ""
    css: str = ""
    badge: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    run: int
    attempt: int
    url: str
    cells: list[Cell]


def column_label(name: str) -> str:
    """Heading of a column."""
    if name.startswith(METRIC):
        return metric_naming.metric_title(name.removeprefix(METRIC))
    if name.startswith(PARAM):
        return name.removeprefix(PARAM).replace("_", " ")
    return LABELS.get(name, name.replace("_", " ").capitalize().replace(" id", " id"))


def is_number(column: Column) -> bool:
    return column.kind in (Kind.WHOLE, Kind.NUMBER)


def table_rows(ids: Sequence[int], columns: Sequence[Column]) -> list[Row]:
    """The rows of these attempts, in that order. Two queries."""
    plain = [c for c in columns if not c.name.startswith(METRIC)]
    statement = SQL("SELECT {}, {} {} WHERE a.id = ANY({})").format(
        trusted_sql(IDS),
        SQL(", ").join([*(trusted_sql(c.sql) for c in plain), trusted_sql("1")]),
        trusted_sql(sql.ATTEMPTS_FROM),
        Literal(list(ids)),
    )
    by_id = {row[0]: row for row in fetch_rows(statement)} if ids else {}
    measured = _measured_values(
        ids, [c.name.removeprefix(METRIC) for c in columns if c not in plain]
    )
    return [_table_row(by_id[pk], columns, plain, measured) for pk in ids if pk in by_id]


def _measured_values(
    ids: Sequence[int], names: Sequence[str]
) -> dict[tuple[int, str], tuple[float | None, str]]:
    if not (ids and names):
        return {}
    measurements = fetch_rows(
        SQL(
            "SELECT m.attempt_id, m.name, m.value, m.unit FROM runs_measurement m"
            " WHERE m.attempt_id = ANY({}) AND m.name = ANY({}) AND m.labels = '{{}}'::jsonb"
        ).format(Literal(list(ids)), Literal(list(names)))
    )
    return {(attempt, name): (value, unit) for attempt, name, value, unit in measurements}


def _table_row(
    row: Sequence[Any],
    columns: Sequence[Column],
    plain: Sequence[Column],
    measured: Mapping[tuple[int, str], tuple[float | None, str]],
) -> Row:
    attempt, run, *nouns = row[:6]
    values = dict(zip((c.name for c in plain), row[6:], strict=False))
    leads = dict(zip(NOUNS, nouns, strict=True))
    cells = []
    for column in columns:
        if column.name.startswith(METRIC):
            name = column.name.removeprefix(METRIC)
            value, unit = measured.get((attempt, name), (None, ""))
            cells.append(figure_cell(name, value, unit))
        else:
            cells.append(value_cell(column, values[column.name], leads.get(column.name)))
    return Row(run, attempt, reverse("run-detail", args=[run]), cells)


def figure_cell(name: str, value: float | None, unit: str) -> Cell:
    """Format a figure with its unit; shares in percent."""
    if value is None:
        return Cell(NOTHING, css="num")
    if metric_naming.is_share(name, unit):
        return Cell(si(100 * value, "%"), css="num")
    return Cell(si(value, shown_unit(name, unit)), css="num")


def value_cell(column: Column, value: Any, pk: int | None = None) -> Cell:
    """One that is no figure. `pk`: of the row that it names."""
    css = "num" if is_number(column) else ""
    if value is None:
        return Cell(NOTHING, css=css)
    if column.name in NOUNS and pk is not None:
        return Cell(str(value), reverse(f"{column.name}-detail", args=[pk]))
    if column.name == "outcome":
        return Cell(value or "not over", badge=value or "queued")
    if column.name == "stage":
        return Cell(moments.parse_moment(value).phrase or "as built")
    if column.name == "point":
        return Cell(matrix.describe_point(json.loads(value)) or NOTHING)
    if isinstance(value, datetime):
        return Cell(f"{value:%Y-%m-%d %H:%M}", css="nowrap")
    if isinstance(value, float):
        return Cell(f"{value:.6g}", css=css)
    return Cell(str(value), css=css)


@dataclass(frozen=True, slots=True)
class GroupRow:
    cells: list[Cell]
    runs: int
    url: str
    figures: list[Cell]


def group_row(
    run_group: RunGroup, by: Sequence[Column], names: Iterable[str], url: str
) -> GroupRow:
    """`url`: of the table of its runs."""
    cells = [
        value_cell(column, value, pk)
        for column, value, pk in zip(by, run_group.values, run_group.ids, strict=True)
    ]
    figures = [
        cell
        for name, group_figure in zip(names, run_group.figures, strict=True)
        for cell in _figure_cells(name, group_figure)
    ]
    return GroupRow(cells, run_group.runs, url, figures)


def _figure_cells(name: str, group_figure: GroupFigure) -> list[Cell]:
    """Mean, median, spread, number."""
    if group_figure.number and not group_figure.unit:
        return [
            Cell("several units", css="num"),
            *[Cell(NOTHING, css="num")] * 2,
            Cell(str(group_figure.number), css="num"),
        ]
    spread = NOTHING if group_figure.spread is None else si(100 * group_figure.spread, "%")
    return [
        figure_cell(name, group_figure.mean, group_figure.unit),
        figure_cell(name, group_figure.median, group_figure.unit),
        Cell(spread, css="num"),
        Cell(str(group_figure.number), css="num"),
    ]
