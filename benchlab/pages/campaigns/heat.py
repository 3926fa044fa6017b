# SPDX-License-Identifier: Apache-2.0
"""A campaign's matrix as a heat map: a row per host, topology and moment, a column per point, a median in each cell.

What was measured on a layout that was not in order stands in a row of its own, as it is a line of its own in charts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString

from benchlab.analysis.curves import spread
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign
from benchlab.charts import metric_naming, request_params, sparkline
from benchlab.charts.palette import Place, assign_styles
from benchlab.charts.queries import Group
from benchlab.pages.campaigns import heat_cells
from benchlab.pages.campaigns.heat_cells import MetricFigures, Scale, Spot
from benchlab.runs.progress import latest_attempts
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.topologies import moments
from benchlab.web.lists import ALL, LINES, MOST_LINES, query_address, without_parameters
from benchlab.web.texts import natural_key

# of the address: workloads that are folded
FOLD = "fold"
# what a live page asks with, and no link of it
LIVE_PARAMETERS = ("running", "results", "said", "plan")
ANCHOR = "#heat-title"
# columns of the runs that a cell leads to
LIST_COLUMNS = "repeat,visit,outcome,degraded,started_at"
# A live page asks for hundreds of rows time and again, and needs little of each.
RUN_COLUMNS = (
    "pk",
    "stage",
    "point",
    "host_id",
    "host__name",
    "topology_id",
    "topology__name",
    "workload_id",
    "workload__name",
)
# of a column: workload and point
Key = tuple[int, str]
# workload -> its columns, each with one of its runs
Columns = Mapping[int, Mapping[Key, Any]]
# Of a row: what a column shows, of how many points it is the best
CellRow = list[tuple[Spot | None, int]]


@dataclass(frozen=True, slots=True)
class WorkloadSpan:
    """A workload and its columns. `varied`: the one option that tells its points apart, where there is just one.

    `url` folds it, or unfolds it; empty where there is nothing to fold.
    """

    workload: int
    name: str
    varied: str
    heads: tuple[str, ...]
    folded: bool
    url: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    topology: str
    # empty where all rows are of one
    host: str
    # "during growth 1", "not in order"
    moment: str
    cells: list[SafeString]
    # Colour and dash of its lines in charts; None: nothing is measured.
    key: sparkline.LegendKey | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`name`, `title`, `better` and the scale are empty while nothing is measured."""

    name: str
    title: str
    better: str
    low: str
    high: str
    # whether a cell is marked
    shaky: bool
    # the only one
    host: str
    # of metrics that may be chosen
    tabs: list[dict[str, object]]
    spans: list[WorkloadSpan]
    rows: list[HeatRow]
    # number of all rows, where some are left out
    row_count: int = 0
    # address of the page with all rows
    every_row: str = ""

    @property
    def heads(self) -> Iterator[tuple[str, str]]:
        """(option, value) of each column."""
        for span in self.spans:
            yield from (("" if span.folded else span.varied, head) for head in span.heads)


@dataclass(slots=True)
class RunLine:
    """A row that is being made: its runs by column, then what its columns show."""

    host: str
    topology: str
    stage: str
    layout: tuple[int, int]
    degraded: bool
    runs: dict[Key, list[Any]] = field(default_factory=lambda: defaultdict(list))
    cells: CellRow = field(default_factory=list)

    @property
    def rank(self) -> tuple[Any, ...]:
        """The natural order of names, then the order of time."""
        return (
            natural_key(self.host.lower()),
            natural_key(self.topology.lower()),
            self.layout,
            moments.parse_moment(self.stage).time_order,
            self.degraded,
        )


