# SPDX-License-Identifier: Apache-2.0
"""The numbers of each chart as rows: for the table under it, for people who cannot see the chart, and as CSV.

Raw outputs are sent from here, too, byte for byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET
from rest_framework.exceptions import Throttled

from benchlab.analysis.curves import Little, Spread, little, spread
from benchlab.analysis.formats import shown_unit
from benchlab.campaigns.models import Campaign
from benchlab.charts import latency_distributions, metric_naming, request_params
from benchlab.charts.line_analysis import (
    Choice,
    curve_answer,
    judged_rate,
    ratios_by_depth,
    ratios_by_line,
)
from benchlab.charts.queries import (
    BASE_METRICS,
    Group,
    Sample,
    are_unlike,
    line_labels,
    read_groups,
    unsteady_text,
)
from benchlab.charts.sampled_tracks import Track, iterate_tracks
from benchlab.results.answers import table_response
from benchlab.runs.models import Artifact, Attempt
from benchlab.web.texts import csv_lines


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One line of the curve table: medians over the repeats at one depth."""

    label: str
    outstanding: int | None
    repeats: int
    iops: Spread | None
    bandwidth: Spread | None
    # of the columns that were asked for
    latencies: tuple[Spread | None, ...]
    little: Little | None
    knee: bool
    # whether those repeats were measured under unlike conditions
    unlike_conditions: bool
    # Largest over smallest repeat of the rate, where they differ more than noise explains
    repeat_ratio: float | None
    runs: tuple[int, ...]
    # what those rates did that were not steady: "2 of 3 not steady: step"
    unsteady: str = ""


# of reads and writes together
BOTH_DIRECTIONS = Choice()


