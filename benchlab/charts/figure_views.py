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
    devices,
    disk_heat,
    disk_strips,
    dots,
    latency_against_iops,
    latency_lines,
    latency_shares,
    latency_stored,
    live_samples,
    naming,
    origins,
    percentiles,
    request_params,
)
from benchlab.charts.attempt_layers import uses_of
from benchlab.charts.chart_options import Choice
from benchlab.charts.figure import Figure, dumped
from benchlab.charts.naming import METRICS
from benchlab.charts.queries import Group, groups, in_percent
from benchlab.charts.sampled import rows_of, tracks_of, windows_of
from benchlab.charts.spans import of_tracks
from benchlab.charts.tracks import Track
from benchlab.runs.hearing import ear
from benchlab.runs.models import Attempt
from benchlab.web.shared_answers import Answers, may_be_shared, rights

KEPT: Answers[bytes] = Answers()


@require_GET
def campaign_figure(request: HttpRequest, pk: int) -> HttpResponse:
    """IOPS and latency over outstanding I/Os, or bars. ?metric= ?operation= ?latency= ?workload= ?topology= ?host="""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)

    def made() -> Figure:
        found = request_params.lines(request.GET).keep(groups(request.user, [campaign.pk]))
        return curve_or_bars(campaign.name, found, request_params.choice(request.GET))

    return _shared(request, campaign.pk, made)


@require_GET
def compare_figure(request: HttpRequest) -> HttpResponse:
    wanted = request_params.lines(request.GET)
    found = wanted.seated(groups(request.user, wanted.campaigns))
    names = dict.fromkeys(group.campaign_name for group in found)
    return figure_response(
        curve_or_bars(
            " and ".join(names) or "nothing chosen", found, request_params.choice(request.GET)
        )
    )


def curve_or_bars(title: str, found: list[Group], choice: Choice) -> Figure:
    """Curves as soon as one line has a sweep; the page draws lines without one in a chart of their own."""
    known = {name for group in found for name in group.units}
    if found and choice.metric not in METRICS and not naming.members(choice.metric, known):
        raise BadRequest(f"metric: {choice.metric!r} is none of {', '.join(sorted(known))}")
    swept = any(group.swept for group in found) and "*" not in choice.metric
    if choice.against == "cdf":
        at = [
            one.attempt for line in found for one in line.samples if one.outstanding == choice.depth
        ]
        made = latency_lines.build(title, found, choice, latency_stored.counted(at))
    elif swept and choice.against:
        made = latency_against_iops.build(title, found, choice)
    else:
        made = (curve.build if swept else dots.build)(title, in_percent(found), choice)
    return origins.of_lines(made, found)


@require_GET
def attempt_devices(request: HttpRequest, pk: int) -> HttpResponse:
    """Every device over the run. ?every=1 draws the idle ones too, ?members=1 each disk of a layout for itself,
    ?from= &to= &width= a part of it more finely."""
    attempt = _attempt(request, pk)
    return figure_response(of_attempt(devices_of(attempt, request.GET), attempt))


def devices_of(attempt: Attempt, query: QueryDict) -> Figure:
    """Figure that `query` asks for, as of `attempt_devices`."""
    facts = attempt.facts.facts if attempt.facts else {}
    every, single = bool(query.get("every")), bool(query.get("members"))
    wanted = (*devices.PANELS, *percentiles.METRICS)
    found = rows_of(attempt, wanted, request_params.span(query))
    uses = () if every or single else uses_of(attempt)
    marks = windows_of(attempt)
    return devices.build(title_of(attempt), found, facts, marks, every=every, uses=uses)


@require_GET
def attempt_disks(request: HttpRequest, pk: int) -> HttpResponse:
    """Disk x time: ?metric= one of devices.PANELS, ?from= &to= &width= a part of it more finely."""
    attempt = _attempt(request, pk)
    metric = request.GET.get("metric") or disk_heat.USUAL
    if metric not in devices.PANELS:
        known = ", ".join(devices.PANELS)
        raise BadRequest(f"metric: {metric[:100]!r} is none of {known}")
    facts = attempt.facts.facts if attempt.facts else {}
    found = rows_of(attempt, devices.PANELS, request_params.span(request.GET))
    shown = disk_heat.disks(found, facts, uses_of(attempt))
    made = disk_heat.build(title_of(attempt), found, shown, metric, windows_of(attempt))
    return figure_response(of_attempt(made, attempt))


@require_GET
def attempt_histogram(request: HttpRequest, pk: int) -> HttpResponse:
    """Histogram of I/O times, with shares below each. ?percent=even has an axis that is not stretched towards 100 %."""
    attempt = _attempt(request, pk)
    return figure_response(of_attempt(histogram_of(attempt, request.GET), attempt))


def histogram_of(attempt: Attempt, query: QueryDict) -> Figure:
    """Figure that `query` asks for, as of `attempt_histogram`."""
    scale = request_params.percent(query)
    return latency_shares.of_run(title_of(attempt), latency_stored.curves_of(attempt), scale)


