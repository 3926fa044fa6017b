# SPDX-License-Identifier: Apache-2.0
"""The pages of a share link, /s/<token>/: read only, without an account, and nothing but what was shared.

Each request looks the link up again, and nothing of it is stored anywhere. Cards and a run's page are as everywhere,
with guest's addresses and hidden words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from csp.decorators import csp_replace
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import (
    attempt_figures,
    figure_views,
    request_params,
    run_page,
    sampled_tracks,
    tables,
)
from benchlab.charts.cards import Card, build_cards, with_differences
from benchlab.charts.conditions import line_differences
from benchlab.charts.figure import Figure, figure_json
from benchlab.charts.figure_views import with_attempt_origin
from benchlab.charts.queries import Group, read_groups
from benchlab.runs.models import Artifact, Attempt
from benchlab.runs.outputs import RawRemoved
from benchlab.runs.states import Outcome
from benchlab.sharing import links, report
from benchlab.sharing.links import BY_QUERY, OpenedLink
from benchlab.sharing.models import Share

GuestView = Callable[..., HttpResponseBase]
# Any site may show the page in a frame, and nobody may send a form from it.
EMBEDDABLE = {"frame-ancestors": ["*"], "form-action": ["'none'"]}


def guest_page(view: GuestView) -> GuestView:
    """Decorate `view(request, link, …)`; its Http404 becomes the page of an expired link, with no subject named."""

    @wraps(view)
    def respond(request: HttpRequest, token: str, **rest: Any) -> HttpResponseBase:
        try:
            return seal_response(_respond(view, request, token, rest))
        except BadRequest as error:
            return seal_response(HttpResponse(f"{error}\n", status=400, content_type="text/plain"))

    return login_not_required(require_safe(respond))


def _respond(
    view: GuestView, request: HttpRequest, token: str, rest: dict[str, Any]
) -> HttpResponseBase:
    share = links.open_share(token)
    try:
        if share is not None:
            return view(request, links.open_link(share, token), **rest)
    except Http404:
        pass
    except RawRemoved as error:
        return HttpResponse(f"{error}\n", status=410, content_type="text/plain")
    return render(request, "sharing/gone.html", status=404)


def seal_response(answer: HttpResponseBase) -> HttpResponseBase:
    """The address is the key: no cache, no search engine and no other site may learn it."""
    answer["Cache-Control"] = "no-store"
    answer["Referrer-Policy"] = "no-referrer"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return answer


@guest_page
def shared_page(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    template, context = _template_and_context(request, link)
    links.count_view(link.share)
    base = {"link": link, "share": link.share, "guest": True, "until": link.share.expires_at}
    return render(request, template, {**base, **context, "embeds": _embeds(request, link, context)})


def _template_and_context(request: HttpRequest, link: OpenedLink) -> tuple[str, dict[str, Any]]:
    if link.of_a_run:
        return "sharing/guest_run.html", run_context(link)
    if not shows_anything(link):
        raise Http404
    cards, lines = cards_of(link, request), lines_of(link)
    if link.share.kind in BY_QUERY:
        names = dict.fromkeys(line.campaign_name for line in lines)
        title = link.share.name if link.share.kind == Share.Kind.VIEW else " and ".join(names)
        context = {
            "title": link.redaction.redact_text(title) or "Comparison",
            "cards": cards,
            "lines": lines,
        }
        return "sharing/guest_charts.html", context
    campaign = campaign_of(link)
    if link.share.kind == Share.Kind.REPORT:
        context = link.redaction.redact(report.report_context(campaign))
        return "sharing/guest_report.html", {**context, "cards": cards, "lines": lines}
    plain = link.redaction.redact(campaign)
    campaign_context: dict[str, Any] = {
        "title": plain.name,
        "campaign": plain,
        "cards": cards,
        "lines": lines,
    }
    return "sharing/guest_charts.html", campaign_context


def _embeds(
    request: HttpRequest, link: OpenedLink, context: dict[str, Any]
) -> list[tuple[str, str]]:
    """(title, <iframe …>) of each chart."""
    path = request.build_absolute_uri(reverse("shared-embed", args=[link.token]))
    if link.of_a_run:
        return [("The devices over the run", links.embed_snippet(path, "Devices over the run"))]
    return [
        (card.title, links.embed_snippet(f"{path}?workload={card.workloads[0]}", card.title))
        for card in context["cards"]
    ]


@guest_page
@xframe_options_exempt
@csp_replace(EMBEDDABLE)  # type: ignore[arg-type]
def embed(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    """One chart and nothing else, for another site's page. ?workload= chooses it, ?metric= what it shows."""
    if link.of_a_run:
        title = link.redaction.redact_text(figure_views.attempt_title(attempt_of(link)))
        url = reverse("shared-devices", args=[link.token])
    else:
        card = _chosen_card(
            cards_of(link, request), request_params.line_filter(request.GET).workloads
        )
        title, url = card.title, card.figure_url
    links.count_view(link.share)
    return render(request, "sharing/embed.html", {"title": title, "figure_url": url})


def _chosen_card(cards: list[Card], workloads: frozenset[int]) -> Card:
    chosen = [card for card in cards if not workloads or workloads.intersection(card.workloads)]
    if not chosen:
        raise Http404
    return chosen[0]


