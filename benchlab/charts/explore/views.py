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
from benchlab.charts.conditions import Differences, differences
from benchlab.charts.downloads import csv_file
from benchlab.charts.explore import draw, factors, legend, lines, scene
from benchlab.charts.explore import wish as wishes
from benchlab.charts.explore.scene import Scene
from benchlab.charts.figure import dumped
from benchlab.charts.origins import of_lines
from benchlab.charts.queries import OUTSTANDING, Group, filled
from benchlab.web.lists import address, without

# lines that one panel still tells apart
MANY = 12
# What a preset sets anew.
AXES = (*wishes.AXES, "logx", "logy")


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
    wish = wishes.read(request.GET)
    found = scene.read(request.user, wish)
    query = request.GET
    heads, numbers = legend.numbers(found) if found.lines else ([], [])
    context: dict[str, Any] = {
        **chosen_lines.offered(request, wish.lines, found.every),
        "wanted": wish.lines,
        "scene": found,
        "chart": found.chart,
        "selects": _selects(found),
        "logs": wish.log(found.axes),
        "legend": legend.build(found, query),
        "presets": _presets(found, query),
        "split": _split(found, query),
        "beside": _beside(found, query),
        "conditions": _conditions(found, query),
        "runs": sum(len(group.samples) for group in found.kept),
        "of_runs": sum(len(group.samples) for group in found.every),
        "numbers": numbers,
        "number_heads": heads,
        "differs": _differs(differences(request.user, found.kept)) if found.kept else None,
        "figure_url": f"{reverse('explore-figure')}?{query.urlencode()}",
        "csv_url": f"{reverse('explore-csv')}?{query.urlencode()}",
        "compare_url": f"{reverse('compare')}?{wish.lines.whole()}",
        "many": len(found.shown) > MANY and not found.axes.facet,
        "each_url": _set(query, facet=wishes.EACH),
        "hidden_fields": [
            (name, one) for name in ("hide", "only", "sort") for one in query.getlist(name) if one
        ],
    }
    return render(request, "charts/explore.html", context, status=400 if found.errors else 200)


@require_GET
def figure(request: HttpRequest) -> HttpResponse:
    found = scene.read(request.user, wishes.read(request.GET))
    answer = HttpResponse(
        dumped(of_lines(draw.build(found.chart), list(found.kept))), content_type="application/json"
    )
    answer["Cache-Control"] = "no-cache"
    return answer


@require_GET
def numbers_csv(request: HttpRequest) -> HttpResponseBase:
    """One row per run that is drawn, with all that was measured."""
    found = scene.read(request.user, wishes.read(request.GET))
    lines_drawn = (*found.chart.lines, *found.chart.around)
    drawn = {run for line in lines_drawn for point in line.points for run in point.runs}
    rows = _only(found.kept, drawn)

    def made() -> Iterator[str]:
        return tables.campaign_csv(filled(rows, list(found.measured)))

    return csv_file(request, made, "explore.csv")


def _only(groups: Iterable[Group], runs: set[int]) -> list[Group]:
    kept = (
        replace(group, samples=tuple(one for one in group.samples if one.run in runs))
        for group in groups
    )
    return [group for group in kept if group.samples]


def _selects(found: Scene) -> list[Select]:
    axes = found.axes
    parameters = factors.offered(found.kept)
    names = naming.ordered(sorted(found.measured), "", True)
    metrics = {name: naming.title(name) for name in names if "*" not in name}
    ranked = lines.offered_ranks(found.measured)
    metrics |= {one: f"{lines.quantity(one, {}).word}, percentiles" for one in ranked}
    for name in (axes.x, axes.y, axes.beside, axes.colour, axes.dash, axes.marker, axes.facet):
        if name and factors.is_factor(name):
            parameters.setdefault(name, factors.word(name))
        elif name and name != wishes.EACH:
            metrics.setdefault(name, naming.title(name))

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
                if factor and (one != factors.RANK or name in "xy")
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


def _set(query: QueryDict, **values: str) -> str:
    made = query.copy()
    for name, value in values.items():
        made[name] = value
    return address(made)


def _presets(found: Scene, query: QueryDict) -> list[tuple[str, str, bool]]:
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
    wanted += [("Percentiles", factors.RANK, ranks), ("CDF", ranks, factors.RANK)]
    size = next(
        (one for one in factors.swept(found.kept) if one.endswith(("bs", "block_size"))), ""
    )
    wanted += [("Depth × block size", OUTSTANDING, size)] * bool(size)
    rest = without(query, *AXES)
    known = {*units, *lines.offered_ranks(units), *factors.WORDS, *factors.swept(found.kept)}
    return [
        (words, _set(rest, x=x, y=y), axes.x == x and axes.y == y)
        for words, x, y in wanted
        if x and y and {x, y} <= known
    ]


def _split(found: Scene, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a panel for each host, topology, ...: the first in which lines differ; or one panel again."""
    if found.axes.facet:
        return "One panel", address(without(query, "facet"))
    for name in ("host", "topology", "campaign", "workload", *factors.swept(found.kept)):
        levels = {line.levels[name].key for line in found.shown if name in line.levels}
        if 1 < len(levels) <= MANY:
            return f"Split by {factors.inside(factors.word(name))}", _set(query, facet=name)
    return None


def _beside(found: Scene, query: QueryDict) -> tuple[str, str] | None:
    """(words, address): a second metric beside the first, over the same axis; or one metric again."""
    axes, units = found.axes, found.measured
    if axes.beside:
        return "One metric", address(without(query, wishes.BESIDE))
    if factors.is_factor(axes.y) or axes.x == factors.RANK:
        return None
    latencies = (f"{kind}.{one}" for one in ("p99", "mean") for kind in naming.LATENCY_KINDS)
    wanted = (*latencies, *wishes.FIRST_UP)
    other = next((one for one in wanted if one in units and one not in (axes.x, axes.y)), "")
    return ("Split view", _set(query, beside=other)) if other else None


def _conditions(found: Scene, query: QueryDict) -> list[tuple[str, str]]:
    """(condition, the address without it)."""
    made = []
    for one in found.wish.where:
        rest = query.copy()
        rest.setlist("where", [other for other in found.wish.where if other != one])
        made.append((one, address(rest)))
    return made


@dataclass(frozen=True, slots=True)
class Differs:
    """Names of conditions, over all charts of what is compared."""

    compared: tuple[str, ...]
    others: tuple[str, ...]
    untold: bool


def _differs(found: dict[int, Differences]) -> Differs:
    every = found.values()
    return Differs(
        tuple(dict.fromkeys(name for one in every for name in one.compared.names)),
        tuple(dict.fromkeys(name for one in every for name in one.others.names)),
        any(one.untold for one in every),
    )