def latency_columns(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return every measured latency, total first: "lat.mean", "clat.p99"."""
    samples = [sample for group in groups for sample in group.samples]
    measured = {name for group in groups for name in group.units}
    metrics = {name.removeprefix("read.").removeprefix("write.") for name in measured}
    every = (
        f"{kind}.{statistic}"
        for kind in metric_naming.LATENCY_KINDS
        for statistic in metric_naming.STATISTICS
    )
    return tuple(name for name in every if name in metrics and _values(samples, name))


def _values(samples: Iterable[Sample], base: str) -> list[float]:
    values = (BOTH_DIRECTIONS.read_value(base, sample.values) for sample in samples)
    return [value for value in values if value is not None]


def _spread_if_any(values: Sequence[float]) -> Spread | None:
    return spread(values) if values else None


def curve_points(groups: Sequence[Group]) -> list[CurvePoint]:
    """Rows in the order of the chart's legend, depths rising; a latency for each of `latency_columns`."""
    columns = latency_columns(groups)
    points = []
    for group, label in zip(groups, line_labels(groups), strict=True):
        knee = curve_answer(group).knee
        ratios = ratios_by_depth(group, judged_rate(group))
        by_depth: dict[int, list[Sample]] = defaultdict(list)
        for sample in group.samples:
            by_depth[sample.outstanding or 0].append(sample)
        for depth, samples in sorted(by_depth.items()):
            rates = [
                (sample.values["iops"], sample.values["lat.mean"])
                for sample in samples
                if {"iops", "lat.mean"} <= sample.values.keys()
            ]
            point = CurvePoint(
                label=label,
                outstanding=depth or None,
                repeats=len(samples),
                iops=_spread_if_any(_values(samples, "iops")),
                bandwidth=_spread_if_any(_values(samples, "bandwidth")),
                latencies=tuple(_spread_if_any(_values(samples, name)) for name in columns),
                little=little(depth, rates) if depth and rates else None,
                knee=knee is not None and knee.drawn and knee.at == depth,
                unlike_conditions=are_unlike(samples),
                unsteady=unsteady_text(samples),
                repeat_ratio=ratios.get(depth),
                runs=tuple(sample.run for sample in samples),
            )
            points.append(point)
    return points


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric over all lines; a cell is None where it was not measured, or n/a."""

    name: str
    title: str
    unit: str
    cells: tuple[Spread | None, ...]
    # of each cell as of a Point
    repeat_ratios: tuple[float | None, ...]
    unsteady: tuple[str, ...]

    @property
    def cells_with_warnings(self) -> list[tuple[Spread | None, float | None, str]]:
        return list(zip(self.cells, self.repeat_ratios, self.unsteady, strict=True))


def metric_rows(groups: Sequence[Group], first: str = "") -> list[MetricRow]:
    """Every metric of lines without a sweep, in the tool's order; those of the choice `first` come first."""
    units = {name: unit for group in groups for name, unit in group.units.items()}
    chosen = metric_naming.family_members(first, units)
    return [
        MetricRow(
            name,
            metric_naming.metric_word(name),
            shown_unit(name, units[name]),
            tuple(
                _spread_if_any([s.values[name] for s in group.samples if name in s.values])
                for group in groups
            ),
            tuple(ratios_by_line(groups, name)),
            tuple(
                unsteady_text([s for s in group.samples if name in s.values]) for group in groups
            ),
        )
        for name in dict.fromkeys([*chosen, *units])
    ]


RUN_HEAD = (
    "campaign",
    "host",
    "topology",
    "moment",
    "workload",
    "point",
    "tool",
    "outstanding",
    "repeat",
    "visit",
    "run",
    "not in order",
    "course",
    "fingerprint",
)
# of the first columns; all else of them is seconds
RATE_UNITS = {"iops": "op/s", "bandwidth": "B/s"}


def campaign_csv_lines(groups: Sequence[Group]) -> Iterator[str]:
    """Line by line: one row per run that succeeded, base units in the header."""
    names = [operation + base for operation in ("", "read.", "write.") for base in BASE_METRICS]
    columns = [n for n in names if any(n in s.values for group in groups for s in group.samples)]
    units = {name: RATE_UNITS.get(name.rpartition(".")[2], "s") for name in columns}
    units |= {name: unit for group in groups for name, unit in group.units.items()}
    columns = list(units)
    head = [*RUN_HEAD, *(f"{name} ({unit})" for name, unit in units.items())]
    return csv_lines(head, (_run_row(g, s, columns) for g in groups for s in g.samples))


def _run_row(group: Group, sample: Sample, names: Sequence[str]) -> list[object]:
    place = [group.campaign_name, group.host_name, group.topology_name]
    where = [*place, group.stage_name, group.workload_name]
    which = [group.rest, group.tool, sample.outstanding, sample.repeat, sample.visit, sample.run]
    which += [sample.degradation, str(sample.course.state), sample.fingerprint]
    return [*where, *which, *(sample.values.get(name) for name in names)]


def series_csv_lines(tracks: Iterable[Track]) -> Iterator[str]:
    """Line by line, in long form: one row per device, metric and sample; unknown values are empty."""
    rows = (
        (track.device, track.metric, track.unit, at, None if value != value else value)
        for track in tracks
        for at, value in zip(map(float, track.times), track.array.tolist(), strict=True)
    )
    return csv_lines(("device", "metric", "unit", "seconds", "value"), rows)


CSV = "text/csv; charset=utf-8"


@require_GET
def artifact(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Return the artifact as the host delivered it. A browser saves it and never guesses its type."""
    return artifact_response(
        request, get_object_or_404(Artifact.objects.visible_to(request.user), pk=pk)
    )


def artifact_response(request: HttpRequest, row: Artifact) -> HttpResponseBase:
    """Send a large artifact in parts, as fast as the client reads; 429 during too many downloads."""
    first = next(row.pieces(), b"")
    kind = "application/octet-stream" if b"\0" in first[:4096] else "text/plain; charset=utf-8"
    name = f"attempt-{row.attempt_id}-{row.name}"
    response = (
        _attachment(row.read(), kind, name)
        if row.is_small
        else streamed_response(request, row.pieces, kind, name)
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Content-SHA256"] = row.sha256
    return response


@require_GET
def campaign_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One row per run that succeeded."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    groups = request_params.line_filter(request.GET).select(
        read_groups(request.user, [campaign.pk])
    )
    return csv_response(request, lambda: campaign_csv_lines(groups), f"campaign-{campaign.pk}.csv")


@require_GET
def compare_csv(request: HttpRequest) -> HttpResponseBase:
    line_filter = request_params.line_filter(request.GET)
    groups = line_filter.select(read_groups(request.user, line_filter.campaigns))
    return csv_response(request, lambda: campaign_csv_lines(groups), "compare.csv")


@require_GET
def attempt_series_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every sample of every device, not thinned."""
    attempt = get_object_or_404(Attempt.objects.visible_to(request.user), pk=pk)
    name = f"attempt-{attempt.pk}-series.csv"
    return csv_response(request, lambda: series_csv_lines(iterate_tracks(attempt)), name)


@require_GET
def attempt_histogram_csv(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every bin of every latency."""
    attempt = get_object_or_404(Attempt.objects.visible_to(request.user), pk=pk)
    histograms = latency_distributions.read_histograms([attempt.pk])[attempt.pk]
    name = f"attempt-{attempt.pk}-histogram.csv"
    return csv_response(request, lambda: latency_distributions.histogram_csv(histograms), name)


def csv_response(
    request: HttpRequest, make_lines: Callable[[], Iterator[str]], name: str
) -> HttpResponseBase:
    """Send the lines that `made()` yields in parts, as fast as the client reads; 429 during too many downloads."""
    return streamed_response(request, lambda: map(str.encode, make_lines()), CSV, name)


def streamed_response(
    request: HttpRequest, make_parts: Callable[[], Iterator[bytes]], kind: str, name: str
) -> HttpResponseBase:
    """Send what `made()` yields in parts, as fast as the client reads; 429 during too many downloads."""
    try:
        return table_response(request, make_parts, kind, name)
    except Throttled as busy:
        wait = {"Retry-After": str(int(getattr(busy, "wait", None) or 1))}
        return HttpResponse(f"{busy.detail}\n", "text/plain", 429, headers=wait)


def _attachment(raw: bytes, kind: str, name: str) -> HttpResponseBase:
    response = HttpResponse(raw, content_type=kind)
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
