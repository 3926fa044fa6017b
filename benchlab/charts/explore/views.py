# SPDX-License-Identifier: Apache-2.0
"""The page Explore, its figure, its tables, and the runs behind it as CSV.

The legend is a table: what each line looks like, its smallest, median and largest run, and the links that hide, isolate
and sort.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.forms import Select
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from benchlab.analysis.formats import ratio_sign
from benchlab.campaigns.models import Campaign
from benchlab.charts import compare, metric_naming, tables
from benchlab.charts.conditions import Differences, line_differences
from benchlab.charts.explore import draw, exploration, factors, lines
from benchlab.charts.explore.exploration import Exploration
from benchlab.charts.explore.factors import BESIDE, STATISTICS
from benchlab.charts.explore.lines import Line, Point, Quantity
from benchlab.charts.figure_views import figure_response, with_lines_origin
from benchlab.charts.queries import OUTSTANDING, Person, fill_values
from benchlab.charts.sparkline import LegendKey, legend_key
from benchlab.charts.tables import csv_response
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.web.lists import (
    ALL,
    LINES,
    MOST_LINES,
    ColumnHead,
    query_address,
    sortable_head,
    without_parameters,
)
from benchlab.web.units import short_si

AXIS_LABELS = {
    "x": "Across",
    "y": "Up",
    factors.BESIDE: "Beside it",
    "colour": "Colour",
    "dash": "Dash",
    "marker": "Marker",
    "facet": "Facet",
}
NONE_WORDS = {
    factors.BESIDE: "Nothing",
    "colour": "One colour",
    "dash": "Solid",
    "marker": "As the colour",
    "facet": "One panel",
}
# What a preset sets anew.
PRESET_PARAMETERS = (*factors.AXES, "logx", "logy")


@require_GET
def explore(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2&x=iops&y=lat.mean&colour=topology&dash=host&facet=line&where=oio <= 16 and so on.

    Without any parameter it leads to the latest campaign that has a result.
    """
    if not request.GET and (latest := _latest_campaign(request.user)):
        return redirect(f"{request.path}?campaign={latest}")
    wish = factors.parse_explore_query(request.GET)
    scene = exploration.read_exploration(request.user, wish)
    query = request.GET
    heads, numbers = point_rows(scene) if scene.lines else ([], [])
    context: dict[str, Any] = {
        **compare.line_choices(request, wish.filter, scene.all_groups),
        "wanted": wish.filter,
        "scene": scene,
        "chart": scene.chart,
        "selects": _selects(scene),
        "logs": wish.log_axes(scene.axes),
        "legend": build_legend(scene, query),
        "presets": _presets(scene, query),
        "split": _split_link(scene, query),
        "beside": _second_metric_link(scene, query),
        "conditions": _condition_links(scene, query),
        "runs": sum(len(group.samples) for group in scene.groups),
        "of_runs": sum(len(group.samples) for group in scene.all_groups),
        "numbers": numbers,
        "number_heads": heads,
        "differs": _difference_names(line_differences(request.user, scene.groups))
        if scene.groups
        else None,
        "figure_url": f"{reverse('explore-figure')}?{query.urlencode()}",
        "csv_url": f"{reverse('explore-csv')}?{query.urlencode()}",
        "compare_url": f"{reverse('compare')}?{wish.filter.full_query()}",
        "many": len(scene.visible_lines) > exploration.MAX_PANEL_LINES and not scene.axes.facet,
        "each_url": _address_setting(query, facet=factors.EACH),
        "hidden_fields": [
            (name, value)
            for name in ("hide", "only", "sort")
            for value in query.getlist(name)
            if value
        ],
    }
    return render(request, "charts/explore.html", context, status=400 if scene.errors else 200)


def _latest_campaign(user: Person) -> int | None:
    """The campaign of the newest result that a person's teams measured; None without any."""
    campaigns = Campaign.objects.for_user(user).current()
    rows = Attempt.objects.filter(outcome=Outcome.SUCCEEDED, run__campaign__in=campaigns)
    return rows.order_by("-pk").values_list("run__campaign", flat=True).first()


@require_GET
def explore_figure(request: HttpRequest) -> HttpResponse:
    scene = exploration.read_exploration(request.user, factors.parse_explore_query(request.GET))
    figure = draw.build_explore_figure(scene.chart)
    return figure_response(with_lines_origin(figure, scene.groups))


@require_GET
def numbers_csv(request: HttpRequest) -> HttpResponseBase:
    """One row per run that is drawn, with all that was measured."""
    scene = exploration.read_exploration(request.user, factors.parse_explore_query(request.GET))
    lines_drawn = (*scene.chart.lines, *scene.chart.around)
    drawn = {run for line in lines_drawn for point in line.points for run in point.runs}
    rows = exploration.groups_with(scene.groups, lambda sample: sample.run in drawn)

    def csv_lines() -> Iterator[str]:
        return tables.campaign_csv_lines(fill_values(rows, list(scene.measured)))

    return csv_response(request, csv_lines, "explore.csv")


