"""A campaign's report, for its team; guests have theirs under a link."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET, require_POST

from benchlab.campaigns.models import Campaign
from benchlab.sharing import report as reports
from benchlab.sharing import report_file as files
from benchlab.sharing import report_texts
from benchlab.team.models import has_role
from benchlab.team.roles import Role
from benchlab.team.services import person


@require_GET
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """?metric= as on the campaign's page."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    return _page(request, campaign)


@require_POST
def report_text(request: HttpRequest, pk: int, place: str) -> HttpResponse:
    """`text` at one of the report's places; `seen` tells which text the form showed."""
    if place not in report_texts.Place.values:
        raise Http404(f"{place[:20]!r} is no place of a report.")
    campaign = get_object_or_404(Campaign.objects.for_user(request.user), pk=pk)
    text = request.POST.get("text", "")
    try:
        report_texts.write(campaign, place, person(request), text, request.POST.get("seen", ""))
    except (ValidationError, report_texts.ChangedMeanwhile) as error:
        texts = report_texts.refused(campaign, place, text, error)
        return _page(request, campaign, texts, status=409)
    return redirect(f"{reverse('campaign-report', args=[pk])}#text-{place}")


def _page(
    request: HttpRequest,
    campaign: Campaign,
    texts: dict[str, report_texts.Written] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = reports.for_member(request, campaign)
    context["writable"] = has_role(request.user, campaign.team_id, Role.OPERATOR)
    if texts is not None:
        context["texts"] = texts
    return render(request, "sharing/report.html", context, status=status)


@require_GET
def report_file(request: HttpRequest, pk: int) -> HttpResponse:
    """One HTML file to keep and to send. ?metric= and ?moment= as on the campaign's page; ?numbers=1 adds the runs."""
    campaign = get_object_or_404(Campaign.objects.visible_to(request.user), pk=pk)
    attached = request.GET.get("numbers") == "1"
    answer = HttpResponse(files.page(request, campaign, attached=attached))
    name = f"campaign-{campaign.pk}-report.html"
    answer["Content-Disposition"] = content_disposition_header(True, name) or ""
    return answer
