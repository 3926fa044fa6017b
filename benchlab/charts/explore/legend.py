# SPDX-License-Identifier: Apache-2.0
"""Explore's tables. The legend: what each line looks like, its smallest, median and largest run, and the links that
hide, isolate and sort. The points: their numbers and runs. Pure: scene and address -> rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from benchlab.analysis.formats import ratio_sign
from benchlab.charts.explore import factors, lines
from benchlab.charts.explore.exploration import Exploration
from benchlab.charts.explore.lines import Line, Point, Quantity
from benchlab.charts.explore.query import BESIDE, STATISTICS
from benchlab.charts.sparkline import LegendKey, legend_key
from benchlab.web.lists import ColumnHead, query_address, sortable_head, without_parameters
from benchlab.web.units import short_si

# what is shown, and what is sorted by; None is not known
Cell = tuple[str, float | None]
UNKNOWN_CELL: Cell = ("–", None)


@dataclass(frozen=True, slots=True)
class LegendRow:
    """`cells`: words under the heads behind the name. `toggle_url`, `isolate_url`: addresses."""

    id: str
    label: str
    key: LegendKey
    visible: bool
    isolated: bool
    baseline: bool
    toggle_url: str
    isolate_url: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Legend:
    heads: tuple[ColumnHead, ...]
    rows: tuple[LegendRow, ...]
    hidden: int
    # the address without anything hidden
    all_shown: str


@dataclass(frozen=True, slots=True)
class Column:
    # as an address has it
    word: str
    label: str
    more: str
    cell: Callable[[Line], Cell]


def build_legend(scene: Exploration, query: QueryDict) -> Legend:
    columns, order = _legend_columns(scene), scene.query.sort
    heads = [sortable_head(query, "sort", "name", order, "Line")]
    heads += [sortable_head(query, "sort", c.word, order, c.label, "num", c.more) for c in columns]
    cells = {
        line.id: {column.word: column.cell(line) for column in columns} for line in scene.lines
    }
    word, down = order.removeprefix("-"), order.startswith("-")
    ordered = list(scene.lines)
    if word == "name":
        ordered.sort(key=lambda line: line.label.lower(), reverse=down)
    elif any(column.word == word for column in columns):
        # what is not known last
        numbers = {line: cell[word][1] for line, cell in cells.items()}
        known = {line: -n if down else n for line, n in numbers.items() if n is not None}
        ordered.sort(key=lambda line: (line.id not in known, known.get(line.id, 0.0)))
    rows = [
        _legend_row(scene, query, line, tuple(text for text, _ in cells[line.id].values()))
        for line in ordered
    ]
    hidden = sum(not row.visible for row in rows)
    all_shown = query_address(without_parameters(query, "hide", "only"))
    return Legend(tuple(heads), tuple(rows), hidden, all_shown)


def _legend_columns(scene: Exploration) -> list[Column]:
    def run_count(line: Line) -> Cell:
        both = (line, scene.beside.get(line.id, line))
        count = max(part.run_count for part in both)
        return str(count), count

    columns = [Column("runs", "Runs", "", run_count)]
    for axis in ("x", "y", BESIDE):
        if quantity := scene.quantity(axis):
            columns += [_statistic_column(scene, axis, quantity, which) for which in STATISTICS]
    if (base := scene.baseline) and scene.quantity("y"):
        medians = lines.medians_by_level(base)

        def baseline_ratio(line: Line) -> Cell:
            ratio = lines.ratio_to_baseline(line, medians)
            if ratio is None:
                return ("baseline", None) if line.id == base.id else UNKNOWN_CELL
            place = ", ".join(level.text for level in ratio[1])
            text = "baseline" if line.id == base.id else f"{ratio_sign(ratio[0])} at {place}"
            return text, ratio[0]

        columns.append(Column("baseline", "Against", base.label, baseline_ratio))
    return columns


def _statistic_column(scene: Exploration, axis: str, quantity: Quantity, which: str) -> Column:
    def statistic(line: Line) -> Cell:
        measured = scene.beside.get(line.id) if axis == BESIDE else line
        statistics = lines.line_statistics(measured, axis) if measured else None
        if statistics is None:
            return UNKNOWN_CELL
        value = getattr(statistics, which)
        return short_si(value, quantity.unit), value

    return Column(f"{axis}.{which}", which, quantity.word, statistic)


def _legend_row(
    scene: Exploration, query: QueryDict, line: Line, cells: tuple[str, ...]
) -> LegendRow:
    wish = scene.query
    alone = wish.only == {line.id}
    # hidden, or shown again
    toggled = "only" if wish.only else "hide"
    ids = [other for other in query.getlist(toggled) if other]
    others = [other for other in ids if other != line.id] if line.id in ids else [*ids, line.id]
    parameters = without_parameters(query, "only" if alone else "hide")
    isolated = parameters if alone else _setting(parameters, "only", [line.id])
    return LegendRow(
        line.id,
        line.label,
        legend_key(scene.styles[line.id]),
        wish.shows_line(line.id),
        alone,
        line.id == wish.baseline,
        query_address(_setting(query, toggled, others)),
        query_address(isolated),
        cells,
    )


def _setting(query: QueryDict, name: str, values: list[str]) -> QueryDict:
    parameters = query.copy()
    parameters.setlist(name, values)
    return parameters


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point in the table beneath the chart."""

    label: str
    at: tuple[str, ...]
    cells: tuple[str, ...]
    runs: tuple[int, ...]


def point_rows(scene: Exploration) -> tuple[list[str], list[PointRow]]:
    """(heads behind the line's, rows) of what is drawn."""
    chart = scene.chart
    metrics = {axis: q for axis in ("x", "y", "colour", BESIDE) if (q := scene.quantity(axis))}
    more = {line.id: line.points for line in chart.around}
    rows = []
    for line in chart.all_lines:
        for at, own, other in _merge_points(line.points, more.get(line.id, ())):
            cells = []
            for axis, quantity in metrics.items():
                point, name = (other, "y") if axis == BESIDE else (own, axis)
                value = getattr(point, name) if point else None
                ratio = bool(chart.baseline) and name == "y"
                cells.append(_value_text(value, quantity, ratio=ratio))
            runs = dict.fromkeys(run for point in (own, other) if point for run in point.runs)
            places = tuple(level.text for level in at)
            rows.append(PointRow(line.label, places, tuple(cells), tuple(runs)))
    words = [factors.factor_word(name) for name in chart.point_factors]
    return words + [quantity.word for quantity in metrics.values()], rows


def _value_text(value: float | None, quantity: Quantity, *, ratio: bool) -> str:
    if value is None:
        return "–"
    return ratio_sign(value) if ratio else short_si(value, quantity.unit)


def _merge_points(
    firsts: Sequence[Point], seconds: Sequence[Point]
) -> list[tuple[lines.Key, Point | None, Point | None]]:
    """(where, the first metric there, the second) of every place that either has."""
    first, second = ({point.at: point for point in points} for points in (firsts, seconds))
    every = sorted({**first, **second}, key=lines.sort_keys)
    return [(at, first.get(at), second.get(at)) for at in every]