def build_heat_map(campaign: Campaign, groups: Sequence[Group], query: QueryDict) -> HeatMap:
    """`groups`: the campaign's lines with the metrics of `heat_cells.metric_names`. It takes two queries.

    Raises BadRequest for an address that nobody can understand.
    """
    choices, requested = heat_cells.metric_choices(groups), heat_cells.requested_metric(query)
    figures = heat_cells.metric_figures(
        groups, requested if requested in choices else next(iter(choices), "")
    )
    runs = list(campaign.runs.order_by("position").values_list(*RUN_COLUMNS, named=True))
    columns, lines = _sort_columns(runs), _collect_lines(runs, figures)
    # One column is no wider than its fold.
    folded = {
        pk for pk in request_params.id_parameters(query, FOLD) if len(columns.get(pk, ())) > 1
    }
    _fill_cells(campaign, lines, columns, folded, figures)
    spots = [spot for line in lines for spot, _ in line.cells if spot]
    scale = Scale.from_spots(figures.name, figures.unit, spots)
    one_host = len({line.host for line in lines}) == 1
    rest = without_parameters(query, *LIVE_PARAMETERS)
    lower = figures.lower_is_better
    shown = lines if query.get(LINES) == ALL else lines[:MOST_LINES]
    return HeatMap(
        name=figures.name,
        title=metric_naming.metric_title(figures.name),
        better="" if lower is None else f"{'lower' if lower else 'higher'} is better",
        low=scale.with_unit(scale.low),
        high=scale.with_unit(scale.high),
        shaky=any(spot.differ for spot in spots),
        host=lines[0].host if one_host else "",
        tabs=[
            {
                "name": name,
                "words": words,
                "url": _heat_address(rest, heat_cells.HEAT, [name]),
                "chosen": name == figures.name,
            }
            for name, words in choices.items()
        ],
        spans=[_workload_span(rest, pk, some, pk in folded) for pk, some in columns.items()],
        rows=_heat_rows(lines, len(shown), scale, one_host, _legend_keys(groups)),
        row_count=len(lines) if len(shown) < len(lines) else 0,
        every_row=_heat_address(rest, LINES, [ALL]),
    )


def _heat_address(rest: QueryDict, name: str, values: list[str]) -> str:
    query = rest.copy()
    query.setlist(name, values)
    return query_address(query) + ANCHOR


def _sort_columns(runs: Iterable[Any]) -> Columns:
    """Return the columns in the order of names and of values, however the runs were shuffled."""

    def column_rank(item: tuple[Key, Any]) -> tuple[Any, ...]:
        run = item[1]
        name = natural_key(run.workload__name.lower())
        return name, run.workload_id, matrix.point_rank(run.point)

    by_key = {_column_key(run): run for run in runs}
    columns: dict[int, dict[Key, Any]] = defaultdict(dict)
    for key, run in sorted(by_key.items(), key=column_rank):
        columns[run.workload_id][key] = run
    return columns


def _column_key(run: Any) -> Key:
    return run.workload_id, matrix.json_key(run.point)


def _collect_lines(runs: Iterable[Any], figures: MetricFigures) -> list[RunLine]:
    lines: dict[tuple[Any, ...], RunLine] = {}
    for run in runs:
        layout, bad = (run.host_id, run.topology_id), run.pk in figures.degraded
        new = RunLine(run.host__name, run.topology__name, run.stage, layout, bad)
        lines.setdefault((*layout, run.stage, bad), new).runs[_column_key(run)].append(run)
    return sorted(lines.values(), key=lambda line: line.rank)


def _fill_cells(
    campaign: Campaign,
    lines: Iterable[RunLine],
    columns: Columns,
    folded: Collection[int],
    figures: MetricFigures,
) -> None:
    latest = latest_attempts().filter(run__campaign=campaign).order_by()
    states = {run: end or at for run, end, at in latest.values_list("run_id", "outcome", "phase")}
    for line in lines:
        spots = {
            key: _point_spot(campaign, runs, figures, states) for key, runs in line.runs.items()
        }
        for pk, some in columns.items():
            if pk in folded:
                existing = [spots[key] for key in some if key in spots]
                best = heat_cells.best_spot(existing, bool(figures.lower_is_better))
                line.cells.append((best, len(some)))
            else:
                line.cells += [(spots.get(key), 0) for key in some]


