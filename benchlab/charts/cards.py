# SPDX-License-Identifier: Apache-2.0
"""A chart on a page: where its figure comes from, what may be chosen, and the same numbers as a table.

Parts of pages for a single tool are in the modules `run_part` and `tool_files` of the room that owns the tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict
from django.urls import reverse

from benchlab import app_modules
from benchlab.analysis.curves import common_factor
from benchlab.analysis.devices import FullStation
from benchlab.charts import device_work, latency_figures, metric_naming, request_params
from benchlab.charts.conditions import Differences, repeat_differences
from benchlab.charts.line_analysis import (
    DRAWINGS,
    Choice,
    curve_answer,
    curve_answer_text,
    group_by_work,
    has_depth_rows,
)
from benchlab.charts.metric_naming import METRICS
from benchlab.charts.queries import Group, Identity, Person, line_labels, read_groups
from benchlab.charts.tables import CurvePoint, MetricRow, curve_points, latency_columns, metric_rows
from benchlab.findings.models import Finding
from benchlab.runs.models import Attempt, Measurement
from benchlab.topologies import moments
from benchlab.web.lists import MOST_LINES

# the finding that states it about a whole workload
DISAGREEING_REPEATS = "repeats_disagree"


@dataclass(frozen=True, slots=True)
class Card:
    """The chart of a workload, or of several that did the same. `metrics`, `operations`: only what was measured."""

    workloads: tuple[int, ...]
    title: str
    figure_url: str
    csv_url: str
    tool: str
    swept: bool
    metrics: tuple[str, ...]
    operations: tuple[str, ...]
    lines: int
    points: tuple[CurvePoint, ...]
    # latencies of those points
    columns: tuple[str, ...]
    # of `metrics`: what is shown first
    chosen_metric: str
    # (value, words) of those that were measured
    moments: tuple[tuple[str, str], ...] = ()
    # the only one shown; "" for all
    moment: str = ""
    # what the page was asked for, to be asked for again
    hidden_fields: tuple[tuple[str, str], ...] = ()
    # of the lines, above the columns of `rows`
    names: tuple[str, ...] = ()
    runs: tuple[tuple[int, ...], ...] = ()
    # every metric, where `points` would leave out most
    rows: tuple[MetricRow, ...] = ()
    # (line, what is known of it as a whole)
    knees: tuple[tuple[str, str], ...] = ()
    # (line, its deepest point, what is full there)
    full_stations: tuple[tuple[str, int, str], ...] = ()
    # between its lines' conditions, where they are compared
    differences: Differences | None = None
    # (?against=, words) of its CDFs of latencies
    cdf_choices: tuple[tuple[str, str], ...] = ()
    # whether a finding of the page tells that repeats differ
    has_repeat_finding: bool = False

    @property
    def first_points(self) -> tuple[CurvePoint, ...]:
        """The points of the first MOST_LINES lines, in the order of the legend."""
        labels = set([*dict.fromkeys(point.label for point in self.points)][:MOST_LINES])
        return tuple(point for point in self.points if point.label in labels)

    @property
    def dom_id(self) -> str:
        """Its DOM id. A live page keeps what has the same id: bars and curves have each their own."""
        return card_dom_id(self.workloads[0], self.swept)

    @property
    def tool_files(self) -> dict[str, str]:
        """Files of the campaign's runs of its tool: the URL's name -> the link's words."""
        return campaign_files(self.tool)

    @property
    def main_choices(self) -> list[tuple[str, str]]:
        """The most important choices, with their words."""
        return _metric_choices(metric for metric in self.metrics if _is_main(metric))

    @property
    def other_choices(self) -> list[tuple[str, str]]:
        return _metric_choices(metric for metric in self.metrics if not _is_main(metric))

    @property
    def latency_choices(self) -> list[tuple[str, str]]:
        """Choices of the latencies that were measured: (?latency=, words), what is shown first first."""
        choices = []
        for kind, word in metric_naming.LATENCY_KINDS.items():
            statistics = [c.partition(".")[2] for c in self.columns if c.startswith(f"{kind}.")]
            few = Choice().drawn_statistics(self.lines, statistics)
            if few:
                choices.append((kind, f"{word}: {', '.join(few)}"))
            if len(statistics) > 1:
                if len(few) < len(statistics):
                    choices.append((f"{kind}.all", f"{word}: {', '.join(statistics)}"))
                choices += [
                    (f"{kind}.{statistic}", f"{word}: {statistic}") for statistic in statistics
                ]
        return choices

    @property
    def drawing_choices(self) -> list[tuple[str, str]]:
        """Choices of the chart's x axis: (?against=, words); [] if there is no choice."""
        first = ("", DRAWINGS[""] if self.swept else "as bars")
        curve = self.swept and self.latency_choices and "iops" in self.metrics
        others = [*([("latency", DRAWINGS["latency"])] if curve else []), *self.cdf_choices]
        return [first, *others] if others else []

    @property
    def latency_heads(self) -> list[str]:
        """Headings of the table's latency columns: "lat mean", "clat p99"."""
        return [column.replace(".", " ", 1) for column in self.columns]

    @property
    def workers(self) -> int | None:
        """The whole multiple of the configured depth that was in flight, if it is the same at all points; else None."""
        checked = [point.little for point in self.points if point.little]
        return common_factor(checked) if len(checked) == len(self.points) else None

    @property
    def differing_points(self) -> list[tuple[str, float]]:
        """(where, largest over smallest repeat) of the points whose repeats differ more than noise explains."""
        if self.rows:
            cells = [
                (f"{n}, {r.title}", ratio)
                for r in self.rows
                for n, ratio in zip(self.names, r.repeat_ratios, strict=True)
            ]
        else:
            cells = [
                (f"{p.label} at {p.outstanding}" if self.swept else p.label, p.repeat_ratio)
                for p in self.points
            ]
        return [(where, ratio) for where, ratio in cells if ratio]