def _selects(scene: Exploration) -> list[tuple[str, str, SafeString]]:
    """(axis, label, widget) of each choice of the form: parameters, then metrics."""
    axes = scene.axes
    names = metric_naming.order_choices(sorted(scene.measured), "", True)
    parameters = factors.offered_factors(scene.groups)
    metrics = {name: metric_naming.metric_title(name) for name in names if "*" not in name}
    for name in lines.offered_percentiles(scene.measured):
        metrics[name] = f"{lines.quantity(name, {}).word}, percentiles"
    for axis in factors.AXES:
        name = getattr(axes, axis)
        if name and factors.is_factor(name):
            parameters.setdefault(name, factors.factor_word(name))
        elif name and name != factors.EACH:
            metrics.setdefault(name, metric_naming.metric_title(name))
    # a run has several percentiles: no line has one
    looks = {name: word for name, word in parameters.items() if name != factors.PERCENTILE}
    nothing = {axis: [(factors.NONE, word)] for axis, word in NONE_WORDS.items()}
    nothing["facet"].append((factors.EACH, "Each line by itself"))
    selects = []
    for axis, label in AXIS_LABELS.items():
        choices: list[tuple[str, Any]] = [*nothing.get(axis, ())]
        if axis != factors.BESIDE:
            choices.append(("Parameters", [*(parameters if axis in "xy" else looks).items()]))
        if axis not in ("dash", "marker", "facet"):
            choices.append(("Metrics", [*metrics.items()]))
        widget = Select({"id": f"axis-{axis}"}, choices)
        selects.append((axis, label, widget.render(axis, getattr(axes, axis) or factors.NONE)))
    return selects


def _address_setting(query: QueryDict, **values: str) -> str:
    parameters = query.copy()
    for name, value in values.items():
        parameters[name] = value
    return query_address(parameters)


def _presets(scene: Exploration, query: QueryDict) -> list[tuple[str, str, bool]]:
    """Return (words, URL, whether it is shown now) of the presets whose metrics were measured."""
    units, axes, swept = scene.measured, scene.axes, factors.swept_options(scene.groups)
    kinds = metric_naming.LATENCY_KINDS
    latency = _first(factors.FIRST_LATENCY, units)
    kind = _first(kinds, {kind for kind in kinds if f"{kind}.p99" in units})
    tail, ranks = (f"{kind}.p99", f"{kind}.ranks") if kind else ("", "")
    size = next((name for name in swept if name.endswith(("bs", "block_size"))), "")
    presets = (
        ("IOPS over depth", OUTSTANDING, "iops"),
        ("Latency against IOPS", "iops", latency),
        ("p99 over depth", OUTSTANDING, tail),
        ("Percentiles", factors.PERCENTILE, ranks),
        ("CDF", ranks, factors.PERCENTILE),
        ("Depth × block size", OUTSTANDING, size),
    )
    rest = without_parameters(query, *PRESET_PARAMETERS)
    drawable = {*units, *lines.offered_percentiles(units), *factors.FACTOR_WORDS, *swept}
    return [
        (words, _address_setting(rest, x=x, y=y), axes.x == x and axes.y == y)
        for words, x, y in presets
        if {x, y} <= drawable
    ]


def _first(preferred: Iterable[str], among: Container[str]) -> str:
    return next((name for name in preferred if name in among), "")


def _split_link(scene: Exploration, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a panel for each host, topology, ...: the first in which lines differ; or one panel again."""
    if scene.axes.facet:
        if factors.PERCENTILE in (scene.axes.x, scene.axes.y):
            # Without a word many lines are split again.
            return "One panel", _address_setting(query, facet=factors.NONE)
        return "One panel", query_address(without_parameters(query, "facet"))
    for name in ("host", "topology", "campaign", "workload", *factors.swept_options(scene.groups)):
        levels = {line.levels[name].key for line in scene.visible_lines if name in line.levels}
        if 1 < len(levels) <= exploration.MAX_PANEL_LINES:
            words = f"Split by {factors.lower_first(factors.factor_word(name))}"
            return words, _address_setting(query, facet=name)
    return None


def _second_metric_link(scene: Exploration, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a second metric beside the first, over the same axis; or one metric again."""
    axes = scene.axes
    if axes.beside:
        return "One metric", query_address(without_parameters(query, factors.BESIDE))
    if factors.is_factor(axes.y) or axes.x == factors.PERCENTILE:
        return None
    latencies = (f"{k}.{part}" for part in ("p99", "mean") for k in metric_naming.LATENCY_KINDS)
    preferred = (*latencies, *factors.FIRST_RATES)
    other = _first(preferred, scene.measured.keys() - {axes.x, axes.y})
    return ("Split view", _address_setting(query, beside=other)) if other else None


def _condition_links(scene: Exploration, query: QueryDict) -> list[tuple[str, str]]:
    """(condition, the address without it)."""
    links = []
    for condition in scene.query.where:
        rest = query.copy()
        rest.setlist("where", [other for other in scene.query.where if other != condition])
        links.append((condition, query_address(rest)))
    return links


def _difference_names(by_workload: Mapping[int, Differences]) -> dict[str, object]:
    """Names of the conditions that differ, over all charts of the comparison."""
    every = by_workload.values()
    return {
        "compared": list(dict.fromkeys(name for differ in every for name in differ.compared.names)),
        "others": list(dict.fromkeys(name for differ in every for name in differ.others.names)),
        "unstated": any(difference.unstated for difference in every),
    }


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
    # of all lines, where `rows` are fewer
    line_count: int = 0
    # the address with a row for each line
    every_line: str = ""


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
        values = {line: -n if down else n for line, n in numbers.items() if n is not None}
        ordered.sort(key=lambda line: (line.id not in values, values.get(line.id, 0.0)))
    rows = [
        _legend_row(scene, query, line, tuple(text for text, _ in cells[line.id].values()))
        for line in ordered
    ]
    hidden = sum(not row.visible for row in rows)
    all_shown = query_address(without_parameters(query, "hide", "only"))
    shown = rows if query.get(LINES) == ALL else rows[:MOST_LINES]
    return Legend(
        tuple(heads),
        tuple(shown),
        hidden,
        all_shown,
        len(rows) if len(shown) < len(rows) else 0,
        _address_setting(query, **{LINES: ALL}),
    )


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
