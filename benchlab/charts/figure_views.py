# SPDX-License-Identifier: Apache-2.0
"""Views that answer with a Plotly figure as JSON."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.http import require_GET

from agents.contracts import ParseError
from benchlab.campaigns.models import Campaign
from benchlab.charts import (
    caches,
    curve,
    device_figures,
    latency_against_iops,
    latency_distributions,
    latency_figures,
    live_samples,
    metric_naming,
    origins,
    repeat_dots,
    request_params,
)
from benchlab.charts.attempt_samples import read_disk_uses, read_rows, read_tracks, read_windows
from benchlab.charts.figure import Figure, figure_json
from benchlab.charts.line_analysis import Choice
from benchlab.charts.metric_naming import METRICS
from benchlab.charts.queries import Group, read_groups, shares_in_percent
from benchlab.charts.sampled_tracks import Track, rows_from_tracks
from benchlab.runs.change_feed import change_listener
from benchlab.runs.models import Attempt
from benchlab.web.shared_answers import SharedAnswers, access_rights, may_be_shared

RENDERED: SharedAnswers[bytes] = SharedAnswers()


@require_GET
def campaign_figure(request: HttpRequest, pk: int) -> HttpResponse:
    """IOPS and latency over outstanding I/Os, or bars. ?metric= ?operation= ?latency= ?workload= ?topology= ?host="""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)

    def build_figure() -> Figure:
        groups = request_params.line_filter(request.GET).select(
            read_groups(request.user, [campaign.pk])
        )
        return build_lines_figure(campaign.name, groups, request_params.chart_choice(request.GET))

    return _cached_response(request, campaign.pk, build_figure)


@require_GET
def compare_figure(request: HttpRequest) -> HttpResponse:
    line_filter = request_params.line_filter(request.GET)
    groups = line_filter.select_styled(read_groups(request.user, line_filter.campaigns))
    names = dict.fromkeys(group.campaign_name for group in groups)
    return figure_response(
        build_lines_figure(
            " and ".join(names) or "nothing chosen",
            groups,
            request_params.chart_choice(request.GET),
        )
    )


def build_lines_figure(title: str, groups: list[Group], choice: Choice) -> Figure:
    """Curves as soon as one line has a sweep; the page draws lines without one in a chart of their own."""
    measured = {name for group in groups for name in group.units}
    if (
        groups
        and choice.metric not in METRICS
        and not metric_naming.family_members(choice.metric, measured)
    ):
        raise BadRequest(f"metric: {choice.metric!r} is none of {', '.join(sorted(measured))}")
    swept = any(group.swept for group in groups) and "*" not in choice.metric
    if choice.against == "cdf":
        at = [
            sample.attempt
            for line in groups
            for sample in line.samples
            if sample.outstanding == choice.depth
        ]
        drawing = latency_figures.build_cdf_figure(
            title, groups, choice, latency_distributions.read_histograms(at)
        )
    elif swept and choice.against:
        drawing = latency_against_iops.build_latency_against_iops(title, groups, choice)
    else:
        drawing = (curve.build_curve_figure if swept else repeat_dots.build_bar_figure)(
            title, shares_in_percent(groups), choice
        )
    return origins.with_lines_origin(drawing, groups)


@require_GET
def attempt_devices(request: HttpRequest, pk: int) -> HttpResponse:
    """Every device over the run. ?every=1 draws the idle ones too, ?members=1 each disk of a layout for itself,
    ?from= &to= &width= a part of it more finely."""
    attempt = _visible_attempt(request, pk)
    return figure_response(with_attempt_origin(device_figure(attempt, request.GET), attempt))


def device_figure(attempt: Attempt, query: QueryDict) -> Figure:
    """Figure that `query` asks for, as of `attempt_devices`."""
    facts = attempt.facts.facts if attempt.facts else {}
    every, single = bool(query.get("every")), bool(query.get("members"))
    metrics = (*device_figures.DEVICE_PANELS, *device_figures.PERCENTILE_METRICS)
    sampled = read_rows(attempt, metrics, request_params.requested_span(query))
    uses = () if every or single else read_disk_uses(attempt)
    marks = read_windows(attempt)
    return device_figures.build_device_figure(
        attempt_title(attempt), sampled, facts, marks, every=every, uses=uses
    )


@require_GET
def attempt_disks(request: HttpRequest, pk: int) -> HttpResponse:
    """Disk x time: ?metric= one of devices.PANELS, ?from= &to= &width= a part of it more finely."""
    attempt = _visible_attempt(request, pk)
    metric = request.GET.get("metric") or device_figures.DEFAULT_METRIC
    if metric not in device_figures.DEVICE_PANELS:
        choices = ", ".join(device_figures.DEVICE_PANELS)
        raise BadRequest(f"metric: {metric[:100]!r} is none of {choices}")
    facts = attempt.facts.facts if attempt.facts else {}
    sampled = read_rows(
        attempt, device_figures.DEVICE_PANELS, request_params.requested_span(request.GET)
    )
    disks = device_figures.heat_map_disks(sampled, facts, read_disk_uses(attempt))
    heat_map = device_figures.build_heat_map(
        attempt_title(attempt), sampled, disks, metric, read_windows(attempt)
    )
    return figure_response(with_attempt_origin(heat_map, attempt))


@require_GET
def attempt_histogram(request: HttpRequest, pk: int) -> HttpResponse:
    """Histogram of I/O times, with shares below each. ?percent=even has an axis that is not stretched towards 100 %."""
    attempt = _visible_attempt(request, pk)
    return figure_response(with_attempt_origin(histogram_figure(attempt, request.GET), attempt))


def histogram_figure(attempt: Attempt, query: QueryDict) -> Figure:
    """Figure that `query` asks for, as of `attempt_histogram`."""
    scale = request_params.percent_scale(query)
    return latency_figures.build_histogram_figure(
        attempt_title(attempt), latency_distributions.read_latency_curves(attempt), scale
    )


@require_GET
def attempt_cpu(request: HttpRequest, pk: int) -> HttpResponse:
    attempt = _visible_attempt(request, pk)
    return figure_response(with_attempt_origin(cpu_figure(attempt, request.GET), attempt))


def cpu_figure(attempt: Attempt, query: QueryDict) -> Figure:
    sampled = read_rows(attempt, device_figures.HOST_METRICS, request_params.requested_span(query))
    return device_figures.build_cpu_figure(attempt_title(attempt), sampled, read_windows(attempt))


@require_GET
def attempt_cache(request: HttpRequest, pk: int, which: str) -> HttpResponse:
    """One of caches.CHARTS: caches, ARC, pools, arrays."""
    attempt = _visible_attempt(request, pk)
    chart = caches.find_chart(which)
    if chart is None:
        raise Http404(f"There is no chart {which!r}.")
    facts = attempt.facts.facts if attempt.facts else {}
    tracks, marks = current_tracks(attempt), read_windows(attempt)
    drawing = caches.build_cache_figure(attempt_title(attempt), chart, tracks, facts, marks)
    return figure_response(with_attempt_origin(drawing, attempt))


@require_GET
def attempt_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Figure of the running attempt so far; of one that is over, the whole.

    ?since= seconds leaves out what is older, ?disks=own all but the layout's own disks and what stands on them.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    campaign = get_object_or_404(rows.only("run__campaign"), pk=pk).run.campaign_id
    return _cached_response(request, campaign, lambda: _live_figure(request, pk))


@require_GET
def attempt_strips(request: HttpRequest, pk: int) -> HttpResponse:
    """A part of a live page: what each of the layout's own disks does now. ?disks=all: each of the host's.

    286 once the attempt is over: nobody has to ask again. What was seen last stays until the next one's part comes,
    else the card would be a heading alone between two runs.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    attempt = get_object_or_404(rows.only("outcome", "run__campaign"), pk=pk)
    if attempt.outcome:
        return HttpResponse(status=286, headers={"HX-Reswap": "none"})

    def render_strips() -> bytes:
        every = request.GET.get("disks") == "all"
        strips = live_samples.read_strips(_visible_attempt(request, pk), every=every)
        return render_to_string("charts/_disk_strips.html", {"strips": strips}).encode()

    if not may_be_shared(request):
        return HttpResponse(render_strips())
    key = request.path, request.META.get("QUERY_STRING", ""), access_rights(request.user)
    return HttpResponse(
        RENDERED.get_or_make(
            key, change_listener.current_since(attempt.run.campaign_id), render_strips
        )
    )