@require_GET
def attempt_cpu(request: HttpRequest, pk: int) -> HttpResponse:
    attempt = _attempt(request, pk)
    return figure_response(of_attempt(cpu_of(attempt, request.GET), attempt))


def cpu_of(attempt: Attempt, query: QueryDict) -> Figure:
    found = rows_of(attempt, devices.OF_HOST, request_params.span(query))
    return devices.cpu(title_of(attempt), found, windows_of(attempt))


@require_GET
def attempt_cache(request: HttpRequest, pk: int, which: str) -> HttpResponse:
    """One of caches.CHARTS: caches, ARC, pools, arrays."""
    attempt = _attempt(request, pk)
    chart = caches.chart(which)
    if chart is None:
        raise Http404(f"There is no chart {which!r}.")
    facts = attempt.facts.facts if attempt.facts else {}
    tracks, marks = tracks_so_far(attempt), windows_of(attempt)
    made = caches.build(title_of(attempt), chart, tracks, facts, marks)
    return figure_response(of_attempt(made, attempt))


@require_GET
def attempt_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Figure of the running attempt so far; of one that is over, the whole.

    ?since= seconds leaves out what is older, ?disks=own all but the layout's own disks and what stands on them.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    campaign = get_object_or_404(rows.only("run__campaign"), pk=pk).run.campaign_id
    return _shared(request, campaign, lambda: _so_far(request, pk))


@require_GET
def attempt_strips(request: HttpRequest, pk: int) -> HttpResponse:
    """A part of a live page: what each of the layout's own disks does now. ?disks=all: each of the host's.

    286 once the attempt is over: nobody has to ask again. What was seen last stays until the next one's part comes,
    else the card would be a heading alone between two runs.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    found = get_object_or_404(rows.only("outcome", "run__campaign"), pk=pk)
    if found.outcome:
        return HttpResponse(status=286, headers={"HX-Reswap": "none"})

    def made() -> bytes:
        every = request.GET.get("disks") == "all"
        shown = disk_strips.of(_attempt(request, pk), every=every)
        return render_to_string("charts/_disk_strips.html", {"strips": shown}).encode()

    if not may_be_shared(request):
        return HttpResponse(made())
    key = request.path, request.META.get("QUERY_STRING", ""), rights(request.user)
    return HttpResponse(KEPT.of(key, ear.since(found.run.campaign_id), made))


def _so_far(request: HttpRequest, pk: int) -> Figure:
    attempt = _attempt(request, pk)
    facts = attempt.facts.facts if attempt.facts else {}
    since = request_params.seconds(request.GET, "since")
    own = request.GET.get("disks") == "own"
    stored = [] if attempt.outcome == "" else tracks_of(attempt)
    if stored:
        shown = live_samples.of_layout(stored, attempt, facts) if own else stored
        made = devices.build(title_of(attempt), of_tracks(shown), facts, windows_of(attempt))
    else:
        made = live_samples.build(title_of(attempt), attempt, facts, since, own=own)
    return of_attempt(made, attempt)


def tracks_so_far(attempt: Attempt) -> list[Track]:
    """Tracks that are stored; of an attempt that runs, what was sampled lately, as far as it can be read."""
    if attempt.outcome:
        return tracks_of(attempt)
    try:
        return live_samples.tracks(attempt)
    except ParseError:
        # the devices' chart says so
        return []


def of_attempt(figure: Figure, attempt: Attempt) -> Figure:
    """With the words that tell where it comes from."""
    campaign = attempt.run.campaign
    return origins.told(figure, f"{campaign.name} (no. {campaign.pk})", [attempt.run_id])


def title_of(attempt: Attempt) -> str:
    return f"run {attempt.run_id}, {attempt.run}"


def _attempt(request: HttpRequest, pk: int) -> Attempt:
    rows = Attempt.objects.visible_to(request.user).select_related(
        "facts", "layout", "run__campaign", "run__topology", "run__workload"
    )
    return get_object_or_404(rows, pk=pk)


def _shared(request: HttpRequest, campaign: int, make: Callable[[], Figure]) -> HttpResponse:
    """Made once for all open pages of the campaign: each asks at every change, and for what runs every few seconds.

    A browser that has it already is told so.
    """
    if not may_be_shared(request):
        return figure_response(make())
    key = request.path, request.META.get("QUERY_STRING", ""), rights(request.user)
    figure = KEPT.of(key, ear.since(campaign), lambda: dumped(make()))
    tag = quote_etag(sha256(figure).hexdigest()[:20])
    answer = _sent(figure)
    answer["ETag"] = tag
    return get_conditional_response(request, etag=tag, response=answer) or answer


def figure_response(figure: Figure) -> HttpResponse:
    return _sent(dumped(figure))


def _sent(figure: bytes) -> HttpResponse:
    answer = HttpResponse(figure, content_type="application/json")
    answer["Cache-Control"] = "no-cache"
    return answer
