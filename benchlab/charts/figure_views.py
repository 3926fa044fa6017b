# SPDX-License-Identifier: Apache-2.0
"""Views that answer with a Plotly figure as JSON.

Each figure holds its origin as plain words: static/pictures.js writes them into each picture of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.http import require_GET

import benchlab
from benchlab.campaigns.models import Campaign
from benchlab.charts import (
    curve,
    latency_against_iops,
    latency_distributions,
    latency_figures,
    metric_naming,
    repeat_dots,
    request_params,
)
from benchlab.charts.figure import Figure, figure_json
from benchlab.charts.line_analysis import Choice
from benchlab.charts.metric_naming import METRICS
from benchlab.charts.queries import Group, read_groups
from benchlab.runs.events import change_listener
from benchlab.runs.models import Attempt
from benchlab.web.shared_answers import SharedAnswers, access_rights, may_be_shared

RENDERED: SharedAnswers[bytes] = SharedAnswers()
# of run numbers; who wants more opens the page
MAX_RANGES = 40


@require_GET
def campaign_figure(request: HttpRequest, pk: int) -> HttpResponse:
    """IOPS and latency over outstanding I/Os, or bars. ?metric= ?operation= ?latency= ?workload= ?topology= ?host="""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)

    def build_figure() -> Figure:
        line_filter = request_params.line_filter(request.GET)
        groups = line_filter.select(read_groups(request.user, [campaign.pk]))
        return build_lines_figure(campaign.name, groups, request_params.chart_choice(request.GET))

    return shared_response(request, campaign.pk, build_figure)


@require_GET
def compare_figure(request: HttpRequest) -> HttpResponse:
    line_filter = request_params.line_filter(request.GET)
    groups = line_filter.select_styled(read_groups(request.user, line_filter.campaigns))
    names = dict.fromkeys(group.campaign_name for group in groups)
    title, choice = " and ".join(names), request_params.chart_choice(request.GET)
    return figure_response(build_lines_figure(title or "nothing chosen", groups, choice))


def build_lines_figure(title: str, groups: list[Group], choice: Choice) -> Figure:
    """Curves as soon as one line has a sweep; the page draws lines without one in a chart of their own."""
    measured = {name for group in groups for name in group.units}
    is_known = choice.metric in METRICS or metric_naming.family_members(choice.metric, measured)
    if groups and not is_known:
        raise BadRequest(f"metric: {choice.metric!r} is none of {', '.join(sorted(measured))}")
    swept = any(group.swept for group in groups) and "*" not in choice.metric
    if choice.against == "cdf":
        samples = (sample for line in groups for sample in line.samples)
        attempts = [sample.attempt for sample in samples if sample.outstanding == choice.depth]
        histograms = latency_distributions.read_histograms(attempts)
        figure = latency_figures.build_cdf_figure(title, groups, choice, histograms)
    elif swept and choice.against:
        figure = latency_against_iops.build_latency_against_iops(title, groups, choice)
    else:
        build = curve.build_curve_figure if swept else repeat_dots.build_bar_figure
        figure = build(title, [group.in_percent() for group in groups], choice)
    return with_lines_origin(figure, groups)


def attempt_title(attempt: Attempt) -> str:
    return f"run {attempt.run_id}, {attempt.run}"


def shared_bytes(request: HttpRequest, campaign: int, make: Callable[[], bytes]) -> bytes:
    """Made once for all open pages of the campaign: each asks at every change, and for what runs every few seconds."""
    if not may_be_shared(request):
        return make()
    key = request.path, request.META.get("QUERY_STRING", ""), access_rights(request.user)
    return RENDERED.get_or_make(key, change_listener.current_since(campaign), make)


def shared_response(
    request: HttpRequest, campaign: int, make: Callable[[], Figure]
) -> HttpResponse:
    """A browser that has the figure already is told so."""
    figure = shared_bytes(request, campaign, lambda: figure_json(make()))
    answer = _json_response(figure)
    if not may_be_shared(request):
        return answer
    tag = quote_etag(sha256(figure).hexdigest()[:20])
    answer["ETag"] = tag
    return get_conditional_response(request, etag=tag, response=answer) or answer


def figure_response(figure: Figure) -> HttpResponse:
    return _json_response(figure_json(figure))


def _json_response(figure: bytes) -> HttpResponse:
    return HttpResponse(
        figure, content_type="application/json", headers={"Cache-Control": "no-cache"}
    )


def with_attempt_origin(figure: Figure, attempt: Attempt) -> Figure:
    campaign = attempt.run.campaign
    return _with_origin(figure, f"{campaign.name} (no. {campaign.pk})", [attempt.run_id])


def with_lines_origin(figure: Figure, lines: Sequence[Group]) -> Figure:
    """The figure, with campaigns and run numbers of what it draws."""
    return _with_origin(figure, *_lines_origin(lines))


def origin_text(lines: Sequence[Group]) -> str:
    """ "Stripe sizes (no. 3); runs 5 to 9": of lines as a picture tells it of itself."""
    campaigns, runs = _lines_origin(lines)
    return f"{campaigns}; runs {number_ranges(runs)}" if lines else ""


def _lines_origin(lines: Sequence[Group]) -> tuple[str, list[int]]:
    names = dict.fromkeys(f"{line.campaign_name} (no. {line.campaign})" for line in lines)
    return ", ".join(names), [sample.run for line in lines for sample in line.samples]


def _with_origin(figure: Figure, campaigns: str, runs: Iterable[int]) -> Figure:
    """The figure, whose `layout.meta.origin` says in words what it was made of."""
    origin = {
        "campaign": campaigns,
        "runs": number_ranges(runs),
        "software": f"BenchLab {benchlab.__version__}",
    }
    meta = {**figure["layout"].get("meta", {}), "origin": origin}
    return {**figure, "layout": {**figure["layout"], "meta": meta}}


def number_ranges(numbers: Iterable[int]) -> str:
    """ "3, 5 to 9": each number once, in order."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    omitted = len(words) - MAX_RANGES
    return ", ".join(words[:MAX_RANGES]) + (f" and {omitted} more ranges" if omitted > 0 else "")
