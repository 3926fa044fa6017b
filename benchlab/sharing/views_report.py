"""A campaign's report, for its team; guests have theirs under a link."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.charts.cards import campaign_cards, with_differences
from benchlab.charts.conditions import differences
from benchlab.charts.queries import groups
from benchlab.sharing import report as reports


@require_GET
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """?metric= as on the campaign's page."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    lines = groups(request.user, [campaign.pk])
    unequal = differences(request.user, lines)
    cards = with_differences(campaign_cards(request.user, campaign.pk, request.GET, lines), unequal)
    context = {**reports.context(campaign), "cards": cards, "campaign_lines": lines}
    return render(request, "sharing/report.html", context)
