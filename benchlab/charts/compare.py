"""Several campaigns, topologies or hosts in one chart, with what differs between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.cards import Card, cards, with_differences
from benchlab.charts.conditions import differences
from benchlab.charts.queries import Group, Person, groups
from benchlab.topologies import moments


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """?campaign=1&campaign=2, narrowed down by ?topology=, ?host=, ?workload=, ?stage=."""
    wanted = request_params.lines(request.GET)
    every = groups(request.user, wanted.campaigns)
    context = {
        "campaigns": _offered(request.user, wanted).only("name", "created_at"),
        "wanted": wanted,
        "lines": wanted.keep(every),
        "topologies": _choices((group.topology, group.topology_name) for group in every),
        "hosts": _choices((group.host, group.host_name) for group in every),
        "workloads": _choices((group.workload, group.workload_name) for group in every),
        "stages": _stages(every, wanted),
        "cards": _cards(request.user, wanted, every, request_params.metric(request.GET)),
    }
    return render(request, "charts/compare.html", context)


def _offered(user: Person, wanted: request_params.Filter) -> QuerySet[Campaign]:
    """To be ticked: also what is archived, where the address names it."""
    seen = Campaign.objects.visible_to(user)
    return seen.filter(Q(archived_at=None) | Q(pk__in=wanted.campaigns))


def _choices(pairs: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(set(pairs), key=lambda pair: pair[1])


def _stages(every: list[Group], wanted: request_params.Filter) -> list[tuple[str, str, bool]]:
    """(value, words, whether ticked) of the moments that were measured, in the order of time."""
    codes = sorted({group.stage for group in every}, key=lambda code: moments.parse(code).rank)
    return [
        (
            code or request_params.BUILT,
            moments.words(code, codes) or "as built",
            code in wanted.stages,
        )
        for code in codes
    ]


def _cards(
    user: Person, wanted: request_params.Filter, every: list[Group], metric: str
) -> list[Card]:
    """A chart for each thing that was done, by whatever workload. Each says under which conditions its lines differ."""
    unequal = differences(user, wanted.keep(every))
    found = replace(wanted, moment=None).keep(every)
    urls = reverse("compare-figure"), reverse("compare-csv")
    return with_differences(cards(found, *urls, wanted, metric), unequal)
