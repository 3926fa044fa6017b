"""A campaign's report, for its team; guests have theirs under a link."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.charts.cards import campaign_cards, with_differences
from benchlab.charts.conditions import differences
from benchlab.charts.queries import groups
from benchlab.sharing import report as reports
from benchlab.sharing import report_file as files


@require_GET
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """?metric= as on the campaign's page."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    lines = groups(request.user, [campaign.pk])
    unequal = differences(request.user, lines)
    cards = with_differences(campaign_cards(request.user, campaign.pk, request.GET, lines), unequal)
    context = {**reports.context(campaign), "cards": cards, "campaign_lines": lines}
    return render(request, "sharing/report.html", context)


@require_GET
def report_file(request: HttpRequest, pk: int) -> HttpResponse:
    """One HTML file to keep and to send. ?metric= and ?moment= as on the campaign's page; ?numbers=1 adds the runs."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    attached = request.GET.get("numbers") == "1"
    answer = HttpResponse(files.page(request, campaign, attached=attached))
    name = f"campaign-{campaign.pk}-report.html"
    answer["Content-Disposition"] = content_disposition_header(True, name) or ""
    return answer
