# SPDX-License-Identifier: Apache-2.0
"""The pages of a share link, /s/<token>/: read only, without an account, and nothing but what was shared.

Each request looks the link up again, and nothing of it is stored anywhere.
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
from django.utils.html import escape
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from benchlab.charts import attempt_samples, caches, downloads, figure_views, request_params, tables
from benchlab.charts.cards import Card
from benchlab.charts.figure import Figure, figure_json
from benchlab.runs.models import Artifact
from benchlab.runs.outputs import RawRemoved
from benchlab.sharing import guest_content, links, report
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
        return "sharing/guest_run.html", guest_content.run_context(link)
    if not guest_content.shows_anything(link):
        raise Http404
    cards, lines = guest_content.cards_of(link, request), guest_content.lines_of(link)
    if link.share.kind in BY_QUERY:
        names = dict.fromkeys(line.campaign_name for line in lines)
        title = link.share.name if link.share.kind == Share.Kind.VIEW else " and ".join(names)
        context = {
            "title": link.redaction.redact_text(title) or "Comparison",
            "cards": cards,
            "lines": lines,
        }
        return "sharing/guest_charts.html", context
    campaign = guest_content.campaign_of(link)
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
        return [("The devices over the run", embed_snippet(path, "Devices over the run"))]
    return [
        (card.title, embed_snippet(f"{path}?workload={card.workloads[0]}", card.title))
        for card in context["cards"]
    ]


def embed_snippet(url: str, title: str) -> str:
    """Return HTML to paste into another page. It is shown as text, which our page escapes once more."""
    return (
        f'<iframe src="{escape(url)}" title="{escape(title)}" width="100%" height="720"'
        ' loading="lazy" style="border:0"></iframe>'
    )


@guest_page
@xframe_options_exempt
@csp_replace(EMBEDDABLE)  # type: ignore[arg-type]
def embed(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    """One chart and nothing else, for another site's page. ?workload= chooses it, ?metric= what it shows."""
    if link.of_a_run:
        title = link.redaction.redact_text(
            figure_views.attempt_title(guest_content.attempt_of(link))
        )
        url = reverse("shared-devices", args=[link.token])
    else:
        card = _chosen_card(
            guest_content.cards_of(link, request), request_params.line_filter(request.GET).workloads
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
    lines = request_params.line_filter(request.GET).select(guest_content.lines_of(link))
    title = " and ".join(dict.fromkeys(line.campaign_name for line in lines)) or "nothing chosen"
    return _figure_response(
        link,
        figure_views.build_lines_figure(title, lines, request_params.chart_choice(request.GET)),
    )


@guest_page
def guest_numbers(request: HttpRequest, link: OpenedLink) -> HttpResponseBase:
    if link.of_a_run:
        raise Http404
    lines = request_params.line_filter(request.GET).select(guest_content.lines_of(link))
    return downloads.csv_response(request, lambda: tables.campaign_csv_lines(lines), "numbers.csv")


@guest_page
def run_devices(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    attempt = guest_content.attempt_of(link)
    figure = figure_views.device_figure(attempt, request.GET)
    return _figure_response(link, figure_views.with_attempt_origin(figure, attempt))


@guest_page
def run_histogram(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    attempt = guest_content.attempt_of(link)
    figure = figure_views.histogram_figure(attempt, request.GET)
    return _figure_response(link, figure_views.with_attempt_origin(figure, attempt))


@guest_page
def run_cpu(request: HttpRequest, link: OpenedLink) -> HttpResponse:
    attempt = guest_content.attempt_of(link)
    figure = figure_views.cpu_figure(attempt, request.GET)
    return _figure_response(link, figure_views.with_attempt_origin(figure, attempt))


@guest_page
def run_cache(request: HttpRequest, link: OpenedLink, which: str) -> HttpResponse:
    attempt, chart = guest_content.attempt_of(link), caches.find_chart(which)
    if chart is None:
        raise Http404
    facts = attempt.facts.facts if attempt.facts else {}
    tracks, marks = attempt_samples.read_tracks(attempt), attempt_samples.read_windows(attempt)
    figure = caches.build_cache_figure(
        figure_views.attempt_title(attempt), chart, tracks, facts, marks
    )
    return _figure_response(link, figure_views.with_attempt_origin(figure, attempt))


@guest_page
def run_series(request: HttpRequest, link: OpenedLink) -> HttpResponseBase:
    attempt = guest_content.attempt_of(link)
    tracks = (
        replace(track, device=link.redaction.redact_text(track.device))
        for track in attempt_samples.iterate_tracks(attempt)
    )
    return downloads.csv_response(request, lambda: tables.series_csv_lines(tracks), "series.csv")


@guest_page
def guest_artifact(request: HttpRequest, link: OpenedLink, pk: int) -> HttpResponseBase:
    """Raw output, unless host names are hidden: it would tell them."""
    if not link.of_a_run:
        raise Http404
    return downloads.artifact_response(
        request, get_object_or_404(Artifact.objects.visible_to(link.guest), pk=pk)
    )


def _figure_response(link: OpenedLink, figure: Figure) -> HttpResponse:
    return HttpResponse(
        figure_json(link.redaction.redact_figure(figure)), content_type="application/json"
    )
