"""Views that answer with a Plotly figure as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.http import require_GET

from agents import registry
from agents.contracts import ParseError, Window
from agents.protocols import Reader, Tool
from benchlab.campaigns.models import Campaign
from benchlab.charts import (
    caches,
    curve,
    devices,
    dots,
    latency_against_iops,
    live_samples,
    naming,
    origins,
    request_params,
    windows,
)
from benchlab.charts.chart_options import Choice
from benchlab.charts.devices import Track
from benchlab.charts.figure import Figure, dumped
from benchlab.charts.naming import METRICS
from benchlab.charts.queries import Group, groups, in_percent
from benchlab.runs.collect import READERS
from benchlab.runs.hearing import ear
from benchlab.runs.models import Attempt, Series
from benchlab.web.shared_answers import Answers, may_be_shared, rights

SERIES_AT_ONCE = 4  # an hour's is 60 KB
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
    found = wanted.keep(groups(request.user, wanted.campaigns))
    names = dict.fromkeys(group.campaign_name for group in found)
    return _json(
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
    if swept and choice.against:
        made = latency_against_iops.build(title, found, choice)
    else:
        made = (curve.build if swept else dots.build)(title, in_percent(found), choice)
    return origins.of_lines(made, found)


@require_GET
def attempt_devices(request: HttpRequest, pk: int) -> HttpResponse:
    """Every device over the run. ?every=1 draws the idle ones too, ?from= &to= &width= a part of it more finely."""
    attempt = _attempt(request, pk)
    facts = attempt.facts.facts if attempt.facts else {}
    every = bool(request.GET.get("every"))
    marks = windows_of(attempt)
    span = request_params.span(request.GET)
    found = tracks_of(attempt)
    made = devices.build(title_of(attempt), found, facts, marks, every=every, span=span)
    return _json(of_attempt(made, attempt))


@require_GET
def attempt_cpu(request: HttpRequest, pk: int) -> HttpResponse:
    attempt = _attempt(request, pk)
    span = request_params.span(request.GET)
    made = devices.cpu(title_of(attempt), tracks_of(attempt), windows_of(attempt), span)
    return _json(of_attempt(made, attempt))


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
    return _json(of_attempt(made, attempt))


@require_GET
def attempt_live(request: HttpRequest, pk: int) -> HttpResponse:
    """What the running attempt did so far; of one that is over, the whole.

    ?since= seconds leaves out what is older, ?disks=own all but the layout's own disks and what stands on them.
    """
    rows = Attempt.objects.visible_to(request.user).select_related("run")
    campaign = get_object_or_404(rows.only("run__campaign"), pk=pk).run.campaign_id
    return _shared(request, campaign, lambda: _so_far(request, pk))


def _so_far(request: HttpRequest, pk: int) -> Figure:
    attempt = _attempt(request, pk)
    facts = attempt.facts.facts if attempt.facts else {}
    since = request_params.seconds(request.GET, "since")
    own = request.GET.get("disks") == "own"
    stored = [] if attempt.outcome == "" else tracks_of(attempt)
    if stored:
        shown = live_samples.of_layout(stored, attempt, facts) if own else stored
        made = devices.build(title_of(attempt), shown, facts, windows_of(attempt))
    else:
        made = live_samples.build(title_of(attempt), attempt, facts, since, own=own)
    return of_attempt(made, attempt)


def tracks_of(attempt: Attempt) -> list[Track]:
    return list(each_track_of(attempt))


def each_track_of(attempt: Attempt) -> Iterator[Track]:
    """One after the other: one series is in memory at a time, or a few."""
    rows = Series.objects.filter(attempt=attempt).order_by("sampler", "device", "pk")
    placed = sum(one.measured for one in windows_of(attempt)) == 1 or READERS in attempt.meta
    for row in rows.iterator(chunk_size=SERIES_AT_ONCE):
        name = "" if row.device else _tool_of(row)
        apart = bool(name) and not placed
        told = f"{name}, by its own clock" if apart else name or row.device
        yield Track(told, row.metric, row.unit, row.times, row.values, apart=apart)


def _tool_of(row: Series) -> str:
    """Whose own figures these are: without a name they would be taken for the host's. "" where they are the host's."""
    if row.sampler in registry.all_samplers() or row.metric.startswith("cpu."):
        return ""
    drivers: dict[str, Tool[Any] | Reader] = {**registry.all_readers(), **registry.all_tools()}
    driver = drivers.get(row.sampler)
    return f"{driver.LABEL} itself" if driver else row.sampler


def windows_of(attempt: Attempt) -> list[Window]:
    """What its tool did when, on the clock of its tracks; [] where nobody told."""
    return windows.told(attempt.windows)


def tracks_so_far(attempt: Attempt) -> list[Track]:
    """What is stored; of an attempt that runs, what was sampled lately, as far as it can be read."""
    if attempt.outcome:
        return tracks_of(attempt)
    try:
        return live_samples.tracks(attempt)
    except ParseError:
        return []  # the devices' chart says so


def of_attempt(figure: Figure, attempt: Attempt) -> Figure:
    """With the words that tell where it comes from."""
    campaign = attempt.run.campaign
    return origins.told(figure, f"{campaign.name} (no. {campaign.pk})", [attempt.run_id])


def title_of(attempt: Attempt) -> str:
    return f"run {attempt.run_id}, {attempt.run}"


def _attempt(request: HttpRequest, pk: int) -> Attempt:
    rows = Attempt.objects.visible_to(request.user).select_related(
        "facts", "run__campaign", "run__topology", "run__workload"
    )
    return get_object_or_404(rows, pk=pk)


def _shared(request: HttpRequest, campaign: int, make: Callable[[], Figure]) -> HttpResponse:
    """Made once for all open pages of the campaign: each asks at every change, and for what runs every few seconds.

    A browser that has it already is told so.
    """
    if not may_be_shared(request):
        return _json(make())
    key = request.path, request.META.get("QUERY_STRING", ""), rights(request.user)
    figure = KEPT.of(key, ear.since(campaign), lambda: dumped(make()))
    tag = quote_etag(sha256(figure).hexdigest()[:20])
    answer = _sent(figure)
    answer["ETag"] = tag
    return get_conditional_response(request, etag=tag, response=answer) or answer


def _json(figure: Figure) -> HttpResponse:
    return _sent(dumped(figure))


def _sent(figure: bytes) -> HttpResponse:
    answer = HttpResponse(figure, content_type="application/json")
    answer["Cache-Control"] = "no-cache"
    return answer
