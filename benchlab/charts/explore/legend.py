# SPDX-License-Identifier: Apache-2.0
"""The legend as a table: what each line looks like, its smallest, median and largest run, and the links that hide,
isolate and sort. Pure: scene and address -> rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from benchlab.analysis.formats import ratio_sign
from benchlab.charts.explore import factors, lines
from benchlab.charts.explore.exploration import Exploration
from benchlab.charts.explore.lines import Line, Point, Quantity, Statistics
from benchlab.charts.explore.query import BESIDE, STATISTICS
from benchlab.charts.sparkline import LegendKey, legend_key
from benchlab.web.lists import ColumnHead, query_address, sortable_head, without_parameters
from benchlab.web.units import short_si


@dataclass(frozen=True, slots=True)
class LegendRow:
    """`cells`: words under the heads behind the name. `toggle`, `alone`: addresses."""

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
    text: Callable[[Line], str]
    key: Callable[[Line], float | None]


def build_legend(scene: Exploration, query: QueryDict) -> Legend:
    columns = _legend_columns(scene)
    order = scene.query.sort
    heads = [sortable_head(query, "sort", "name", order, "Line")]
    heads += [sortable_head(query, "sort", c.word, order, c.label, "num", c.more) for c in columns]
    rows = [_legend_row(scene, query, line, columns) for line in _sorted_lines(scene, columns)]
    return Legend(
        tuple(heads),
        tuple(rows),
        sum(not row.visible for row in rows),
        query_address(without_parameters(query, "hide", "only")),
    )


def _legend_columns(scene: Exploration) -> list[Column]:
    def run_count(line: Line) -> int:
        return max(
            line.run_count, scene.beside[line.id].run_count if line.id in scene.beside else 0
        )

    columns = [
        Column(
            "runs",
            "Runs",
            "",
            lambda line: str(run_count(line)),
            lambda line: float(run_count(line)),
        )
    ]
    for axis in ("x", "y", BESIDE):
        if quantity := scene.quantity(axis):
            columns += [
                _statistic_column(scene, axis, quantity, statistic) for statistic in STATISTICS
            ]
    if (base := scene.baseline) and scene.quantity("y"):
        places = lines.medians_by_level(base)

        def baseline_ratio(line: Line) -> float | None:
            ratio = lines.ratio_to_baseline(line, places)
            return ratio[0] if ratio else None

        def baseline_text(line: Line) -> str:
            if line.id == base.id:
                return "baseline"
            ratio = lines.ratio_to_baseline(line, places)
            return (
                f"{ratio_sign(ratio[0])} at {', '.join(level.text for level in ratio[1])}"
                if ratio
                else "–"
            )

        columns.append(Column("baseline", "Against", base.label, baseline_text, baseline_ratio))
    return columns


def _statistic_column(scene: Exploration, axis: str, quantity: Quantity, which: str) -> Column:
    def statistic_value(line: Line) -> float | None:
        measured = scene.beside.get(line.id) if axis == BESIDE else line
        statistics: Statistics | None = lines.line_statistics(measured, axis) if measured else None
        return getattr(statistics, which) if statistics else None

    def statistic_text(line: Line) -> str:
        value = statistic_value(line)
        return "–" if value is None else short_si(value, quantity.unit)

    return Column(f"{axis}.{which}", which, quantity.word, statistic_text, statistic_value)


def _sorted_lines(scene: Exploration, columns: Sequence[Column]) -> list[Line]:
    """Lines in the order asked for; what is not known last. Else in the order of what lines are."""
    word, down = scene.query.sort.removeprefix("-"), scene.query.sort.startswith("-")
    if word == "name":
        return sorted(scene.lines, key=lambda line: line.label.lower(), reverse=down)
    column = next((candidate for candidate in columns if candidate.word == word), None)
    if column is None:
        return list(scene.lines)
    keyed = [(column.key(line), line) for line in scene.lines]
    keyed_lines = [(key, line) for key, line in keyed if key is not None]
    keyed_lines.sort(key=lambda pair: pair[0], reverse=down)
    return [line for _, line in keyed_lines] + [line for key, line in keyed if key is None]


def _legend_row(
    scene: Exploration, query: QueryDict, line: Line, columns: Sequence[Column]
) -> LegendRow:
    wish = scene.query
    alone = wish.only == {line.id}
    return LegendRow(
        line.id,
        line.label,
        legend_key(scene.styles[line.id]),
        wish.shows_line(line.id),
        alone,
        line.id == wish.baseline,
        _toggle_address(query, scene, line.id),
        query_address(without_parameters(query, "only"))
        if alone
        else _address_with(without_parameters(query, "hide"), "only", [line.id]),
        tuple(column.text(line) for column in columns),
    )


def _toggle_address(query: QueryDict, scene: Exploration, line: str) -> str:
    """The address in which this line is hidden, or shown again."""
    name = "only" if scene.query.only else "hide"
    ids = [other for other in query.getlist(name) if other]
    return _address_with(
        query, name, [other for other in ids if other != line] if line in ids else [*ids, line]
    )


def _address_with(query: QueryDict, name: str, values: list[str]) -> str:
    parameters = query.copy()
    parameters.setlist(name, values)
    return query_address(parameters)


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
    metrics = [(q.word, axis) for axis in ("x", "y", "colour") if (q := scene.quantity(axis))]
    beside = scene.quantity(BESIDE)
    more = {line.id: line.points for line in chart.around}
    rows = [
        PointRow(
            line.label,
            tuple(level.text for level in at),
            (
                *(_value_cell(scene, axis, getattr(own, axis, None), ratio) for _, axis in metrics),
                *(
                    [_value_cell(scene, BESIDE, other.y if other else None, ratio)]
                    if beside
                    else []
                ),
            ),
            tuple(dict.fromkeys(run for point in (own, other) if point for run in point.runs)),
        )
        for ratio in (bool(chart.baseline),)
        for line in chart.all_lines
        for at, own, other in _merge_points(line.points, more.get(line.id, ()))
    ]
    words = [*(word for word, _ in metrics), *([beside.word] if beside else [])]
    return [*(factors.factor_word(name) for name in chart.point_factors), *words], rows


def _merge_points(
    firsts: Sequence[Point], seconds: Sequence[Point]
) -> list[tuple[lines.Key, Point | None, Point | None]]:
    """(where, the first metric there, the second) of every place that either has."""
    first, second = ({point.at: point for point in points} for points in (firsts, seconds))
    every = sorted({**first, **second}, key=lambda at: [level.sort_key for level in at])
    return [(at, first.get(at), second.get(at)) for at in every]


def _value_cell(scene: Exploration, axis: str, value: float | None, ratio: bool) -> str:
    quantity = scene.quantity(axis)
    if value is None or quantity is None:
        return "–"
    return ratio_sign(value) if ratio and axis in ("y", BESIDE) else short_si(value, quantity.unit)
