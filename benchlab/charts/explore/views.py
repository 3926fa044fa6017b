# SPDX-License-Identifier: Apache-2.0
"""The page Explore, its figure, and the runs behind it as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.charts import chosen_lines, naming, tables
from benchlab.charts.conditions import Differences, line_differences
from benchlab.charts.downloads import csv_response
from benchlab.charts.explore import draw, exploration, factors, legend, lines
from benchlab.charts.explore import query as wishes
from benchlab.charts.explore.exploration import Exploration
from benchlab.charts.figure import figure_json
from benchlab.charts.origins import with_lines_origin
from benchlab.charts.queries import OUTSTANDING, Group, fill_values
from benchlab.web.lists import query_address, without_parameters

# lines that one panel still tells apart
MAX_PANEL_LINES = 12
# What a preset sets anew.
PRESET_PARAMETERS = (*wishes.AXES, "logx", "logy")


@dataclass(frozen=True, slots=True)
class Option:
    value: str
    words: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Select:
    """A choice of the form: parameters, then metrics. `first`: those of no group."""

    name: str
    label: str
    first: tuple[Option, ...]
    parameters: tuple[Option, ...]
    metrics: tuple[Option, ...] = ()


@require_GET
def explore(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2&x=iops&y=lat.mean&colour=topology&dash=host&facet=line&where=oio <= 16 and so on."""
    wish = wishes.parse_explore_query(request.GET)
    found = exploration.read_exploration(request.user, wish)
    query = request.GET
    heads, numbers = legend.point_rows(found) if found.lines else ([], [])
    context: dict[str, Any] = {
        **chosen_lines.line_choices(request, wish.filter, found.all_groups),
        "wanted": wish.filter,
        "scene": found,
        "chart": found.chart,
        "selects": _selects(found),
        "logs": wish.log_axes(found.axes),
        "legend": legend.build_legend(found, query),
        "presets": _presets(found, query),
        "split": _split_link(found, query),
        "beside": _second_metric_link(found, query),
        "conditions": _condition_links(found, query),
        "runs": sum(len(group.samples) for group in found.groups),
        "of_runs": sum(len(group.samples) for group in found.all_groups),
        "numbers": numbers,
        "number_heads": heads,
        "differs": _difference_names(line_differences(request.user, found.groups))
        if found.groups
        else None,
        "figure_url": f"{reverse('explore-figure')}?{query.urlencode()}",
        "csv_url": f"{reverse('explore-csv')}?{query.urlencode()}",
        "compare_url": f"{reverse('compare')}?{wish.filter.full_query()}",
        "many": len(found.visible_lines) > MAX_PANEL_LINES and not found.axes.facet,
        "each_url": _address_setting(query, facet=wishes.EACH),
        "hidden_fields": [
            (name, one) for name in ("hide", "only", "sort") for one in query.getlist(name) if one
        ],
    }
    return render(request, "charts/explore.html", context, status=400 if found.errors else 200)


@require_GET
def explore_figure(request: HttpRequest) -> HttpResponse:
    found = exploration.read_exploration(request.user, wishes.parse_explore_query(request.GET))
    answer = HttpResponse(
        figure_json(with_lines_origin(draw.build_explore_figure(found.chart), list(found.groups))),
        content_type="application/json",
    )
    answer["Cache-Control"] = "no-cache"
    return answer


@require_GET
def numbers_csv(request: HttpRequest) -> HttpResponseBase:
    """One row per run that is drawn, with all that was measured."""
    found = exploration.read_exploration(request.user, wishes.parse_explore_query(request.GET))
    lines_drawn = (*found.chart.lines, *found.chart.around)
    drawn = {run for line in lines_drawn for point in line.points for run in point.runs}
    rows = _with_runs(found.groups, drawn)

    def csv_lines() -> Iterator[str]:
        return tables.campaign_csv_lines(fill_values(rows, list(found.measured)))

    return csv_response(request, csv_lines, "explore.csv")


def _with_runs(groups: Iterable[Group], runs: set[int]) -> list[Group]:
    kept = (
        replace(group, samples=tuple(one for one in group.samples if one.run in runs))
        for group in groups
    )
    return [group for group in kept if group.samples]