def _point_spot(
    campaign: Campaign, runs: Sequence[Any], figures: MetricFigures, states: Mapping[int, str]
) -> Spot:
    values = [figures.values[run.pk] for run in runs if run.pk in figures.values]
    rest = Counter[str]()
    for run in runs:
        state = str(states.get(run.pk, AttemptPhase.QUEUED))
        if run.pk in figures.measured or state == Outcome.SUCCEEDED:
            state = heat_cells.NOT_REPORTED
        if run.pk not in figures.values:
            rest[state] += 1
    return Spot(
        spread(values) if values else None,
        next((figures.differ[run.pk] for run in runs if run.pk in figures.differ), None),
        rest,
        _runs_address(campaign, runs, figures.name),
        matrix.describe_point(runs[0].point),
    )


def _runs_address(campaign: Campaign, runs: Sequence[Any], name: str) -> str:
    """Return the address of the run, or of the table of the point's runs."""
    first = runs[0]
    if len(runs) == 1:
        return reverse("run-detail", args=[first.pk])
    parameters = {
        "campaign_id": campaign.pk,
        "host_id": first.host_id,
        "topology_id": first.topology_id,
        "workload_id": first.workload_id,
        "stage": first.stage,
        "point": json.dumps(first.point, ensure_ascii=False),
        "fields": f"{LIST_COLUMNS},metric.{name}" if name else LIST_COLUMNS,
        "ordering": "repeat",
    }
    if campaign.source == Campaign.Source.LIBRARY:
        parameters["library"] = "true"
    return f"{reverse('run-list')}?{urlencode(parameters)}"


def _legend_keys(groups: Sequence[Group]) -> dict[tuple[int, int], sparkline.LegendKey]:
    """Return the legend keys by host and topology, without the marker that shows other differences in a chart."""
    return {
        (line.host, line.topology): replace(
            sparkline.legend_key(assign_styles([Place(*line.style_places)])[0]), mark=""
        )
        for line in groups
        if line.style_places
    }


def _heat_rows(
    lines: Sequence[RunLine],
    most: int,
    scale: Scale,
    one_host: bool,
    keys: Mapping[tuple[int, int], sparkline.LegendKey],
) -> list[HeatRow]:
    beside: dict[tuple[int, int], set[str]] = defaultdict(set)
    for line in lines:
        beside[line.layout].add(line.stage)
    rows = []
    for line in lines[:most]:
        moment = moments.describe_moment(line.stage, beside[line.layout])
        parts = (moment, "not in order" * line.degraded)
        cells = [heat_cells.cell_html(spot, scale, of) for spot, of in line.cells]
        host = "" if one_host else line.host
        text = ", ".join(filter(None, parts))
        rows.append(HeatRow(line.topology, host, text, cells, keys.get(line.layout)))
    return rows


def _workload_span(
    rest: QueryDict, workload: int, columns: Mapping[Key, Any], shut: bool
) -> WorkloadSpan:
    runs = list(columns.values())
    options = {tuple(run.point) for run in runs}
    only = next(iter(options))[0] if [len(some) for some in options] == [1] else ""
    heads = [
        matrix.format_value(only, r.point[only]) if only else matrix.describe_point(r.point)
        for r in runs
    ]
    # The link has it the other way round than it is.
    key, now = str(workload), rest.getlist(FOLD)
    turned = [pk for pk in now if pk != key] if key in now else [*now, key]
    return WorkloadSpan(
        workload,
        runs[0].workload__name,
        only.replace("_", " "),
        (f"best of {len(runs)}",) if shut else tuple(head or "–" for head in heads),
        shut,
        _heat_address(rest, FOLD, turned) if len(runs) > 1 else "",
    )