def _metric_choices(metrics: Iterable[str]) -> list[tuple[str, str]]:
    return [(metric, metric_naming.metric_word(metric)) for metric in metrics]


def _is_main(metric: str) -> bool:
    first = chain.from_iterable(metric_naming.FIRST_METRICS.values())
    return metric in METRICS or "*" in metric or metric in first


def card_dom_id(workload: int, swept: bool) -> str:
    return f"chart-{workload}{'' if swept else '-bars'}"


def campaign_dom_ids(groups: Sequence[Group], query: QueryDict) -> list[str]:
    """Return the DOM ids of these lines' `campaign_cards`. Reads no numbers, since a live page asks at each change."""
    line_filter = request_params.Filter(moment=request_params.requested_moment(query))
    cards = [
        (every[0].workload, _lines_at_moment(every, line_filter)[2])
        for every in group_by_work(groups)
    ]
    return [card_dom_id(workload, any(line.swept for line in lines)) for workload, lines in cards]


def campaign_cards(
    user: Person,
    campaign: int,
    query: QueryDict | None = None,
    lines: Sequence[Group] | None = None,
) -> list[Card]:
    """Build a card per workload with results. Two queries, more if repeats were not measured alike
    or differ, and two if lines reach past their knees.

    `query` is the page's: its ?metric= and ?moment= are shown where they were measured. `lines`: all of the campaign's,
    where the page has read them already.
    """
    parameters = QueryDict() if query is None else query
    groups = read_groups(user, [campaign]) if lines is None else lines
    unmarked = build_cards(
        groups,
        reverse("campaign-figure", args=[campaign]),
        reverse("campaign-csv", args=[campaign]),
        request_params.Filter(moment=request_params.requested_moment(parameters)),
        request_params.requested_metric(parameters),
    )
    return _mark_repeat_findings(
        campaign, with_differences(unmarked, repeat_differences(user, groups))
    )


def _mark_repeat_findings(campaign: int, cards_made: list[Card]) -> list[Card]:
    """Mark the cards whose differing repeats a finding already reports. One query if any repeats differ."""
    if not any(card.differing_points for card in cards_made):
        return cards_made
    findings = Finding.objects.filter(campaign=campaign, kind=DISAGREEING_REPEATS, stands=True)
    workloads = set(findings.values_list("workload", flat=True))
    return [
        replace(card, has_repeat_finding=not workloads.isdisjoint(card.workloads))
        for card in cards_made
    ]


def with_differences(cards: Iterable[Card], differences: Mapping[int, Differences]) -> list[Card]:
    """Add the differences between a card's lines: {workload: its differences}."""
    return [
        replace(
            card,
            differences=next((differences[w] for w in card.workloads if w in differences), None),
        )
        for card in cards
    ]


def _lines_at_moment(
    every: Sequence[Group], line_filter: request_params.Filter
) -> tuple[list[str], request_params.Filter, list[Group]]:
    """Return (all measured moments, the filter with a measured moment or none, the lines that it selects)."""
    codes = sorted(
        {group.stage for group in every}, key=lambda code: moments.parse_moment(code).time_order
    )
    if line_filter.moment not in codes:
        line_filter = replace(line_filter, moment=None)
    return codes, line_filter, line_filter.select(every)


def build_cards(
    groups: Sequence[Group],
    figure_url: str,
    csv_url: str,
    line_filter: request_params.Filter,
    metric: str = "",
) -> list[Card]:
    """Build the cards. `line_filter` has already selected the lines, except by moment; each card adds its workload."""
    works = group_by_work(groups)
    shown = [line for every in works for line in _lines_at_moment(every, line_filter)[2]]
    # Of all cards at once: each would ask the database for its own.
    stations = {
        (shown[at].campaign, shown[at].identity): station
        for at, station in device_work.find_full_stations(shown).items()
    }
    return [
        _build_card(every, figure_url, csv_url, line_filter, metric, stations) for every in works
    ]


