# SPDX-License-Identifier: Apache-2.0
"""The page Explore, its figure, and the runs behind it as CSV."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from django.forms import Select
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from benchlab.charts import compare, metric_naming, tables
from benchlab.charts.conditions import Differences, line_differences
from benchlab.charts.downloads import csv_response
from benchlab.charts.explore import draw, exploration, factors, legend, lines
from benchlab.charts.explore import query as wishes
from benchlab.charts.explore.exploration import Exploration
from benchlab.charts.figure_views import figure_response, with_lines_origin
from benchlab.charts.queries import OUTSTANDING, fill_values
from benchlab.web.lists import query_address, without_parameters

# lines that one panel still tells apart
MAX_PANEL_LINES = 12
AXIS_LABELS = {
    "x": "Across",
    "y": "Up",
    wishes.BESIDE: "Beside it",
    "colour": "Colour",
    "dash": "Dash",
    "marker": "Marker",
    "facet": "Facet",
}
NONE_WORDS = {
    wishes.BESIDE: "Nothing",
    "colour": "One colour",
    "dash": "Solid",
    "marker": "As the colour",
    "facet": "One panel",
}
# What a preset sets anew.
PRESET_PARAMETERS = (*wishes.AXES, "logx", "logy")


@require_GET
def explore(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2&x=iops&y=lat.mean&colour=topology&dash=host&facet=line&where=oio <= 16 and so on."""
    wish = wishes.parse_explore_query(request.GET)
    scene = exploration.read_exploration(request.user, wish)
    query = request.GET
    heads, numbers = legend.point_rows(scene) if scene.lines else ([], [])
    context: dict[str, Any] = {
        **compare.line_choices(request, wish.filter, scene.all_groups),
        "wanted": wish.filter,
        "scene": scene,
        "chart": scene.chart,
        "selects": _selects(scene),
        "logs": wish.log_axes(scene.axes),
        "legend": legend.build_legend(scene, query),
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
        "many": len(scene.visible_lines) > MAX_PANEL_LINES and not scene.axes.facet,
        "each_url": _address_setting(query, facet=wishes.EACH),
        "hidden_fields": [
            (name, value)
            for name in ("hide", "only", "sort")
            for value in query.getlist(name)
            if value
        ],
    }
    return render(request, "charts/explore.html", context, status=400 if scene.errors else 200)


@require_GET
def explore_figure(request: HttpRequest) -> HttpResponse:
    scene = exploration.read_exploration(request.user, wishes.parse_explore_query(request.GET))
    figure = draw.build_explore_figure(scene.chart)
    return figure_response(with_lines_origin(figure, scene.groups))


@require_GET
def numbers_csv(request: HttpRequest) -> HttpResponseBase:
    """One row per run that is drawn, with all that was measured."""
    scene = exploration.read_exploration(request.user, wishes.parse_explore_query(request.GET))
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
    for axis in wishes.AXES:
        name = getattr(axes, axis)
        if name and factors.is_factor(name):
            parameters.setdefault(name, factors.factor_word(name))
        elif name and name != wishes.EACH:
            metrics.setdefault(name, metric_naming.metric_title(name))
    # a run has several percentiles: no line has one
    looks = {name: word for name, word in parameters.items() if name != factors.PERCENTILE}
    nothing = {axis: [(wishes.NONE, word)] for axis, word in NONE_WORDS.items()}
    nothing["facet"].append((wishes.EACH, "Each line by itself"))
    selects = []
    for axis, label in AXIS_LABELS.items():
        choices: list[tuple[str, Any]] = [*nothing.get(axis, ())]
        if axis != wishes.BESIDE:
            choices.append(("Parameters", [*(parameters if axis in "xy" else looks).items()]))
        if axis not in ("dash", "marker", "facet"):
            choices.append(("Metrics", [*metrics.items()]))
        widget = Select({"id": f"axis-{axis}"}, choices)
        selects.append((axis, label, widget.render(axis, getattr(axes, axis) or wishes.NONE)))
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
    latency = _first(wishes.FIRST_LATENCY, units)
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
        return "One panel", query_address(without_parameters(query, "facet"))
    for name in ("host", "topology", "campaign", "workload", *factors.swept_options(scene.groups)):
        levels = {line.levels[name].key for line in scene.visible_lines if name in line.levels}
        if 1 < len(levels) <= MAX_PANEL_LINES:
            words = f"Split by {factors.lower_first(factors.factor_word(name))}"
            return words, _address_setting(query, facet=name)
    return None


def _second_metric_link(scene: Exploration, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a second metric beside the first, over the same axis; or one metric again."""
    axes = scene.axes
    if axes.beside:
        return "One metric", query_address(without_parameters(query, wishes.BESIDE))
    if factors.is_factor(axes.y) or axes.x == factors.PERCENTILE:
        return None
    latencies = (f"{k}.{part}" for part in ("p99", "mean") for k in metric_naming.LATENCY_KINDS)
    preferred = (*latencies, *wishes.FIRST_RATES)
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
