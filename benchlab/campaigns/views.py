"""Pages of campaigns: list, wizard, and the page of one campaign with its live parts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from benchlab.campaigns import (
    awaiting,
    eventlog,
    grid,
    planview,
    points,
    progress,
    troubles,
    whole_presets,
)
from benchlab.campaigns.estimate import Estimate, estimate
from benchlab.campaigns.forms import CampaignForm
from benchlab.campaigns.models import Campaign
from benchlab.campaigns.services import create_campaign
from benchlab.charts.cards import campaign_cards
from benchlab.imports.origin import Origin
from benchlab.pages import Bounded
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase
from benchlab.sharing.models import Kind
from benchlab.sharing.tagged import by_tag
from benchlab.team.services import team_of

PER_PAGE = 25
PAGE = "campaigns/detail.html"
NO_CHANGE = 204  # htmx leaves the page as it is


@require_GET
def campaign_list(request: HttpRequest) -> HttpResponse:
    mine = Campaign.objects.teams_first().for_user(request.user).select_related("created_by")
    rows = by_tag(request, Kind.CAMPAIGN, mine)
    page = Bounded(rows, PER_PAGE).get_page(request.GET.get("page"))
    found = progress.of(page.object_list)
    shown = [{"campaign": row, "progress": found[row.pk]} for row in page.object_list]
    return render(request, "campaigns/list.html", {"page": page, "rows": shown})


@require_http_methods(["GET", "POST"])
def campaign_new(request: HttpRequest) -> HttpResponse:
    """The wizard. GET with ?hosts= and the like fills it in; POST with `estimate` only estimates."""
    if request.method != "POST":
        many: dict[str, Any] = {
            n: request.GET.getlist(n) for n in ("hosts", "topologies", "workloads")
        }
        plain = {
            n: request.GET[n] for n in ("name", "question", "repeats", "order") if n in request.GET
        }
        return _wizard(request, CampaignForm(request.user, initial=many | plain), None)
    form = CampaignForm(request.user, request.POST)
    valid = form.is_valid()
    if "create" in request.POST and valid:
        try:
            return _create(request, form)
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    return _wizard(request, form, _estimate(form))


def _create(request: HttpRequest, form: CampaignForm) -> HttpResponse:
    chosen = form.cleaned_data
    many: dict[str, Any] = {n: list(chosen[n]) for n in ("hosts", "topologies", "workloads")}
    made = create_campaign(team=team_of(request.user), user=request.user, **{**chosen, **many})
    return redirect("campaign-detail", made.pk)


def _estimate(form: CampaignForm) -> Estimate | str | None:
    """The estimate, why there is none, or None while too little is chosen."""
    factors = form.factors()
    if factors is None:
        return None
    try:
        return estimate(**factors)
    except ValidationError as error:
        return " ".join(error.messages)


def _wizard(request: HttpRequest, form: CampaignForm, found: Estimate | str | None) -> HttpResponse:
    context = {
        "form": form,
        "estimate": None if isinstance(found, str) else found,
        "refused": found if isinstance(found, str) else "",
        "presets": whole_presets.ALL,
    }
    part = "#campaign-estimate" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "campaigns/new.html" + part, context)


@require_GET
def campaign_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole page, or with HX-Target one of its live parts. ?log=all shows every line of the log."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    target = request.htmx.target if request.htmx else None  # type: ignore[attr-defined]
    # Where it is over no part asks again by the clock; a retry is told by the campaign's events.
    context: dict[str, Any] = {"campaign": campaign, "progress": progress.of_one(campaign)}
    if campaign.source:
        context |= {"origin": Origin.of(campaign), "sources": campaign.sources.defer("content")}
    if target in PARTS:
        context |= PARTS[target](request, campaign, context["progress"].over)
        if context.get("unchanged"):
            return HttpResponse(status=NO_CHANGE)
        return render(request, f"{PAGE}#{target}", context)
    for part in PARTS.values():
        context |= part(request, campaign, context["progress"].over)
    return render(request, PAGE, context)


def _live(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    return {
        "awaiting": awaiting.of(campaign),
        "stuck": troubles.stuck(campaign),
        "asked": troubles.asked(campaign),
        "failures": troubles.failures(campaign),
        "degraded": troubles.degraded(campaign),
    }


def _grid(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    return {"grid": grid.of(campaign)}


def _plan(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    return {"plans": planview.of(campaign)}


def _running(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    """The running attempts. A chart that is drawn must not be swapped for its like, so `unchanged` leaves it."""
    phases = [AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.COLLECTING]
    found = (
        Attempt.objects.filter(run__campaign=campaign, phase__in=phases)
        .select_related("run__host", "run__topology", "run__workload")
        .order_by("pk")
    )
    # The end is a change too: what is swapped then asks no more.
    shown = ",".join([*(str(attempt.pk) for attempt in found), *(["over"] if over else [])])
    return {
        "running": [(attempt, points.words(attempt.run.point)) for attempt in found],
        "running_shown": shown,
        "unchanged": request.GET.get("shown") == shown,
    }


def _results(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    """A card per workload. Its chart refreshes itself; the cards are swapped when there is one more, and at the end."""
    cards = campaign_cards(request.user, campaign.pk, request.GET)
    shown = ",".join([*(card.key for card in cards), *(["over"] if over else [])])
    return {
        "cards": cards,
        "results_live": not over,
        "results_shown": shown,
        "unchanged": request.GET.get("shown") == shown,
    }


def _log(request: HttpRequest, campaign: Campaign, over: bool) -> dict[str, Any]:
    whole = request.GET.get("log") == "all"
    return {"log": eventlog.of(campaign, None if whole else eventlog.TAIL), "whole": whole}


PARTS = {
    "campaign-live": _live,
    "campaign-plan": _plan,
    "campaign-grid": _grid,
    "campaign-running": _running,
    "campaign-results": _results,
    "campaign-log": _log,
}


def say(request: HttpRequest, text: str, *, error: bool = False) -> None:
    messages.add_message(request, messages.ERROR if error else messages.SUCCESS, text)