def _first_metric(metrics: Sequence[str], lines: Sequence[Group]) -> str:
    """Return what the card shows first: of the metrics that its tool is asked for, one that all of its lines have."""
    usual = metric_naming.FIRST_METRICS.get(lines[0].tool, ())
    common = [name for name in usual if all(name in line.units for line in lines)]
    return next(iter([*common, *metrics]), "iops")


def _build_card(
    every: list[Group],
    figure_url: str,
    csv_url: str,
    line_filter: request_params.Filter,
    metric: str,
    stations: Mapping[tuple[int, Identity], FullStation],
) -> Card:
    codes, line_filter, lines = _lines_at_moment(every, line_filter)
    query = line_filter.query()
    workloads = tuple(dict.fromkeys(group.workload for group in every))
    names = list(dict.fromkeys(name for group in lines for name in group.units))
    swept = any(group.swept for group in lines)
    metrics = tuple(metric_naming.order_choices(names, lines[0].tool, swept))
    chosen = metric if metric in metrics else _first_metric(metrics, lines)
    only = "&".join(filter(None, [query, urlencode([("workload", pk) for pk in workloads])]))
    both = tuple(op for op in ("read", "write") if f"{op}.iops" in names)
    default = f"&{urlencode({'metric': chosen})}" if chosen != "iops" else ""
    labels = line_labels(lines)
    has_points = has_depth_rows(lines)
    return Card(
        workloads=workloads,
        title=" · ".join(dict.fromkeys(group.workload_name for group in every)),
        figure_url=f"{figure_url}?{only}{default}",
        csv_url=f"{csv_url}?{only}",
        tool=lines[0].tool,
        swept=swept,
        metrics=metrics,
        operations=both if len(both) == 2 and any(rate in names for rate in METRICS) else (),
        lines=len(lines),
        points=tuple(curve_points(lines)),
        columns=latency_columns(lines),
        chosen_metric=chosen,
        moments=tuple(
            (code or request_params.BUILT, moments.parse_moment(code).phrase or "as built")
            for code in codes
        ),
        moment=(line_filter.moment or request_params.BUILT)
        if line_filter.moment is not None
        else "",
        hidden_fields=tuple(pair for pair in parse_qsl(query) if pair[0] != "moment"),
        cdf_choices=_cdf_choices(lines, names),
        names=() if has_points else tuple(labels),
        knees=tuple(
            (label, curve_answer_text(line))
            for line, label in zip(lines, labels, strict=True)
            if line.swept and "iops" in line.units
        ),
        full_stations=tuple(
            (
                label,
                station.depth,
                device_work.full_station_text(station, curve_answer(line).cap),
            )
            for line, label in zip(lines, labels, strict=True)
            if (station := stations.get((line.campaign, line.identity)))
        ),
        runs=tuple(tuple(sample.run for sample in line.samples) for line in lines),
        rows=()
        if has_points
        else tuple(metric_rows([line.in_percent() for line in lines], chosen)),
    )


def _cdf_choices(lines: Sequence[Group], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if not latency_figures.has_cdf(names):
        return ()
    depths = latency_figures.cdf_depths(lines)
    word = DRAWINGS["cdf"]
    return tuple((f"cdf.{depth}", f"{word} at {depth}") for depth in depths) or (("cdf", word),)


class RunPart(Protocol):
    """`TOOL` is the kind, `TEMPLATE` the room's part of a run's page, which has its own context as `tool_part`."""

    TOOL: str
    TEMPLATE: str

    def context(self, attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]: ...


class ToolFiles(Protocol):
    """`TOOL` is the kind. The mappings are {URL name of a file of a campaign, or of a workload by id: link text}."""

    TOOL: str
    OF_CAMPAIGN: Mapping[str, str]
    OF_WORKLOAD: Mapping[str, str]


def tool_context(attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]:
    """Return the context with its template; empty for a tool without a part of its own."""
    for part in (cast(RunPart, module) for module in app_modules.modules_named("run_part")):
        if attempt.run.tool == part.TOOL:
            return {"template": part.TEMPLATE, **part.context(attempt, measured)}
    return {}


def campaign_files(tool: str) -> dict[str, str]:
    """Return the files of the campaign's runs of this tool: the URL's name -> the link's words."""
    return {url: text for files in _tool_files(tool) for url, text in files.OF_CAMPAIGN.items()}


def workload_files(tool: str) -> dict[str, str]:
    return {url: text for files in _tool_files(tool) for url, text in files.OF_WORKLOAD.items()}


def _tool_files(tool: str) -> list[ToolFiles]:
    modules = (cast(ToolFiles, module) for module in app_modules.modules_named("tool_files"))
    return [files for files in modules if tool == files.TOOL]