def _live_figure(request: HttpRequest, pk: int) -> Figure:
    attempt = _visible_attempt(request, pk)
    facts = attempt.facts.facts if attempt.facts else {}
    since = request_params.seconds_parameter(request.GET, "since")
    own = request.GET.get("disks") == "own"
    stored = [] if attempt.outcome == "" else read_tracks(attempt)
    if stored:
        drawn_tracks = live_samples.layout_tracks(stored, attempt, facts) if own else stored
        drawing = device_figures.build_device_figure(
            attempt_title(attempt), rows_from_tracks(drawn_tracks), facts, read_windows(attempt)
        )
    else:
        drawing = live_samples.build_live_figure(
            attempt_title(attempt), attempt, facts, since, own=own
        )
    return with_attempt_origin(drawing, attempt)


def current_tracks(attempt: Attempt) -> list[Track]:
    """Return the stored tracks; of a running attempt the latest samples, as far as they can be read."""
    if attempt.outcome:
        return read_tracks(attempt)
    try:
        return live_samples.live_tracks(attempt)
    except ParseError:
        # the devices' chart shows the error
        return []


def with_attempt_origin(figure: Figure, attempt: Attempt) -> Figure:
    """Add the text of its origin to the figure."""
    campaign = attempt.run.campaign
    return origins.with_origin(figure, f"{campaign.name} (no. {campaign.pk})", [attempt.run_id])


def attempt_title(attempt: Attempt) -> str:
    return f"run {attempt.run_id}, {attempt.run}"


def _visible_attempt(request: HttpRequest, pk: int) -> Attempt:
    rows = Attempt.objects.visible_to(request.user).select_related(
        "facts", "layout", "run__campaign", "run__topology", "run__workload"
    )
    return get_object_or_404(rows, pk=pk)


def _cached_response(
    request: HttpRequest, campaign: int, make: Callable[[], Figure]
) -> HttpResponse:
    """Made once for all open pages of the campaign: each asks at every change, and for what runs every few seconds.

    A browser that has it already is told so.
    """
    if not may_be_shared(request):
        return figure_response(make())
    key = request.path, request.META.get("QUERY_STRING", ""), access_rights(request.user)
    figure = RENDERED.get_or_make(
        key, change_listener.current_since(campaign), lambda: figure_json(make())
    )
    tag = quote_etag(sha256(figure).hexdigest()[:20])
    answer = _json_response(figure)
    answer["ETag"] = tag
    return get_conditional_response(request, etag=tag, response=answer) or answer


def figure_response(figure: Figure) -> HttpResponse:
    return _json_response(figure_json(figure))


def _json_response(figure: bytes) -> HttpResponse:
    answer = HttpResponse(figure, content_type="application/json")
    answer["Cache-Control"] = "no-cache"
    return answer
