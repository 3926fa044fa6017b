# SPDX-License-Identifier: Apache-2.0
"""Cells of a row in the table of runs: links, units, words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from psycopg.sql import SQL, Literal

from benchlab.analysis.formats import shown_unit
from benchlab.campaigns import points
from benchlab.charts import metric_naming
from benchlab.results import sql
from benchlab.results.columns import METRIC, PARAM, Column, Kind
from benchlab.results.grouped import GroupFigure, RunGroup
from benchlab.results.reading import fetch_rows
from benchlab.results.sql_conditions import trusted_sql
from benchlab.topologies import moments
from benchlab.web.units import si

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
        return Cell(points.describe_point(json.loads(value)) or NOTHING)
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