@guest_page
def guest_figure(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    """?metric= ?operation= ?latency= ?workload= ?moment=, of the lines that are shared."""
    if link.of_a_run:
        raise Http404
    lines = request_params.line_filter(request.GET).select(lines_of(link))
    title = " and ".join(dict.fromkeys(line.campaign_name for line in lines)) or "nothing chosen"
    return _figure_response(
        link,
        figure_views.build_lines_figure(title, lines, request_params.chart_choice(request.GET)),
    )


@guest_page
def guest_numbers(request: HttpRequest, link: OpenedLink) -> HttpResponseBase:
    if link.of_a_run:
        raise Http404
    lines = request_params.line_filter(request.GET).select(lines_of(link))
    return tables.csv_response(request, lambda: tables.campaign_csv_lines(lines), "numbers.csv")


def _run_figure(build: attempt_figures.AttemptFigure) -> GuestView:
    @guest_page
    def view(request: HttpRequest, link: OpenedLink) -> HttpResponse:
        attempt = attempt_of(link)
        return _figure_response(link, with_attempt_origin(build(attempt, request.GET), attempt))

    return view


run_devices = _run_figure(attempt_figures.device_figure)
run_histogram = _run_figure(attempt_figures.histogram_figure)
run_cpu = _run_figure(attempt_figures.cpu_figure)


@guest_page
def run_cache(request: HttpRequest, link: OpenedLink, which: str) -> HttpResponse:
    attempt = attempt_of(link)
    figure = attempt_figures.draw_caches(attempt, which, sampled_tracks.read_tracks(attempt))
    return _figure_response(link, with_attempt_origin(figure, attempt))


@guest_page
def run_series(request: HttpRequest, link: OpenedLink) -> HttpResponseBase:
    attempt = attempt_of(link)
    tracks = (
        replace(track, device=link.redaction.redact_text(track.device))
        for track in sampled_tracks.iterate_tracks(attempt)
    )
    return tables.csv_response(request, lambda: tables.series_csv_lines(tracks), "series.csv")


@guest_page
def guest_artifact(request: HttpRequest, link: OpenedLink, pk: int) -> HttpResponseBase:
    """Raw output, unless host names are hidden: it would tell them."""
    if not link.of_a_run:
        raise Http404
    return tables.artifact_response(
        request, get_object_or_404(Artifact.objects.visible_to(link.guest), pk=pk)
    )


def _figure_response(link: OpenedLink, figure: Figure) -> HttpResponse:
    return HttpResponse(
        figure_json(link.redaction.redact_figure(figure)), content_type="application/json"
    )


def lines_of(link: OpenedLink) -> list[Group]:
    """Return every line that the guest sees, under the guest's names."""
    return link.redaction.redact_groups(read_groups(link.guest, link.lines.campaigns))


def cards_of(link: OpenedLink, request: HttpRequest) -> list[Card]:
    """Build the cards of the shared page; ?metric= and ?moment= choose what they show without JavaScript."""
    figure, csv = (reverse(name, args=[link.token]) for name in ("shared-figure", "shared-csv"))
    groups = read_groups(link.guest, link.lines.campaigns)
    unequal = (
        link.redaction.redact_differences(line_differences(link.guest, groups)) if groups else {}
    )
    moment_filter = request_params.Filter(moment=request_params.requested_moment(request.GET))
    metric = request_params.requested_metric(request.GET)
    cards = build_cards(link.redaction.redact_groups(groups), figure, csv, moment_filter, metric)
    return with_differences(cards, unequal)


def shows_anything(link: OpenedLink) -> bool:
    """True if a campaign of the link's subject still exists."""
    return Campaign.objects.visible_to(link.guest).exists()


def campaign_of(link: OpenedLink) -> Campaign:
    """Return the link's campaign. Raises Http404 if it is gone or the link is about something else."""
    campaign = Campaign.objects.visible_to(link.guest).filter(pk=link.share.object_id or 0).first()
    if campaign is None or link.of_a_run or link.share.kind in BY_QUERY:
        raise Http404
    return campaign


def attempt_of(link: OpenedLink) -> Attempt:
    """Return the last successful attempt, else the last. Raises Http404 if there is none or the link is to no run."""
    rows = Attempt.objects.visible_to(link.guest).select_related(
        "facts", "layout", "run__campaign", "run__host", "run__topology", "run__workload"
    )
    if not link.of_a_run:
        raise Http404
    attempts = sorted(rows, key=lambda row: (row.outcome == Outcome.SUCCEEDED, row.number))
    if not attempts:
        raise Http404
    return attempts[-1]


def run_context(link: OpenedLink) -> dict[str, Any]:
    """Build the context of benchlab.charts.run_page without links into the app and without the engine's actions."""
    attempt = attempt_of(link)
    run: Run = attempt.run
    context = run_page.attempt_context(run, attempt)
    names = (
        "numbers",
        "measurements",
        "little",
        "latency",
        "devices",
        "sampled",
        "bundled",
        "work",
        "hits",
        "artifacts",
        "elsewhere",
        "meta",
    )
    plain = {name: link.redaction.redact(_as_list(context[name])) for name in names}
    return {
        **plain,
        # Without the lines of raw output, which a guest need not be given.
        "figures": [(row, None) for row in plain["measurements"]],
        "part": link.redaction.redact(replace(context["part"], tracks=())),
        "run": link.redaction.redact(run),
        "attempt": link.redaction.redact(attempt),
        "caches": context["caches"](),
        "meta": [pair for pair in plain["meta"] if pair[0] != "Boot"],
        "offered": not link.share.hide_hosts,
    }


def _as_list(value: Any) -> Any:
    """A queryset is read once, and its rows are copied when words are hidden in them."""
    return list(value) if hasattr(value, "iterator") else value