def _selects(found: Exploration) -> list[Select]:
    axes = found.axes
    parameters = factors.offered_factors(found.groups)
    names = naming.order_choices(sorted(found.measured), "", True)
    metrics = {name: naming.metric_title(name) for name in names if "*" not in name}
    ranked = lines.offered_percentiles(found.measured)
    metrics |= {one: f"{lines.quantity(one, {}).word}, percentiles" for one in ranked}
    for name in (axes.x, axes.y, axes.beside, axes.colour, axes.dash, axes.marker, axes.facet):
        if name and factors.is_factor(name):
            parameters.setdefault(name, factors.factor_word(name))
        elif name and name != wishes.EACH:
            metrics.setdefault(name, naming.metric_title(name))

    def select(
        name: str,
        label: str,
        *,
        measured: bool,
        none: str = "",
        each: bool = False,
        factor: bool = True,
    ) -> Select:
        now = getattr(axes, name)
        first = [Option(wishes.NONE, none, not now)] if none else []
        first += [Option(wishes.EACH, "Each line by itself", now == wishes.EACH)] * each
        return Select(
            name,
            label,
            tuple(first),
            tuple(
                Option(one, word, one == now)
                for one, word in parameters.items()
                if factor and (one != factors.PERCENTILE or name in "xy")
            ),
            tuple(Option(one, word, one == now) for one, word in metrics.items())
            if measured
            else (),
        )

    return [
        select("x", "Across", measured=True),
        select("y", "Up", measured=True),
        select(wishes.BESIDE, "Beside it", measured=True, none="Nothing", factor=False),
        select("colour", "Colour", measured=True, none="One colour"),
        select("dash", "Dash", measured=False, none="Solid"),
        select("marker", "Marker", measured=False, none="As the colour"),
        select("facet", "Facet", measured=False, none="One panel", each=True),
    ]


def _address_setting(query: QueryDict, **values: str) -> str:
    made = query.copy()
    for name, value in values.items():
        made[name] = value
    return query_address(made)


def _presets(found: Exploration, query: QueryDict) -> list[tuple[str, str, bool]]:
    """(words, address, whether it is what is shown), of those whose metrics were measured."""
    units, axes = found.measured, found.axes
    latency = next((name for name in wishes.FIRST_LATENCY if name in units), "")
    tail = next((f"{k}.p99" for k in naming.LATENCY_KINDS if f"{k}.p99" in units), "")
    wanted = [
        ("IOPS over depth", OUTSTANDING, "iops"),
        ("Latency against IOPS", "iops", latency),
        ("p99 over depth", OUTSTANDING, tail),
    ]
    ranks = next((f"{kind}.ranks" for kind in naming.LATENCY_KINDS if f"{kind}.p99" in units), "")
    wanted += [("Percentiles", factors.PERCENTILE, ranks), ("CDF", ranks, factors.PERCENTILE)]
    size = next(
        (one for one in factors.swept_options(found.groups) if one.endswith(("bs", "block_size"))),
        "",
    )
    wanted += [("Depth × block size", OUTSTANDING, size)] * bool(size)
    rest = without_parameters(query, *PRESET_PARAMETERS)
    known = {
        *units,
        *lines.offered_percentiles(units),
        *factors.FACTOR_WORDS,
        *factors.swept_options(found.groups),
    }
    return [
        (words, _address_setting(rest, x=x, y=y), axes.x == x and axes.y == y)
        for words, x, y in wanted
        if x and y and {x, y} <= known
    ]


def _split_link(found: Exploration, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a panel for each host, topology, ...: the first in which lines differ; or one panel again."""
    if found.axes.facet:
        return "One panel", query_address(without_parameters(query, "facet"))
    for name in ("host", "topology", "campaign", "workload", *factors.swept_options(found.groups)):
        levels = {line.levels[name].key for line in found.visible_lines if name in line.levels}
        if 1 < len(levels) <= MAX_PANEL_LINES:
            return f"Split by {factors.lower_first(factors.factor_word(name))}", _address_setting(
                query, facet=name
            )
    return None


def _second_metric_link(found: Exploration, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a second metric beside the first, over the same axis; or one metric again."""
    axes, units = found.axes, found.measured
    if axes.beside:
        return "One metric", query_address(without_parameters(query, wishes.BESIDE))
    if factors.is_factor(axes.y) or axes.x == factors.PERCENTILE:
        return None
    latencies = (f"{kind}.{one}" for one in ("p99", "mean") for kind in naming.LATENCY_KINDS)
    wanted = (*latencies, *wishes.FIRST_RATES)
    other = next((one for one in wanted if one in units and one not in (axes.x, axes.y)), "")
    return ("Split view", _address_setting(query, beside=other)) if other else None


def _condition_links(found: Exploration, query: QueryDict) -> list[tuple[str, str]]:
    """(condition, the address without it)."""
    made = []
    for one in found.query.where:
        rest = query.copy()
        rest.setlist("where", [other for other in found.query.where if other != one])
        made.append((one, query_address(rest)))
    return made


@dataclass(frozen=True, slots=True)
class DifferenceNames:
    """Names of conditions, over all charts of what is compared."""

    compared: tuple[str, ...]
    others: tuple[str, ...]
    unstated: bool


def _difference_names(found: dict[int, Differences]) -> DifferenceNames:
    every = found.values()
    return DifferenceNames(
        tuple(dict.fromkeys(name for one in every for name in one.compared.names)),
        tuple(dict.fromkeys(name for one in every for name in one.others.names)),
        any(one.unstated for one in every),
    )
